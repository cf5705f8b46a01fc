package main

import (
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waypost/waypost/internal/app"
)

func newStats() *cobra.Command {
	return group("stats", "Make statistics anew", "", newStatsRebuild())
}

func newStatsRebuild() *cobra.Command {
	var siteID string
	cmd := takesSettings(&cobra.Command{
		Use:   "rebuild --site ID",
		Short: "Make a site's rollups anew from its events",
		Long: `Counts each day of a site anew from its events: its rollups, and the columns that
filtered questions are answered from. This is for a new version that counts or filters
by something more; "what's new" says so. Traffic is collected and questions are answered
meanwhile. Days whose events are deleted by the retention keep what they have. It may be
interrupted and run again.`,
		Example: "  waypost stats rebuild --site 0197…",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := uuid.Parse(siteID)
			if err != nil {
				return &usageError{fmt.Errorf("--site %q is not an id; `waypost site list` shows them", siteID)}
			}
			return withServices(cmd, func(s *app.Services) error {
				began := time.Now()
				progress, done := rebuildProgress(cmd)
				days, err := s.Rollups.Rebuild(commandContext(cmd), id, progress)
				done()
				if err != nil {
					return explain(err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "days made anew  %d  (in %s)\n", days, time.Since(began).Round(time.Millisecond))
				return nil
			})
		},
	}, "database")
	cmd.Flags().StringVar(&siteID, "site", "", "the site's id")
	return required(cmd, "site")
}

// rebuildProgress shows how far it is: as a bar on a terminal, as a line for each month
// elsewhere. done ends it.
func rebuildProgress(cmd *cobra.Command) (progress func(day time.Time, done, total int), done func()) {
	screen, isFile := cmd.ErrOrStderr().(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return func(day time.Time, n, total int) {
			if day.Day() == 1 || n == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: day %d of %d\n", day.Format(time.DateOnly), n+1, total)
			}
		}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(cmd.ErrOrStderr()), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	// Drawing is no part of the work, so its failures aren't either.
	return func(day time.Time, n, total int) {
		bar.ChangeMax(total)
		bar.Describe(day.Format(time.DateOnly))
		_ = bar.Set(n)
	}, func() { _ = bar.Exit() }
}
