package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// withServices opens the database for as long as fn runs.
func withServices(cmd *cobra.Command, fn func(*app.Services) error) error {
	c, err := readConfig(cmd)
	if err != nil {
		return err
	}
	s, err := app.OpenServices(cmd.Context(), c)
	if err != nil {
		return err
	}
	return errors.Join(explain(fn(s)), s.Close())
}

// systemContext is the command's context, acting as Waypost itself.
func systemContext(cmd *cobra.Command) context.Context {
	return identity.NewContext(cmd.Context(), identity.System("cli"))
}

// explain shows a fault as a person reads it: its sentence and its details.
func explain(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	lines := []string{f.Message}
	for field, sentence := range f.Details {
		lines = append(lines, fmt.Sprintf("  %s: %s", field, sentence))
	}
	slices.Sort(lines[1:])
	return errors.New(strings.Join(lines, "\n"))
}

// required marks flags without which the command can't work.
func required(cmd *cobra.Command, names ...string) *cobra.Command {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		var missing []string
		for _, name := range names {
			if !cmd.Flags().Changed(name) {
				missing = append(missing, "--"+name)
			}
		}
		if len(missing) > 0 {
			return &usageError{fmt.Errorf("%s needs %s", cmd.CommandPath(), strings.Join(missing, ", "))}
		}
		return check(cmd, args)
	}
	return cmd
}
