package config

import "errors"

// OAuth are the settings of sign-in through outside providers. A provider without
// a client id is not offered.
type OAuth struct {
	GoogleClientID     string   `env:"WAYPOST_OAUTH_GOOGLE_CLIENT_ID" flag:"oauth-google-client-id" for:"server" help:"Client id at Google, or at the OpenID provider in its place; without it this sign-in is not offered"`
	GoogleClientSecret string   `env:"WAYPOST_OAUTH_GOOGLE_CLIENT_SECRET" help:"The client's secret there"`
	GoogleURL          string   `env:"WAYPOST_OAUTH_GOOGLE_URL" flag:"oauth-google-url" for:"server" envDefault:"https://accounts.google.com" help:"The OpenID provider's issuer"`
	GitHubClientID     string   `env:"WAYPOST_OAUTH_GITHUB_CLIENT_ID" flag:"oauth-github-client-id" for:"server" help:"Client id at GitHub; without it this sign-in is not offered"`
	GitHubClientSecret string   `env:"WAYPOST_OAUTH_GITHUB_CLIENT_SECRET" help:"The client's secret there"`
	GitHubURL          string   `env:"WAYPOST_OAUTH_GITHUB_URL" flag:"oauth-github-url" for:"server" envDefault:"https://github.com" help:"GitHub's site, or that of an Enterprise Server"`
	GitHubAPIURL       string   `env:"WAYPOST_OAUTH_GITHUB_API_URL" flag:"oauth-github-api-url" for:"server" envDefault:"https://api.github.com" help:"GitHub's API, or that of an Enterprise Server (its site with /api/v3)"`
	ReturnURLs         []string `env:"WAYPOST_OAUTH_RETURN_URLS" flag:"oauth-return-urls" for:"server" help:"Addresses, separated by commas, that a sign-in may return to with a one-time code; they must match exactly, except that http://127.0.0.1 and http://[::1] without a port stand for every port of a desktop application"`
}

func (o OAuth) validate() error {
	var errs []error
	if (o.GoogleClientID == "") != (o.GoogleClientSecret == "") {
		errs = append(errs, errors.New("WAYPOST_OAUTH_GOOGLE_CLIENT_ID and WAYPOST_OAUTH_GOOGLE_CLIENT_SECRET go together: set both or neither"))
	}
	if (o.GitHubClientID == "") != (o.GitHubClientSecret == "") {
		errs = append(errs, errors.New("WAYPOST_OAUTH_GITHUB_CLIENT_ID and WAYPOST_OAUTH_GITHUB_CLIENT_SECRET go together: set both or neither"))
	}
	return errors.Join(errs...)
}
