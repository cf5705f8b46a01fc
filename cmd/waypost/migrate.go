package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/app"
)

func newMigrate() *cobra.Command {
	up := takesSettings(&cobra.Command{
		Use:   "up",
		Short: "Bring the database to this program's schema",
		Long: `Applies the missing migrations under a lock: if several processes run this at once,
only one of them works. It also restores roles, memberships and rights that a
restored backup lost. It connects as the database's owner:
WAYPOST_DATABASE_OWNER_URL, else DATABASE_URL.

Older programs that still run keep working on the new schema, unless the changelog
says otherwise: migrate first, then restart them one by one.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, d *app.Database) error {
				done, err := db.Upgrade(ctx, db.UpgradeOptions{OwnerURL: d.OwnerURL, AppURL: d.URL, ViewerURL: d.ViewerURL})
				printUpgraded(cmd.OutOrStdout(), done)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "The database is up to date.")
				return nil
			})
		},
	}, "database")
	status := lists(takesSettings(&cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether each was applied; changes nothing",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, d *app.Database) error {
				list, err := db.Status(ctx, d.OwnerURL)
				if err != nil {
					return err
				}
				rows := newListing(cmd, "version", "migration", "state")
				for _, m := range list {
					state := "pending"
					if m.Applied {
						state = "applied"
					}
					rows.add(m.Version, cmp.Or(m.Name, "(of a newer waypost)"), state)
				}
				return rows.print()
			})
		},
	}, "database"))
	return group("migrate", "Show or apply schema migrations", "", up, status)
}

// printUpgraded says what was done, also by an upgrade that then failed.
func printUpgraded(out io.Writer, done db.Upgraded) {
	for _, m := range done.Applied {
		fmt.Fprintf(out, "Applied %s\n", m.Name)
	}
	for _, v := range done.River {
		fmt.Fprintf(out, "Applied migration %d of the job queue\n", v)
	}
	for _, sql := range done.Restored {
		fmt.Fprintf(out, "Restored: %s\n", sql)
	}
	if done.Newer > 0 {
		fmt.Fprintf(out, "The database's schema, %d, is newer than this program's, and compatible with it.\n", done.Newer)
	}
}
