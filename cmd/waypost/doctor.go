package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newDoctor() *cobra.Command {
	return lists(takesSettings(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with an installation, and say how to mend it",
		Long: `Reads the settings and the configuration file as serve would, connects to the
database, the mail server and the storage of files, and looks at migrations, roles,
clock and secret key. It changes nothing and sends nothing.

The exit status is 1 if anything is wrong. What is marked "look" works, and may not be
what you mean.`,
		Example: `  waypost doctor
  waypost doctor --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var findings []app.Finding
			if c, err := readConfig(cmd); err != nil {
				findings = []app.Finding{{Part: "settings", Verdict: app.Wrong, Said: err.Error(), Mend: "waypost help config"}}
			} else {
				findings = app.Diagnose(cmd.Context(), c, app.DoctorOptions{LookupSecret: os.Getenv, Now: time.Now, Extensions: extensions()})
			}
			if err := printFindings(cmd, findings); err != nil {
				return err
			}
			if !app.Healthy(findings) {
				return errors.New("something is wrong; the lines above say what, and how to mend it")
			}
			return nil
		},
	}, "server", "database"))
}

func printFindings(cmd *cobra.Command, findings []app.Finding) error {
	if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
		list := newListing(cmd, "part", "verdict", "said", "mend")
		for _, f := range findings {
			list.add(f.Part, f.Verdict, f.Said, f.Mend)
		}
		return list.print()
	}
	for _, f := range findings {
		fmt.Fprintf(cmd.OutOrStdout(), "%-6s %-11s %s\n", f.Verdict, f.Part, f.Said)
		if f.Mend != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%-18s -> %s\n", "", f.Mend)
		}
	}
	return nil
}
