package oauth_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
)

const redirect = "https://waypost.example/api/auth/oauth/x/callback"

var secrets = oauth.Secrets{
	State: "state-" + strings.Repeat("s", 40), Nonce: "nonce-" + strings.Repeat("n", 40), Verifier: strings.Repeat("v", 43),
}

var ada = oauthtest.Person{Subject: 7, Email: "ada@example.com", Verified: true, Name: "Ada Lovelace"}

// sides are both providers, each with the server behind it.
func sides(t *testing.T) map[string]struct {
	*oauth.Provider
	server *oauthtest.Server
} {
	t.Helper()
	out := map[string]struct {
		*oauth.Provider
		server *oauthtest.Server
	}{}
	for name, make := range map[string]struct {
		server   *oauthtest.Server
		provider func(oauth.Options) (*oauth.Provider, error)
	}{
		"google": {oauthtest.NewOpenID(t, time.Now), oauth.NewGoogle},
		"github": {oauthtest.NewGitHub(t), oauth.NewGitHub},
	} {
		make.server.Person = ada
		p, err := make.provider(make.server.Options(redirect))
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name {
			t.Errorf("%s calls itself %s", name, p.Name)
		}
		out[name] = struct {
			*oauth.Provider
			server *oauthtest.Server
		}{p, make.server}
	}
	return out
}

// agree goes to the provider as a browser would, and returns its answer.
func agree(t *testing.T, p *oauth.Provider, s oauth.Secrets) url.Values {
	t.Helper()
	address, err := p.AuthorizationURL(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	back, err := answer.Location()
	if err != nil {
		t.Fatalf("%d: %v", answer.StatusCode, err)
	}
	return back.Query()
}

func TestBothProvidersSayWhoSignedIn(t *testing.T) {
	t.Parallel()
	for name, s := range sides(t) {
		for _, person := range []oauthtest.Person{ada, {Subject: 8, Email: "eve@example.com", Name: "Eve"}} {
			s.server.Person = person
			q := agree(t, s.Provider, secrets)
			if q.Get("state") != secrets.State {
				t.Errorf("%s: state %q", name, q.Get("state"))
			}
			if err := s.CheckIssuer(t.Context(), q.Get("iss")); err != nil {
				t.Errorf("%s: iss %q: %v", name, q.Get("iss"), err)
			}
			got, err := s.Redeem(t.Context(), q.Get("code"), secrets)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := oauth.Identity{
				Provider: name, Subject: map[int64]string{7: "7", 8: "8"}[person.Subject],
				Email: person.Email, EmailVerified: person.Verified, Name: person.Name,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestAnAddressKeptOutOfTheIDTokenIsAskedFor(t *testing.T) {
	t.Parallel()
	s := sides(t)["google"]
	s.server.UserInfo = true
	got, err := s.Redeem(t.Context(), agree(t, s.Provider, secrets).Get("code"), secrets)
	if err != nil || got.Email != ada.Email || !got.EmailVerified {
		t.Errorf("%+v, %v", got, err)
	}
}

// Abuse case 26.
func TestCase26ACodeWithoutItsVerifierIsWorthNothing(t *testing.T) {
	t.Parallel()
	for name, s := range sides(t) {
		other := secrets
		other.Verifier = strings.Repeat("w", 43)
		if _, err := s.Redeem(t.Context(), agree(t, s.Provider, secrets).Get("code"), other); !errors.Is(err, oauth.ErrCode) {
			t.Errorf("%s: another verifier: %v, want ErrCode", name, err)
		}
		code := agree(t, s.Provider, secrets).Get("code")
		if _, err := s.Redeem(t.Context(), code, secrets); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Redeem(t.Context(), code, secrets); !errors.Is(err, oauth.ErrCode) {
			t.Errorf("%s: a spent code: %v, want ErrCode", name, err)
		}
	}
}

// Abuse case 27, as far as iss goes.
func TestCase27AnIssuerOfAnotherProviderIsRefused(t *testing.T) {
	t.Parallel()
	all := sides(t)
	for name, s := range all {
		for _, iss := range []string{"https://evil.example", s.server.URL + "/", all["google"].server.URL + "x"} {
			if err := s.CheckIssuer(t.Context(), iss); !errors.Is(err, oauth.ErrIssuer) {
				t.Errorf("%s: %q: %v, want ErrIssuer", name, iss, err)
			}
		}
	}
	if err := all["google"].CheckIssuer(t.Context(), ""); !errors.Is(err, oauth.ErrIssuer) {
		t.Errorf("a provider that promises iss answered none: %v", err)
	}
	if err := all["github"].CheckIssuer(t.Context(), ""); err != nil {
		t.Errorf("a provider that knows no iss answered none: %v", err)
	}
	if err := all["github"].CheckIssuer(t.Context(), all["google"].server.URL); !errors.Is(err, oauth.ErrIssuer) {
		t.Errorf("google's iss at github: %v", err)
	}
}

// Abuse case 31.
func TestCase31AnIDTokenThatWasNotMadeForThisSignInIsRefused(t *testing.T) {
	t.Parallel()
	s := sides(t)["google"]
	for name, change := range map[string]func(map[string]any){
		"nonce":         func(c map[string]any) { c["nonce"] = "another" },
		"no nonce":      func(c map[string]any) { delete(c, "nonce") },
		"aud":           func(c map[string]any) { c["aud"] = "another" },
		"two audiences": func(c map[string]any) { c["aud"] = []string{oauthtest.ClientID, "another"} },
		"azp":           func(c map[string]any) { c["azp"] = "another" },
		"iss":           func(c map[string]any) { c["iss"] = "https://evil.example" },
		"expired":       func(c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no subject":    func(c map[string]any) { delete(c, "sub") },
	} {
		s.server.Claims = change
		if got, err := s.Redeem(t.Context(), agree(t, s.Provider, secrets).Get("code"), secrets); !errors.Is(err, oauth.ErrToken) {
			t.Errorf("%s: %+v, %v, want ErrToken", name, got, err)
		}
	}
}

func TestVerifiedMeansTrueAndNothingElse(t *testing.T) {
	t.Parallel()
	s := sides(t)["google"]
	for _, c := range []struct {
		value any
		want  bool
	}{{true, true}, {"true", true}, {false, false}, {"false", false}, {1, false}, {"yes", false}, {nil, false}} {
		s.server.Claims = func(claims map[string]any) { claims["email_verified"] = c.value }
		got, err := s.Redeem(t.Context(), agree(t, s.Provider, secrets).Get("code"), secrets)
		if err != nil || got.EmailVerified != c.want {
			t.Errorf("%v: %t, %v", c.value, got.EmailVerified, err)
		}
	}
}

func TestAProviderInTroubleIsSaidToBeAndNothingOfItsAnswerShows(t *testing.T) {
	t.Parallel()
	for name, s := range sides(t) {
		code := agree(t, s.Provider, secrets).Get("code")
		s.server.Down = true
		_, err := s.Redeem(t.Context(), code, secrets)
		if !errors.Is(err, oauth.ErrExchange) || strings.Contains(err.Error(), "pl4nted") {
			t.Errorf("%s: %v, want ErrExchange without the provider's words", name, err)
		}
	}
}

func TestAProviderThatWasAwayAtFirstIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := oauthtest.NewOpenID(t, time.Now)
	away := true
	o := server.Options(redirect)
	o.Transport = transport(func(r *http.Request) (*http.Response, error) {
		if away {
			return nil, errors.New("no route")
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	p, err := oauth.NewGoogle(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AuthorizationURL(t.Context(), secrets); !errors.Is(err, oauth.ErrExchange) {
		t.Errorf("%v, want ErrExchange", err)
	}
	away = false
	if _, err := p.AuthorizationURL(t.Context(), secrets); err != nil {
		t.Error(err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestIncompleteOptionsAreNamed(t *testing.T) {
	t.Parallel()
	whole := oauth.Options{ClientID: "id", ClientSecret: "pl4nted", RedirectURL: redirect}
	for name, change := range map[string]func(*oauth.Options){
		"ClientID":     func(o *oauth.Options) { o.ClientID = "" },
		"ClientSecret": func(o *oauth.Options) { o.ClientSecret = "" },
		"RedirectURL":  func(o *oauth.Options) { o.RedirectURL = "" },
		"absolute":     func(o *oauth.Options) { o.URL = "accounts.example" },
	} {
		o := whole
		change(&o)
		if _, err := oauth.NewGoogle(o); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "pl4nted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
