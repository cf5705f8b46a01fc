package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/identity"
)

func newUser() *cobra.Command {
	return group("user", "Create accounts, set their roles, and let people back in",
		"There is no default account outside dev: make the first ADMIN with `waypost user create --role ADMIN`.",
		newUserCreate(), newUserSetRole(), newUserSetPassword(), newUserVerify(), newUserRemoveTwoFactor())
}

func newUserCreate() *cobra.Command {
	var n account.NewUser
	var role string
	cmd := takesSettings(&cobra.Command{
		Use:   "create --email ADDRESS --first-name NAME --last-name NAME [--role ROLE]",
		Short: "Create an account",
		Long: `On a terminal, the command asks for the password; otherwise it reads the password
from the first line of standard input. So the password appears in no process list
and in no shell history.`,
		Example: `  waypost user create --email ada@example.com --first-name Ada --last-name Lovelace --role ADMIN
  pass show waypost/ada | waypost user create --email ada@example.com --first-name Ada --last-name Lovelace`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n.Role = identity.Role(strings.ToUpper(role))
			if err := n.CheckProfile(); err != nil {
				return &usageError{explain(err)}
			}
			return withServices(cmd, func(s *app.Services) error {
				password, err := readPassword(cmd)
				if err != nil {
					return err
				}
				n.Password = password
				u, err := s.Accounts.Create(commandContext(cmd), n)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Created user %d, %s, %s.\n", u.ID, u.Email, u.Role)
				return nil
			})
		},
	}, "database")
	cmd.Flags().StringVar(&n.Email, "email", "", "e-mail address, which signs in")
	cmd.Flags().StringVar(&n.FirstName, "first-name", "", "first name, 2 characters or more")
	cmd.Flags().StringVar(&n.LastName, "last-name", "", "last name, 2 characters or more")
	cmd.Flags().StringVar(&role, "role", string(identity.User), "ADMIN, EDITOR or USER")
	return required(cmd, "email", "first-name", "last-name")
}

func newUserSetRole() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:     "set-role ADDRESS ROLE",
		Short:   "Change an account's role; it takes effect with the account's next request",
		Example: "  waypost user set-role ada@example.com EDITOR",
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServices(cmd, func(s *app.Services) error {
				u, err := s.Accounts.SetRole(commandContext(cmd), args[0], identity.Role(strings.ToUpper(args[1])))
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is now %s.\n", u.Email, u.Role)
				return nil
			})
		},
	}, "database")
}

func newUserSetPassword() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:   "set-password ADDRESS",
		Short: "Set an account's password, end its sessions and API tokens, lift its blocks",
		Long: `For people who can't get mail; all others can ask for a link with
POST /api/auth/password/forgot. The password is read as in user create. A second
factor stays on.`,
		Example: "  waypost user set-password ada@example.com",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServices(cmd, func(s *app.Services) error {
				password, err := readPassword(cmd)
				if err != nil {
					return err
				}
				if err := s.Accounts.SetPassword(commandContext(cmd), args[0], password); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "The password of %s is set.\n", args[0])
				return nil
			})
		},
	}, "database")
}

func newUserVerify() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:   "verify ADDRESS",
		Short: "Take an account's e-mail address as verified, and leave all else as it is",
		Long: `For people who can't get mail. Make sure that the address is theirs and that they made
the account: whoever registered it keeps its password and its sessions.`,
		Example: "  waypost user verify ada@example.com",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServices(cmd, func(s *app.Services) error {
				if err := s.Accounts.Vouch(commandContext(cmd), args[0]); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "The address %s is verified.\n", args[0])
				return nil
			})
		},
	}, "database")
}

func newUserRemoveTwoFactor() *cobra.Command {
	return takesSettings(&cobra.Command{
		Use:   "remove-2fa ADDRESS",
		Short: "Turn an account's two-factor authentication off and end its sessions",
		Long: `For people who lost their device and their recovery codes. Make sure that it is
the account's owner who asks: afterwards the password alone is enough to sign in.`,
		Example: "  waypost user remove-2fa ada@example.com",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServices(cmd, func(s *app.Services) error {
				if err := s.Accounts.RemoveTOTP(commandContext(cmd), args[0]); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Two-factor authentication of %s is off.\n", args[0])
				return nil
			})
		},
	}, "database")
}

// readPassword asks on a terminal and reads a line elsewhere.
func readPassword(cmd *cobra.Command) (string, error) {
	in, isFile := cmd.InOrStdin().(*os.File)
	if isFile && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(cmd.ErrOrStderr(), "Password (8 to 128 characters, not shown): ")
		b, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(b), err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return "", &usageError{errors.New("no password: give it as the first line of standard input, or run this on a terminal")}
	}
	return password, nil
}
