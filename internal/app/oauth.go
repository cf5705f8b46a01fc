package app

import (
	"strings"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/seal"
)

// newOAuth makes the providers that are configured, each with a callback of its own.
func newOAuth(c config.Config) (account.OAuthOptions, error) {
	o := account.OAuthOptions{ReturnURLs: c.OAuth.ReturnURLs}
	for _, p := range []struct {
		name string
		make func(oauth.Options) (*oauth.Provider, error)
		opts oauth.Options
	}{
		{"google", oauth.NewGoogle, oauth.Options{ClientID: c.OAuth.GoogleClientID, ClientSecret: c.OAuth.GoogleClientSecret, URL: c.OAuth.GoogleURL}},
		{"github", oauth.NewGitHub, oauth.Options{
			ClientID: c.OAuth.GitHubClientID, ClientSecret: c.OAuth.GitHubClientSecret, URL: c.OAuth.GitHubURL, APIURL: c.OAuth.GitHubAPIURL,
		}},
	} {
		if p.opts.ClientID == "" {
			continue
		}
		p.opts.RedirectURL = strings.TrimRight(c.URL, "/") + "/api/auth/oauth/" + p.name + "/callback"
		made, err := p.make(p.opts)
		if err != nil {
			return account.OAuthOptions{}, err
		}
		o.Providers = append(o.Providers, made)
	}
	return o, nil
}

func newTwoFactor(c config.Config) (account.TwoFactorOptions, error) {
	sealer, err := seal.New(account.SealPurpose, []byte(c.SecretKey), []byte(c.SecretKeyPrevious))
	return account.TwoFactorOptions{Sealer: sealer, RequiredForAdmin: c.Accounts.RequireAdmin2FA}, err
}
