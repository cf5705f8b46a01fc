package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
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
	s, err := app.OpenServices(cmd.Context(), c, announce(cmd))
	if err != nil {
		return refused(err)
	}
	return errors.Join(explain(fn(s)), s.Close())
}

// withDatabase finds the database for as long as fn runs, which works as its owner.
func withDatabase(cmd *cobra.Command, fn func(context.Context, *app.Database) error) error {
	c, err := readConfig(cmd)
	if err != nil {
		return err
	}
	d, err := app.OpenDatabase(cmd.Context(), c, app.QuietLogger())
	if err != nil {
		return refused(err)
	}
	announce(cmd)(d.OwnerName())
	return errors.Join(fn(cmd.Context(), d), d.Close())
}

// announce says what a command works on: beside its output, which scripts read.
func announce(cmd *cobra.Command) func(database string) {
	return func(database string) { fmt.Fprintf(cmd.ErrOrStderr(), "Database: %s\n", database) }
}

// refused makes a usage error of what the command line got wrong.
func refused(err error) error {
	if errors.Is(err, app.ErrTwoDatabases) {
		return &usageError{err}
	}
	return err
}

// commandContext is the command's context, acting as whoever runs it.
func commandContext(cmd *cobra.Command) context.Context {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return identity.NewContext(cmd.Context(), identity.Command(name, strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")))
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
