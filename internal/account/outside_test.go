package account_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/token"
)

const (
	appURL   = "https://app.example/signed-in?tab=1"
	verifier = "a verifier of the application's own, 43 characters or more"
)

// outside is the accounts with two providers and two-factor authentication.
type outside struct {
	*account.Service
	db             *db.DB
	now            *time.Time
	google, github *oauthtest.Server
}

func sealer(t *testing.T, current, previous byte) *seal.Keyring {
	t.Helper()
	var former []byte
	if previous != 0 {
		former = bytes.Repeat([]byte{previous}, seal.MinSecretKey)
	}
	k, err := seal.New(account.SealPurpose, bytes.Repeat([]byte{current}, seal.MinSecretKey), former)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newOutside(t *testing.T, change func(*account.Options)) outside {
	t.Helper()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	o := outside{db: dbtest.New(t), now: &now}
	clock := func() time.Time { return *o.now }
	o.google, o.github = oauthtest.NewOpenID(t, clock), oauthtest.NewGitHub(t)
	google, err := oauth.NewGoogle(o.google.Options("https://waypost.example/api/auth/oauth/google/callback"))
	if err != nil {
		t.Fatal(err)
	}
	github, err := oauth.NewGitHub(o.github.Options("https://waypost.example/api/auth/oauth/github/callback"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := token.New(t.Context(), token.Options{
		DB: o.db, Issuer: "https://waypost.example", SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	options := account.Options{
		DB: o.db, Tokens: tokens, PasswordCost: cheapHashes, Now: clock,
		OAuth:     account.OAuthOptions{Providers: []*oauth.Provider{google, github}, ReturnURLs: []string{appURL, "com.example.app:/signed-in"}},
		TwoFactor: account.TwoFactorOptions{Sealer: sealer(t, 'k', 0)},
	}
	if change != nil {
		change(&options)
	}
	if o.Service, err = account.New(options); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o outside) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	tag, err := o.db.Single(identity.System("test")).Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %d rows", sql, err, tag.RowsAffected())
	}
}

func (o outside) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := o.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// member makes an account whose address is verified or not.
func (o outside) member(t *testing.T, email string, verified bool) account.User {
	t.Helper()
	u, err := o.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	if verified {
		o.exec(t, `update users set email_verified_at = created_at where id = $1`, u.ID)
	} else {
		o.exec(t, `update users set email_verified_at = null where id = $1`, u.ID)
	}
	return u
}

// as is the context of somebody who holds an access token.
func (o outside) as(t *testing.T, accessToken string) context.Context {
	t.Helper()
	p, err := o.Authenticate(t.Context(), accessToken)
	if err != nil {
		t.Fatal(err)
	}
	return identity.NewContext(t.Context(), p)
}

// signedIn is the context of a member who gave the password just now.
func (o outside) signedIn(t *testing.T, email string) context.Context {
	t.Helper()
	s, err := o.SignIn(t.Context(), email, password)
	if err != nil || s.MFA != nil {
		t.Fatalf("sign in %s: %+v, %v", email, s.MFA, err)
	}
	return o.as(t, s.AccessToken)
}

// browse goes to a provider and returns what it sends back.
func browse(t *testing.T, address string) account.OAuthAnswer {
	t.Helper()
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
	q := back.Query()
	return account.OAuthAnswer{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss")}
}

// go to a provider, agree, and come back in the same browser.
func (o outside) answer(t *testing.T, provider string, start account.OAuthStart) account.OAuthAnswer {
	t.Helper()
	started, err := o.StartOAuth(t.Context(), provider, start)
	if err != nil {
		t.Fatal(err)
	}
	a := browse(t, started.URL)
	a.Browser = started.Browser
	return a
}

func (o outside) signInWith(t *testing.T, provider string) (account.SignedIn, error) {
	t.Helper()
	outcome, err := o.FinishOAuth(t.Context(), provider, o.answer(t, provider, account.OAuthStart{}))
	return outcome.SignedIn, err
}

// code is an outcome that was sent to the application.
func (o outside) code(t *testing.T, provider string) string {
	t.Helper()
	start := account.OAuthStart{ReturnURL: appURL, CodeChallenge: oauthtest.Challenge(verifier)}
	outcome, err := o.FinishOAuth(t.Context(), provider, o.answer(t, provider, start))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(outcome.ReturnURL)
	if err != nil || u.Query().Get("tab") != "1" || u.Query().Get("code") == "" {
		t.Fatalf("returned to %s, %v", outcome.ReturnURL, err)
	}
	return u.Query().Get("code")
}

// enroll turns two-factor authentication on and returns the secret and the
// recovery codes.
func (o outside) enroll(t *testing.T, ctx context.Context) (string, []string) {
	t.Helper()
	id := identity.FromContext(ctx).UserID
	setup, err := o.SetupTOTP(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	codes, err := o.EnableTOTP(ctx, id, o.totp(t, setup.Secret))
	if err != nil {
		t.Fatal(err)
	}
	// The code that enabled it is spent: on to the next.
	*o.now = o.now.Add(30 * time.Second)
	return setup.Secret, codes
}

// totp is the secret's code at this moment.
func (o outside) totp(t *testing.T, secret string) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, *o.now)
	if err != nil {
		t.Fatal(err)
	}
	return code
}
