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
		Long: `Lists the migrations and whether each was applied, and says, except with --json,
whether one PostgreSQL has all tables or the statistics are sharded. It changes nothing.`,
		Args: noArguments,
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
				if err := rows.print(); err != nil {
					return err
				}
				return printLayout(ctx, cmd, d.OwnerURL)
			})
		},
	}, "database"))
	distribute := takesSettings(&cobra.Command{
		Use:   "distribute",
		Short: "Shard the statistics by site over the workers of a Citus cluster",
		Long: `Moves the tables of what is counted to the workers of a Citus cluster, each site's
rows to one of them, and leaves all others on the coordinator. It names what the
cluster lacks, and does nothing then. Tables that are sharded already stay as they are:
run it again after an upgrade that brought new ones (waypost migrate status tells).
A table can't be written to while its rows are being moved. It connects as the
database's owner: WAYPOST_DATABASE_OWNER_URL, else DATABASE_URL.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, d *app.Database) error {
				l, err := db.Distribute(ctx, d.OwnerURL, func(table string) {
					fmt.Fprintf(cmd.OutOrStdout(), "Sharded %s\n", table)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Layout: %s.\n", l.Said())
				return nil
			})
		},
	}, "database")
	return group("migrate", "Show or apply schema migrations, and shard the statistics", "", up, status, distribute)
}

// printLayout says how the database is laid out; a list in JSON has no place for it.
func printLayout(ctx context.Context, cmd *cobra.Command, ownerURL string) error {
	if asJSON, err := cmd.Flags().GetBool("json"); err != nil || asJSON {
		return err
	}
	l, err := db.LayoutOf(ctx, ownerURL)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\nLayout: %s.\n", l.Said())
	if l.Pending() {
		fmt.Fprintln(cmd.OutOrStdout(), "waypost migrate distribute shards the rest.")
	}
	return nil
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
