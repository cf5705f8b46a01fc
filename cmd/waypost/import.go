package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/stats/imports"
)

func newImport() *cobra.Command {
	var siteID, format string
	var newVisitors bool
	cmd := takesSettings(&cobra.Command{
		Use:   "import --site ID --format combined|common|ndjson FILE|-",
		Short: "Backfill a site's traffic from an access log or NDJSON",
		Long: `Log lines with GET and status 200 or 304 become pageviews, except assets and bots.
A line is recognised by its content and its place among equal lines. So the same
file twice counts once, and a file that has grown adds only its new lines. To
complete an import that was interrupted, run it again. Files that are compressed
with gzip are read as they are.

NDJSON lines are events: {"event_id", "ts", "url", "referrer", "name", "props",
"ip", "user_agent"}; ts and url are required. A line with an event_id is
recognised by that alone, also by POST /api/collect/batch.

A file none of whose first 100 lines is in the format is refused before anything
is stored. What a wrong import has counted, "waypost import undo" takes away.

Needs WAYPOST_SECRET_KEY, which encrypts the secret that visitors are recognised
by; with --data-dir that is the one that dev made.`,
		Example: `  waypost import --site 0197… --format combined /var/log/nginx/access.log
  cat access.log.*.gz | waypost import --site 0197… --format combined -
  waypost import list --site 0197…
  waypost import undo 0198…`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(siteID)
			if err != nil {
				return &usageError{fmt.Errorf("--site %q is not an id; `waypost site list` shows them", siteID)}
			}
			if !slices.Contains([]imports.Format{imports.Combined, imports.Common, imports.NDJSON}, imports.Format(format)) {
				return &usageError{fmt.Errorf("--format %q is not one of combined, common, ndjson", format)}
			}
			if err := needSecretKey(cmd); err != nil {
				return err
			}
			file, size, err := openInput(cmd, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return withServices(cmd, func(s *app.Services) error {
				return importFile(cmd, s, id, file, size, imports.Settings{Format: imports.Format(format), Name: filepath.Base(args[0]), NewVisitors: newVisitors})
			})
		},
	}, "database", "import")
	cmd.AddCommand(newImportList(), newImportUndo())
	cmd.Flags().BoolVar(&newVisitors, "new-visitors", false, "import lines of months whose secret was destroyed, too: their visitors count as others than before")
	cmd.Flags().StringVar(&siteID, "site", "", "the site's id")
	cmd.Flags().StringVar(&format, "format", "", "combined, common or ndjson")
	return required(cmd, "site", "format")
}

// needSecretKey is for what opens or makes import secrets.
func needSecretKey(cmd *cobra.Command) error {
	c, err := readConfig(cmd)
	if err == nil && c.SecretKey == "" && c.DatabaseURL != "" {
		err = &usageError{errors.New("WAYPOST_SECRET_KEY is missing: set the value that serve runs with")}
	}
	return err
}

func importFile(cmd *cobra.Command, s *app.Services, id uuid.UUID, file io.Reader, size int64, o imports.Settings) error {
	ctx := commandContext(cmd)
	to, err := s.Sites.Find(ctx, id)
	if err != nil {
		return err
	}
	began := time.Now()
	progress, done := newProgress(cmd, size, began)
	o.Progress = progress
	report, err := s.Importer.Load(ctx, to, file, o)
	done()
	if report.ID == uuid.Nil && err != nil {
		return explain(err) // nothing was begun
	}
	took := time.Since(began)
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "import      %s\n", report.ID)
	fmt.Fprintf(out, "lines read  %d  (in %s, %.0f a second)\nimported    %d\n", report.Lines, took.Round(time.Millisecond), float64(report.Lines)/took.Seconds(), report.Imported)
	for _, reason := range slices.Sorted(maps.Keys(report.Skipped)) {
		fmt.Fprintf(out, "skipped     %d  %s\n", report.Skipped[reason], reason)
	}
	if err != nil {
		return fmt.Errorf("the import was interrupted; the lines counted above are imported, and running it again imports the rest: %w", explain(err))
	}
	return nil
}

// newProgress shows how far an import is: as a bar with rate and time left on a
// terminal, as a line now and then elsewhere. size is -1 when unknown. done ends it.
func newProgress(cmd *cobra.Command, size int64, began time.Time) (progress func(imports.Progress), done func()) {
	screen, isFile := cmd.ErrOrStderr().(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return progressLines(cmd.ErrOrStderr(), size, began, time.Now), func() {}
	}
	// What it says is ours: the bar's own rate and time left are of its first frame, before
	// anything was measured.
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(cmd.ErrOrStderr()),
		progressbar.OptionSetDescription("importing: reading the first lines"),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// Drawing is no part of the work, so its failures aren't either.
	_ = bar.RenderBlank()
	return func(p imports.Progress) {
		bar.Describe(progressText(p, size, time.Since(began)))
		_ = bar.Set64(p.Bytes)
	}, func() { _ = bar.Exit() }
}

// measuredFor is how long an import must have run before its rate says how long it will.
const measuredFor = 2 * time.Second

// progressText says how far an import is, with the time left once that can be told and
// the size is known.
func progressText(p imports.Progress, size int64, took time.Duration) string {
	text := fmt.Sprintf("importing: %d lines, %d imported", p.Lines, p.Imported)
	if took < measuredFor {
		return text
	}
	text += fmt.Sprintf(", %.0f lines a second", float64(p.Lines)/took.Seconds())
	if size > 0 && p.Bytes > 0 {
		remaining := time.Duration(float64(took) * float64(max(0, size-p.Bytes)) / float64(p.Bytes))
		text += fmt.Sprintf(", %d%%, about %s left", min(100, p.Bytes*100/size), remaining.Round(time.Second))
	}
	return text
}

// lineEvery is how often an import without a terminal says how far it is.
const lineEvery = 10 * time.Second

// progressLines writes a line to out every lineEvery, with the time left when the
// size is known.
func progressLines(out io.Writer, size int64, began time.Time, now func() time.Time) func(imports.Progress) {
	said := began
	return func(p imports.Progress) {
		at := now()
		if at.Sub(said) < lineEvery {
			return
		}
		said = at
		fmt.Fprintln(out, progressText(p, size, at.Sub(began)))
	}
}

// openInput opens a file, or standard input for "-". The size is -1 when unknown.
func openInput(cmd *cobra.Command, name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, -1, err
	}
	return f, info.Size(), nil
}
