package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/token"
)

func newKeys() *cobra.Command {
	return group("keys", "List and rotate the keys that sign access tokens",
		`Access tokens are signed with a key of the database, encrypted under
WAYPOST_SECRET_KEY. serve replaces it by itself when it is 30 days old.`,
		newKeysList(), newKeysRotate())
}

func newKeysList() *cobra.Command {
	return lists(takesSettings(&cobra.Command{
		Use:   "list",
		Short: "List the keys that verify access tokens, newest first",
		Long: `A key is published for 15 minutes before it signs. When another key has replaced
it, it verifies for half an hour more, until its last token has expired.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServices(cmd, func(s *app.Services) error { return printKeys(cmd, s) })
		},
	}, "database"))
}

func newKeysRotate() *cobra.Command {
	var compromised bool
	cmd := takesSettings(&cobra.Command{
		Use:   "rotate [--compromised]",
		Short: "Replace the signing key now",
		Long: `Without a flag nobody notices: the new key is published at once and signs after
15 minutes, when every copy of the key set has it. The old key verifies until its
last token has expired.

Use --compromised for a key that somebody else may know. Every key then ends at
once: all access tokens are refused, on other processes within a minute, and
clients continue with their refresh tokens. Somebody who knows the key may know
WAYPOST_SECRET_KEY too: change that as well (docs/operations.md).

Needs WAYPOST_SECRET_KEY, which encrypts the new key; with --data-dir that is the
one that dev made.`,
		Example: `  waypost keys rotate
  waypost keys rotate --compromised`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTokens(cmd, func(ctx context.Context, s *app.Services, tokens *token.Service) error {
				rotate := tokens.RotateNow
				if compromised {
					rotate = tokens.Replace
				}
				if err := rotate(ctx); err != nil {
					return err
				}
				return printKeys(cmd, s)
			})
		},
	}, "database")
	cmd.Flags().BoolVar(&compromised, "compromised", false, "end every key at once, and all access tokens with them")
	return cmd
}

// withTokens opens the database and its signing keys for as long as fn runs.
func withTokens(cmd *cobra.Command, fn func(context.Context, *app.Services, *token.Service) error) error {
	c, err := readConfig(cmd)
	if err != nil {
		return err
	}
	if c.SecretKey == "" && c.DatabaseURL != "" {
		return &usageError{errors.New("WAYPOST_SECRET_KEY is missing: set the value that serve runs with")}
	}
	return withServices(cmd, func(s *app.Services) error {
		ctx := commandContext(cmd)
		tokens, err := app.OpenTokens(ctx, s, c)
		if err != nil {
			return err
		}
		return fn(ctx, s, tokens)
	})
}

func printKeys(cmd *cobra.Command, s *app.Services) error {
	keys, err := token.List(cmd.Context(), s.DB, time.Now())
	if err != nil {
		return err
	}
	list := newListing(cmd, "key", "state", "created", "signs from", "verifies until")
	for _, k := range keys {
		list.add(k.ID, k.State, k.CreatedAt, k.SignsFrom, k.VerifiesUntil)
	}
	return list.print()
}
