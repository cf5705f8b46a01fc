package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/site"
)

func newSite() *cobra.Command {
	return group("site", "Create sites and manage their keys",
		"A site has one public key, for its pages to report visits with, and secret keys,\nfor servers to read its statistics (scope read) or report visits (scope ingest).",
		newSiteCreate(), newSiteList(), newSiteUpdate(), newSiteDelete(), newSiteDrops(), newSiteForgetImport(),
		group("key", "Create, rotate and revoke a site's secret keys", "",
			newKeyCreate(), newKeyList(), newKeyRotate(), newKeyRevoke()))
}

func newSiteCreate() *cobra.Command {
	var name, domain, timezone string
	cmd := takesSettings(&cobra.Command{
		Use:     "create --name NAME --domain HOST [--timezone ZONE]",
		Short:   "Create a site with a reading key",
		Example: "  waypost site create --name Blog --domain blog.example.com --timezone Europe/Berlin",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServices(cmd, func(s *app.Services) error {
				ctx := commandContext(cmd)
				created, err := s.Sites.Create(ctx, name, domain, timezone)
				if err != nil {
					return err
				}
				key, secret, err := s.Sites.CreateKey(ctx, created.ID, "first", site.ScopeRead)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "site      %s\nsite key  %s  (public: reports visits)\n", created.ID, created.Key)
				return printSecret(cmd, key, secret)
			})
		},
	}, "database")
	cmd.Flags().StringVar(&name, "name", "", "the site's name for people")
	cmd.Flags().StringVar(&domain, "domain", "", "host name whose visits count; its subdomains count too")
	cmd.Flags().StringVar(&timezone, "timezone", "UTC", "IANA time zone in which its days begin and end")
	return required(cmd, "name", "domain")
}

func newSiteList() *cobra.Command {
	return lists(takesSettings(&cobra.Command{
		Use:   "list",
		Short: "List sites, newest first",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServices(cmd, func(s *app.Services) error {
				rows := newListing(cmd, "site", "name", "domain", "zone", "site key")
				const pageSize = 100
				for before := uuid.Nil; ; {
					list, err := s.Sites.List(cmd.Context(), before, pageSize)
					if err != nil {
						return err
					}
					for _, e := range list {
						rows.add(e.ID, e.Name, e.Domain, e.Zone, e.Key)
					}
					if len(list) < pageSize {
						return rows.print()
					}
					before = list[len(list)-1].ID
				}
			})
		},
	}, "database"))
}

func newSiteForgetImport() *cobra.Command {
	return onSite(&cobra.Command{
		Use:   "forget-import SITE",
		Short: "Destroy the secret that ties imported visitors to addresses",
		Long: `The visitors of imported lines are hashed with a secret for each month of the lines,
which is kept for later imports of the same days, until nobody has used it for
WAYPOST_IMPORT_SECRET_DAYS. This command destroys a site's secrets at once and for
good: after that nobody can tell which address an imported visitor had, and lines
of these months are refused, unless "waypost import --new-visitors" counts whoever
is in them as somebody else.`,
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		if err := s.Importer.Forget(ctx, ids[0]); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "The import secrets are destroyed.")
		return nil
	})
}

func newKeyCreate() *cobra.Command {
	var name, scope string
	cmd := onSite(&cobra.Command{
		Use:     "create SITE --name NAME [--scope read|ingest]",
		Short:   "Create a secret key; it is shown once",
		Example: "  waypost site key create 0197… --name dashboard",
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		key, secret, err := s.Sites.CreateKey(ctx, ids[0], name, site.Scope(scope))
		if err != nil {
			return err
		}
		return printSecret(cmd, key, secret)
	})
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringVar(&scope, "scope", string(site.ScopeRead), "read or ingest")
	return required(cmd, "name")
}

func newKeyList() *cobra.Command {
	return lists(onSite(&cobra.Command{
		Use:   "list SITE",
		Short: "List a site's keys, retired ones included",
	}, 1, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		keys, err := s.Sites.ListKeys(ctx, ids[0])
		if err != nil {
			return err
		}
		rows := newListing(cmd, "key", "name", "scope", "begins with", "created", "last used", "ends")
		for _, k := range keys {
			ends := k.RevokedAt
			if ends == nil {
				ends = k.ExpiresAt
			}
			rows.add(k.ID, k.Name, k.Scope, k.Prefix, k.CreatedAt, k.LastUsedAt, ends)
		}
		return rows.print()
	}))
}

func newKeyRotate() *cobra.Command {
	var grace time.Duration
	cmd := onSite(&cobra.Command{
		Use:   "rotate SITE KEY [--grace 24h]",
		Short: "Replace a key; the old key still works for the grace period",
	}, 2, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		key, secret, err := s.Sites.RotateKey(ctx, ids[0], ids[1], grace)
		if err != nil {
			return err
		}
		return printSecret(cmd, key, secret)
	})
	cmd.Flags().DurationVar(&grace, "grace", site.DefaultGrace, "how long the old key still works; 0 ends it at once")
	return cmd
}

func newKeyRevoke() *cobra.Command {
	return onSite(&cobra.Command{
		Use:   "revoke SITE KEY",
		Short: "End a key at once",
	}, 2, func(ctx context.Context, cmd *cobra.Command, s *app.Services, ids []uuid.UUID) error {
		key, err := s.Sites.RevokeKey(ctx, ids[0], ids[1])
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Key %s… is revoked.\n", key.Prefix)
		return nil
	})
}

// onSite completes a command whose n arguments are ids: a site's, and a key's.
func onSite(cmd *cobra.Command, n int, fn func(context.Context, *cobra.Command, *app.Services, []uuid.UUID) error) *cobra.Command {
	cmd.Args = usageArgs(cobra.ExactArgs(n))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids := make([]uuid.UUID, n)
		for i, a := range args {
			id, err := uuid.Parse(a)
			if err != nil {
				return &usageError{fmt.Errorf("%q is not an id; `waypost site list` and `waypost site key list SITE` show them", a)}
			}
			ids[i] = id
		}
		return withServices(cmd, func(s *app.Services) error { return fn(commandContext(cmd), cmd, s, ids) })
	}
	return takesSettings(cmd, "database")
}

func printSecret(cmd *cobra.Command, key site.Key, secret string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "key       %s\nsecret    %s  (scope %s; shown this once: keep it)\n", key.ID, secret, key.Scope)
	return err
}
