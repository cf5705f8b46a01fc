package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/oauth2"
)

// NewGitHub makes the provider github: plain OAuth 2, where the person and
// whether an address is verified are asked of its API.
func NewGitHub(o Options) (*Provider, error) {
	return newProvider("github", "GitHub", o.withDefaults("https://github.com", "https://api.github.com"), gitHub{})
}

// gitHub is the dialect of GitHub, Enterprise Server included.
type gitHub struct{}

func (gitHub) discover(_ context.Context, o Options) (*discovered, error) {
	return &discovered{
		issuer: o.URL + "/login/oauth",
		config: oauth2.Config{
			Scopes: []string{"read:user", "user:email"},
			Endpoint: oauth2.Endpoint{
				AuthURL:   o.URL + "/login/oauth/authorize",
				TokenURL:  o.URL + "/login/oauth/access_token",
				AuthStyle: oauth2.AuthStyleInParams,
			},
		},
	}, nil
}

// identify names a person by the number of the account: a login can be given up
// and taken by somebody else.
func (gitHub) identify(ctx context.Context, p *Provider, d *discovered, t *oauth2.Token, _ string) (Identity, error) {
	client := d.config.Client(ctx, t)
	client.Timeout = requestTimeout
	client.CheckRedirect = p.client.CheckRedirect
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}
	if err := get(ctx, client, p.o.APIURL+"/user", &user); err != nil {
		return Identity{}, ErrExchange.Because(err)
	}
	if user.ID <= 0 {
		return Identity{}, ErrExchange.Because(errors.New("a user without a number"))
	}
	var emails []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := get(ctx, client, p.o.APIURL+"/user/emails?per_page=100", &emails); err != nil {
		return Identity{}, ErrExchange.Because(err)
	}
	id := Identity{Subject: strconv.FormatInt(user.ID, 10), Name: user.Name}
	if id.Name == "" {
		id.Name = user.Login
	}
	for _, e := range emails {
		if e.Primary {
			id.Email, id.EmailVerified = e.Email, e.Verified
		}
	}
	return id, nil
}

func get(ctx context.Context, client *http.Client, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", r.URL.Path, answer.StatusCode)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
