package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newServe() *cobra.Command {
	var migrate bool
	cmd := takesSettings(&cobra.Command{
		Use:   "serve",
		Short: "Run in production, on your own PostgreSQL",
		Long: `Needs DATABASE_URL, WAYPOST_URL and WAYPOST_SECRET_KEY, seeds nothing, and logs
to standard error. SIGTERM or Ctrl-C stops it gracefully: requests and jobs in
flight are finished first.`,
		Example: `  export DATABASE_URL=postgres://waypost@db.internal/waypost
  export WAYPOST_URL=https://api.example.com WAYPOST_SECRET_KEY="$(openssl rand -base64 48)"
  waypost migrate up && waypost serve --addr :8080`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			if missing := c.ServeErrors(); len(missing) > 0 {
				return &usageError{fmt.Errorf("serve cannot start:\n  %s", strings.Join(missing, "\n  "))}
			}
			return app.Serve(cmd.Context(), c, app.ServeOptions{Migrate: migrate, Log: cmd.ErrOrStderr(), LookupSecret: os.Getenv, Extensions: extensions()})
		},
	}, "server")
	cmd.Flags().BoolVar(&migrate, "migrate", false, "apply missing migrations before starting")
	return cmd
}
