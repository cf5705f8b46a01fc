package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
)

func newOpenAPI() *cobra.Command {
	var format string
	cmd := takesSettings(&cobra.Command{
		Use:     "openapi [--format json|yaml]",
		Short:   "Print the API description; needs no database",
		Example: "  waypost openapi --format yaml > openapi.yaml",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			docs, err := app.Describe(c)
			if err != nil {
				return err
			}
			var out []byte
			switch format {
			case "json":
				out, err = docs.JSON()
			case "yaml":
				out, err = docs.YAML()
			default:
				return &usageError{fmt.Errorf("--format %q is neither json nor yaml", format)}
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}, "server")
	cmd.Flags().StringVar(&format, "format", "json", "json or yaml")
	return cmd
}
