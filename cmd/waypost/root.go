package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// usageError is a wrong command line, as opposed to work that failed.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "waypost",
		Short: "A JSON backend whose documentation, webhooks and statistics can be trusted",
		Long: `Waypost is one program beside one PostgreSQL: a JSON-over-HTTP backend whose
description is derived from its handlers, a webhook receiver that never loses a
delivery, and cookie-less site statistics.

Start here:

  waypost dev            everything on this machine, with demo data
  waypost serve          production, on your own PostgreSQL
  waypost help config    every setting

A command that needs a database works on the one of DATABASE_URL, or on the private
one that a dev made. --data-dir names the directory of that dev; the default is
.waypost. A command refuses if it is given both, by flag or variable, or finds
neither; only dev creates a database. Each command says on standard error which
database it works on.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDev(), newServe(), newMigrate(), newOpenAPI(), newUser(), newKeys(), newSite(), newImport(), newWebhook(), newAudit(), newConfigHelp())
	return root
}

// usageArgs marks what an argument check refuses as a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// group is a command that only holds others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// onlyCommands refuses an argument that is no command, and suggests one that is.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return &usageError{fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, " or "))}
	}
	return &usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])}
}

// takesSettings adds the flags of the settings that are for any of groups.
func takesSettings(cmd *cobra.Command, groups ...string) *cobra.Command {
	for _, s := range config.Settings() {
		for _, g := range groups {
			if s.Flag != "" && s.For == g {
				cmd.Flags().String(s.Flag, s.Default, fmt.Sprintf("%s [%s]", s.Help, s.Variable))
			}
		}
	}
	return cmd
}

// readConfig reads the environment and those of cmd's flags that were given.
func readConfig(cmd *cobra.Command) (config.Config, error) {
	given := map[string]string{}
	for _, s := range config.Settings() {
		if f := cmd.Flags().Lookup(s.Flag); s.Flag != "" && f != nil && f.Changed {
			given[s.Variable] = f.Value.String()
		}
	}
	c, err := config.Read(os.Environ(), given)
	if err != nil {
		return config.Config{}, &usageError{err}
	}
	return c, nil
}

// newConfigHelp is a help topic: `waypost help config`.
func newConfigHelp() *cobra.Command {
	topic := &cobra.Command{
		Use:   "config",
		Short: "Every setting: variable, flag, default, meaning",
	}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		fmt.Fprint(out, "Settings come from the environment. If a setting also has a flag, the flag wins. An\nunknown WAYPOST_ variable is an error.\n\n")
		w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "VARIABLE\tFLAG\tDEFAULT\tMEANING")
		for _, s := range config.Settings() {
			flag, def := "-", "-"
			if s.Flag != "" {
				flag = "--" + s.Flag
			}
			if s.Default != "" {
				def = s.Default
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Variable, flag, def, s.Help)
		}
		for _, p := range slices.Concat(webhook.BuiltIn(), extensions().Providers) {
			fmt.Fprintf(w, "%s\t-\t-\tSecret of the webhook provider %s; %s_PREVIOUS is accepted too\n", p.SecretEnv, p.Name, p.SecretEnv)
		}
		_ = w.Flush() // standard output is gone when this fails
	})
	return topic
}
