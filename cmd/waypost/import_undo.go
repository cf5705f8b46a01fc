package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/stats/imports"
)

func newImportList() *cobra.Command {
	var siteID string
	cmd := lists(takesSettings(&cobra.Command{
		Use:   "list [--site ID]",
		Short: "List imports, newest first",
		Long: `An import that was killed is shown as running until the site's next one begins. Its
lines of the last seconds are missing in the count, but not what it imported.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id := uuid.Nil
			if siteID != "" {
				var err error
				if id, err = uuid.Parse(siteID); err != nil {
					return &usageError{fmt.Errorf("--site %q is not an id; `waypost site list` shows them", siteID)}
				}
			}
			return withServices(cmd, func(s *app.Services) error { return listImports(cmd, s, id) })
		},
	}, "database"))
	cmd.Flags().StringVar(&siteID, "site", "", "only of the site with this id")
	return cmd
}

func listImports(cmd *cobra.Command, s *app.Services, siteID uuid.UUID) error {
	rows := newListing(cmd, "import", "site", "file", "format", "state", "began", "ended", "lines", "imported", "from", "to")
	const pageSize = 100
	for after := (*imports.Imported)(nil); ; {
		list, err := s.Importer.Imports(cmd.Context(), siteID, after, pageSize)
		if err != nil {
			return err
		}
		for _, i := range list {
			rows.add(i.ID, i.SiteID, i.Name, i.Format, i.State, i.BeganAt, i.EndedAt, i.Lines, i.Events, i.FirstAt, i.LastAt)
		}
		if len(list) < pageSize {
			return rows.print()
		}
		after = &list[len(list)-1]
	}
}

func newImportUndo() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:   "undo IMPORT",
		Short: "Take away what an import has counted",
		Long: `Deletes the events of one import and puts right the sessions that they were part
of. The numbers of its days are right at once; a running server then counts these
days anew, which makes reading them fast again. The file can be imported again.

Another import of the same site that is running stops: run it again afterwards.
An undoing that is interrupted goes on when it is run again. Days whose single
visits are gone, by retention, keep what was counted in them. What was imported by
an earlier version of Waypost can't be undone.`,
		Example: "  waypost import undo 0198…",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return &usageError{fmt.Errorf("%q is not an id; `waypost import list` shows them", args[0])}
			}
			return withServices(cmd, func(s *app.Services) error {
				said := time.Now()
				done, err := s.Importer.Undo(commandContext(cmd), id, func(u imports.Undoing) {
					if now := time.Now(); now.Sub(said) >= lineEvery {
						said = now
						fmt.Fprintf(cmd.ErrOrStderr(), "undoing: %d of %d days, %d events\n", u.DaysDone, u.Days, u.Events)
					}
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "events taken away  %d\n", done.Events)
				if done.Kept > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "days kept          %d  (their single visits are gone)\n", done.Kept)
				}
				return nil
			})
		},
	}, "database")
}
