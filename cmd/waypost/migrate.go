package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/app"
)

func newMigrate() *cobra.Command {
	up := takesSettings(&cobra.Command{
		Use:   "up",
		Short: "Bring the database to this program's schema",
		Long: `Applies what is missing, under a lock: any number may run at once, one works.
Connects as the database's owner: WAYPOST_DATABASE_OWNER_URL, else DATABASE_URL.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOwner(cmd, func(ctx context.Context, url string) error {
				if err := db.Migrate(ctx, url); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "The database is up to date.")
				return nil
			})
		},
	}, "database")
	status := takesSettings(&cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether each was applied",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOwner(cmd, func(ctx context.Context, url string) error {
				list, err := db.Status(ctx, url)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "VERSION\tMIGRATION\tSTATE")
				for _, m := range list {
					state := "pending"
					if m.Applied {
						state = "applied"
					}
					fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Name, state)
				}
				return w.Flush()
			})
		},
	}, "database")
	return group("migrate", "Show or apply schema migrations", "", up, status)
}

func withOwner(cmd *cobra.Command, fn func(ctx context.Context, ownerURL string) error) error {
	c, err := readConfig(cmd)
	if err != nil {
		return err
	}
	d, err := app.OpenDatabase(cmd.Context(), c, app.QuietLogger())
	if err != nil {
		return err
	}
	defer d.Close()
	return fn(cmd.Context(), d.OwnerURL)
}
