package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/token"
)

// newTokens loads the keys that sign access tokens.
func newTokens(ctx context.Context, s *Services, c config.Config) (*token.Service, error) {
	return token.New(ctx, token.Options{
		DB: s.DB, Issuer: c.URL,
		SecretKey: []byte(c.SecretKey), PreviousSecretKey: []byte(c.SecretKeyPrevious),
	})
}

// newAccounts makes the accounts as a server needs them: with tokens, mail and
// jobs.
func newAccounts(s *Services, tokens *token.Service, c config.Config, logger *slog.Logger, showLinks bool) (*account.Service, error) {
	sender, err := mail.NewLog(mail.LogOptions{Logger: logger, ShowLinks: showLinks})
	if err != nil {
		return nil, err
	}
	providers, err := newOAuth(c)
	if err != nil {
		return nil, err
	}
	twoFactor, err := newTwoFactor(c)
	if err != nil {
		return nil, err
	}
	return account.New(account.Options{
		DB: s.DB, Tokens: tokens, Mail: sender, Jobs: s.Queue,
		URL: strings.TrimRight(c.URL, "/"), RefreshGrace: c.Accounts.RefreshGrace,
		OAuth: providers, TwoFactor: twoFactor,
	})
}

// OpenTokens loads the signing keys for a command that changes them: no token is
// issued by it. Beside the private server the secret key is dev's own.
func OpenTokens(ctx context.Context, s *Services, c config.Config) (*token.Service, error) {
	if c.SecretKey == "" && c.DatabaseURL == "" {
		key, err := os.ReadFile(filepath.Join(c.DataDir, secretKeyFile))
		if err != nil {
			return nil, fmt.Errorf("secret key of %s, which dev makes: %w", c.DataDir, err)
		}
		c.SecretKey = string(key)
	}
	c.URL = cmp.Or(c.URL, "https://command.invalid")
	return newTokens(ctx, s, c)
}
