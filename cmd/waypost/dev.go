package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newDev() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine, with demo data",
		Long: `The only set-up command. Without DATABASE_URL it starts a private PostgreSQL under
the data directory. Then it migrates, seeds demo data once, listens, and prints
what to try. It writes the values that it generates (passwords, keys, secrets) to
<data-dir>/dev.env, for scripts to source; a value set in the environment wins.

With DATABASE_URL it works on that database, if the database is empty or was made
by an earlier dev. It refuses a database with accounts or sites that no dev made,
before it writes anything.

Ctrl-C stops it and its PostgreSQL; the data stays. Delete the data directory to
start afresh.`,
		Example: `  waypost dev
  waypost dev --addr 127.0.0.1:0 --data-dir /tmp/try`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			return app.RunDev(cmd.Context(), c, app.DevOptions{Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(), LookupEnv: os.Getenv, Extensions: extensions()})
		},
	}, "server", "database")
}
