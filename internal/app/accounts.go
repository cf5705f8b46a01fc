package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/token"
)

// newTokens loads the keys that sign access tokens.
func newTokens(ctx context.Context, s *Services, c config.Config) (*token.Service, error) {
	return token.New(ctx, token.Options{
		DB: s.DB, Issuer: c.URL,
		SecretKey: []byte(c.SecretKey), PreviousSecretKey: []byte(c.SecretKeyPrevious),
	})
}

// serverAccounts are accounts as a server needs them: with tokens, mail and jobs.
func serverAccounts(s *Services, o Options) (account.Options, error) {
	c := o.Config
	providers, err := newOAuth(c)
	if err != nil {
		return account.Options{}, err
	}
	twoFactor, err := newTwoFactor(c)
	if err != nil {
		return account.Options{}, err
	}
	return account.Options{
		DB: s.DB, Tokens: s.Tokens, Mail: s.Mails, Alerts: s.Mails, Jobs: s.Queue, Files: s.Uploads, Logger: o.Logger,
		URL: baseURL(c), RefreshGrace: c.Accounts.RefreshGrace,
		Visits: account.VisitOptions{Max: c.Pages.SessionMax, Idle: c.Pages.SessionIdle, Lost: pages.LostVisitPath},
		OAuth:  providers, TwoFactor: twoFactor,
		Told: func(outcome account.Outcome) { s.Security.CountSignIn(string(outcome)) },
	}, nil
}

// withSecretKey completes the settings of a command: beside the private server the secret
// key is dev's own, if there was one.
func withSecretKey(c config.Config) (config.Config, error) {
	if c.SecretKey != "" || c.DatabaseURL != "" {
		return c, nil
	}
	key, err := os.ReadFile(filepath.Join(c.DataDir, secretKeyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("secret key of %s, which dev makes: %w", c.DataDir, err)
	}
	c.SecretKey = string(key)
	return c, nil
}

// OpenTokens loads the signing keys for a command that changes them: no token is
// issued by it. Beside the private server the secret key is dev's own.
func OpenTokens(ctx context.Context, s *Services, c config.Config) (*token.Service, error) {
	c, err := withSecretKey(c)
	if err != nil {
		return nil, err
	}
	c.URL = cmp.Or(c.URL, "https://command.invalid")
	return newTokens(ctx, s, c)
}
