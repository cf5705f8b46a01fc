package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and Go's version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := app.ThisBuild()
			if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"version": b.Version, "commit": b.Commit, "go": b.Go})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "waypost %s, commit %s, %s\n", b.Version, b.Commit, b.Go)
			return err
		},
	}
	cmd.Flags().Bool("json", false, "print a JSON object")
	return cmd
}
