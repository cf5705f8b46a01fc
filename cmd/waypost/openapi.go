package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/app"
)

func newOpenAPI() *cobra.Command {
	var format, output string
	names := formNames()
	cmd := takesSettings(&cobra.Command{
		Use:   "openapi [--format FORM] [--output FILE]",
		Short: "Print the API description or an export of it; needs no database",
		Example: "  waypost openapi --format yaml > openapi.yaml\n" +
			"  waypost openapi --format postman --url https://api.example.com --output collection.json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(names, format) {
				return &usageError{fmt.Errorf("--format %q is not one of %s", format, strings.Join(names, ", "))}
			}
			c, err := readConfig(cmd)
			if err != nil {
				return err
			}
			docs, err := app.Describe(c, extensions())
			if err != nil {
				return err
			}
			out, err := docs.Bytes(apidoc.Form(format))
			if err != nil {
				return err
			}
			if output != "" {
				return os.WriteFile(output, out, 0o644)
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}, "server")
	cmd.Flags().StringVar(&format, "format", string(apidoc.JSON), strings.Join(names, ", "))
	cmd.Flags().StringVar(&output, "output", "", "file to write; default is standard output")
	return cmd
}

func formNames() []string {
	var names []string
	for _, form := range apidoc.Forms() {
		names = append(names, string(form))
	}
	return names
}
