package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/stats"
)

func newImport() *cobra.Command {
	var siteID, format string
	cmd := takesSettings(&cobra.Command{
		Use:   "import --site ID --format combined|common|ndjson FILE|-",
		Short: "Backfill a site's traffic from an access log or NDJSON",
		Long: `Log lines with GET and status 200 or 304 become pageviews, except assets and bots.
A line is recognised by its content and its place among equal lines. So the same
file twice counts once, and a file that has grown adds only its new lines. To
complete an import that was interrupted, run it again.

NDJSON lines are events: {"ts", "url", "referrer", "name", "props", "ip",
"user_agent"}; ts and url are required.`,
		Example: `  waypost import --site 0197… --format combined /var/log/nginx/access.log
  zcat access.log.*.gz | waypost import --site 0197… --format combined -`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(siteID)
			if err != nil {
				return &usageError{fmt.Errorf("--site %q is not an id; `waypost site list` shows them", siteID)}
			}
			if !slices.Contains([]stats.Format{stats.Combined, stats.Common, stats.NDJSON}, stats.Format(format)) {
				return &usageError{fmt.Errorf("--format %q is not one of combined, common, ndjson", format)}
			}
			file, size, err := openInput(cmd, args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return withServices(cmd, func(s *app.Services) error {
				return importFile(cmd, s, id, stats.Format(format), file, size)
			})
		},
	}, "database")
	cmd.Flags().StringVar(&siteID, "site", "", "the site's id")
	cmd.Flags().StringVar(&format, "format", "", "combined, common or ndjson")
	return required(cmd, "site", "format")
}

func importFile(cmd *cobra.Command, s *app.Services, id uuid.UUID, format stats.Format, file io.Reader, size int64) error {
	ctx := commandContext(cmd)
	to, err := s.Sites.Find(ctx, id)
	if err != nil {
		return err
	}
	began := time.Now()
	progress, done := newProgress(cmd, size, began)
	report, err := s.Importer.Import(ctx, to, file, format, progress)
	done()
	took := time.Since(began)
	out := cmd.OutOrStdout()
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
func newProgress(cmd *cobra.Command, size int64, began time.Time) (progress func(stats.Progress), done func()) {
	screen, isFile := cmd.ErrOrStderr().(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return progressLines(cmd.ErrOrStderr(), size, began, time.Now), func() {}
	}
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(cmd.ErrOrStderr()),
		progressbar.OptionSetDescription("importing"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// Drawing is no part of the work, so its failures aren't either.
	return func(p stats.Progress) { _ = bar.Set64(p.Bytes) }, func() { _ = bar.Exit() }
}

// lineEvery is how often an import without a terminal says how far it is.
const lineEvery = 10 * time.Second

// progressLines writes a line to out every lineEvery, with the time left when the
// size is known.
func progressLines(out io.Writer, size int64, began time.Time, now func() time.Time) func(stats.Progress) {
	said := began
	return func(p stats.Progress) {
		at := now()
		if at.Sub(said) < lineEvery {
			return
		}
		said = at
		took := at.Sub(began)
		left := ""
		if size > 0 && p.Bytes > 0 {
			remaining := time.Duration(float64(took) * float64(size-p.Bytes) / float64(p.Bytes))
			left = fmt.Sprintf(", %d%%, about %s left", p.Bytes*100/size, remaining.Round(time.Second))
		}
		fmt.Fprintf(out, "importing: %d lines, %d imported, %.0f lines a second%s\n", p.Lines, p.Imported, float64(p.Lines)/took.Seconds(), left)
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
