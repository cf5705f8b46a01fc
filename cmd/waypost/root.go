package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newDev(), newServe(), newMigrate(), newOpenAPI(), newUser(), newKeys(), newSite(), newImport(), newStats(), newWebhook(), newAudit(), newDoctor(), newVersion(), newConfigHelp())
	return root
}

// wrongFlag says which flag an unknown one is nearest to.
func wrongFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return &usageError{err}
	}
	nearest, distance := "", 4
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := levenshtein.ComputeDistance(f.Name, unknown.GetSpecifiedName()); d < distance {
			nearest, distance = f.Name, d
		}
	})
	if nearest == "" {
		return &usageError{err}
	}
	return &usageError{fmt.Errorf("%w; did you mean --%s?", err, nearest)}
}

// newHelp is `waypost help`, which is an error for a command that there is not.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return onlyCommands(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// noArguments refuses every argument.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%s takes flags only, and was given %q; a flag that is true or false takes its value after =, as in --flag=false", cmd.CommandPath(), args[0])}
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
	nearest, distance := "", 3
	for _, c := range cmd.Commands() {
		if d := levenshtein.ComputeDistance(c.Name(), args[0]); d < distance && d < len(args[0]) {
			nearest, distance = c.Name(), d
		}
	}
	if nearest != "" {
		return &usageError{fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], nearest)}
	}
	return &usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])}
}

// takesSettings adds the flags of the settings that are for any of groups.
func takesSettings(cmd *cobra.Command, groups ...string) *cobra.Command {
	for _, s := range config.Settings() {
		takes := slices.ContainsFunc(strings.Split(s.For, ","), func(g string) bool { return slices.Contains(groups, g) })
		if s.Flag == "" || !takes {
			continue
		}
		help := fmt.Sprintf("%s [%s]", s.Help, s.Variable)
		if s.Switch {
			value := onOff(s.Default)
			cmd.Flags().VarPF(&value, s.Flag, "", help).NoOptDefVal = "true"
			continue
		}
		cmd.Flags().String(s.Flag, s.Default, help)
	}
	return cmd
}

// onOff is the value of a flag that is true or false, and true without a value. What it
// is given is judged with the other settings.
type onOff string

func (v *onOff) String() string     { return string(*v) }
func (v *onOff) Set(s string) error { *v = onOff(s); return nil }
func (v *onOff) Type() string       { return "bool" }

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
