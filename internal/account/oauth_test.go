package account_test

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

var ada = oauthtest.Person{Subject: 7, Email: "Ada@example.com", Verified: true, Name: "Ada King Lovelace"}

func TestAFirstSignInMakesAnAccountAndTheNextFindsIt(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"google", "github"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			o := newOutside(t, nil)
			o.google.Person, o.github.Person = ada, ada
			s, err := o.signInWith(t, provider)
			if err != nil {
				t.Fatal(err)
			}
			u := s.User
			if u.FirstName != "Ada" || u.LastName != "King Lovelace" || u.Email != ada.Email || u.Role != identity.User || !u.Active {
				t.Errorf("%+v", u)
			}
			if o.count(t, `select count(*) from users where email_verified_at is not null and password_hash = ''`) != 1 ||
				o.count(t, `select count(*) from auth_sessions where methods = '{fed}'`) != 1 {
				t.Error("not a verified account without a password, signed in by its provider")
			}
			ctx := o.as(t, s.AccessToken)
			moved := oauthtest.Person{Subject: ada.Subject, Email: "countess@example.com", Verified: true}
			o.google.Person, o.github.Person = moved, moved
			again, err := o.signInWith(t, provider)
			if err != nil || again.User.ID != u.ID || again.User.Email != ada.Email {
				t.Errorf("with another address: %+v, %v", again.User, err)
			}
			list, err := o.ListIdentities(ctx, u.ID)
			if err != nil || len(list) != 1 || list[0].Provider != provider || list[0].Email != "countess@example.com" {
				t.Errorf("identities %+v, %v", list, err)
			}
			// The address is none of the identity: another subject with it is somebody else.
			other := oauthtest.Person{Subject: 8, Email: "countess@example.com", Verified: true, Name: "X"}
			o.google.Person, o.github.Person = other, other
			if third, err := o.signInWith(t, provider); err != nil || third.User.ID == u.ID || third.User.FirstName != "New" {
				t.Errorf("another subject: %+v, %v", third.User, err)
			}
		})
	}
}

func TestSimultaneousFirstSignInsMakeOneAccount(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	var answers []account.OAuthAnswer
	var providers []string
	for i := range 6 {
		providers = append(providers, []string{"google", "github"}[i%2])
		answers = append(answers, o.answer(t, providers[i], account.OAuthStart{}))
	}
	ids := make([]int64, len(answers))
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			outcome, err := o.FinishOAuth(t.Context(), providers[i], answers[i])
			if err != nil {
				t.Error(err)
			}
			ids[i] = outcome.SignedIn.User.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("accounts %v", ids)
		}
	}
	if n := o.count(t, `select count(*) from identities`); n != 2 {
		t.Errorf("%d identities, want 2", n)
	}
}

// Abuse case 25.
func TestCase25AnAnswerThatThisBrowserDidNotAskForIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	for name, change := range map[string]func(*account.OAuthAnswer){
		"no state":        func(a *account.OAuthAnswer) { a.State = "" },
		"wrong state":     func(a *account.OAuthAnswer) { a.State = strings.Repeat("x", 43) },
		"foreign browser": func(a *account.OAuthAnswer) { a.Browser = o.answer(t, "google", account.OAuthStart{}).Browser },
		"no browser":      func(a *account.OAuthAnswer) { a.Browser = "" },
		"too late":        func(*account.OAuthAnswer) { *o.now = o.now.Add(account.OAuthFlowTTL) },
	} {
		a := o.answer(t, "google", account.OAuthStart{})
		change(&a)
		if _, err := o.FinishOAuth(t.Context(), "google", a); !errors.Is(err, account.ErrOAuthState) {
			t.Errorf("%s: %v, want ErrOAuthState", name, err)
		}
	}
	a := o.answer(t, "google", account.OAuthStart{})
	if _, err := o.FinishOAuth(t.Context(), "google", a); err != nil {
		t.Fatal(err)
	}
	if _, err := o.FinishOAuth(t.Context(), "google", a); !errors.Is(err, account.ErrOAuthState) {
		t.Errorf("reused: %v, want ErrOAuthState", err)
	}
	if n, err := o.Sweep(t.Context()); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if n := o.count(t, `select count(*) from oauth_flows where expires_at <= $1`, *o.now); n != 0 {
		t.Errorf("%d stale flows are left", n)
	}
}

func TestTwoTabsOfABrowserDoNotBreakEachOther(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	first := o.answer(t, "google", account.OAuthStart{})
	second := o.answer(t, "github", account.OAuthStart{Browser: first.Browser})
	if second.Browser != first.Browser {
		t.Fatal("the second start took another secret")
	}
	for provider, a := range map[string]account.OAuthAnswer{"google": first, "github": second} {
		if _, err := o.FinishOAuth(t.Context(), provider, a); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
	}
	if a := o.answer(t, "google", account.OAuthStart{Browser: "chosen by somebody"}); a.Browser == "chosen by somebody" {
		t.Error("a secret that is none was taken")
	}
}

// Abuse case 26: the PKCE verifier comes from the browser that left.
func TestCase26ACodeOfAnotherSignInIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	for _, provider := range []string{"google", "github"} {
		stolen := o.answer(t, provider, account.OAuthStart{})
		own := o.answer(t, provider, account.OAuthStart{})
		own.Code = stolen.Code
		if _, err := o.FinishOAuth(t.Context(), provider, own); !errors.Is(err, oauth.ErrCode) {
			t.Errorf("%s: %v, want ErrCode", provider, err)
		}
	}
	if n := o.count(t, `select count(*) from users`); n != 0 {
		t.Errorf("%d accounts", n)
	}
}

// Abuse case 27.
func TestCase27AnAnswerAtAnotherProvidersCallbackIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	a := o.answer(t, "github", account.OAuthStart{})
	if _, err := o.FinishOAuth(t.Context(), "google", a); !errors.Is(err, account.ErrOAuthState) {
		t.Errorf("github's state at google's callback: %v, want ErrOAuthState", err)
	}
	a.Issuer = o.google.URL
	if _, err := o.FinishOAuth(t.Context(), "github", a); !errors.Is(err, account.ErrOAuthState) {
		t.Errorf("google's iss at github's callback: %v, want ErrOAuthState", err)
	}
	a = o.answer(t, "google", account.OAuthStart{})
	a.Issuer = "https://evil.example"
	if _, err := o.FinishOAuth(t.Context(), "google", a); !errors.Is(err, account.ErrOAuthState) {
		t.Errorf("a stranger's iss: %v, want ErrOAuthState", err)
	}
	if _, err := o.FinishOAuth(t.Context(), "gitlab", a); !errors.Is(err, account.ErrProvider) {
		t.Errorf("an unknown provider: %v, want ErrProvider", err)
	}
}

// Abuse case 28.
func TestCase28AnAddressThatIsNotOnTheListIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	for _, bad := range []string{
		"//evil.example", `\evil.example`, `https:\\app.example`, "https://app.example@evil.example/signed-in?tab=1",
		appURL + "&x=1", appURL + "#f", strings.ToUpper(appURL), appURL + "/..", strings.TrimSuffix(appURL, "1"),
		"javascript:alert(1)", "com.example.app:/signed-in/", " " + appURL, "/",
	} {
		_, err := o.StartOAuth(t.Context(), "google", account.OAuthStart{ReturnURL: bad, CodeChallenge: oauthtest.Challenge(verifier)})
		if !errors.Is(err, account.ErrReturnURL) {
			t.Errorf("%q: %v, want ErrReturnURL", bad, err)
		}
	}
	for _, challenge := range []string{"", "short", strings.Repeat("=", 43), verifier} {
		if _, err := o.StartOAuth(t.Context(), "google", account.OAuthStart{ReturnURL: appURL, CodeChallenge: challenge}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("challenge %q: %v", challenge, err)
		}
	}
	for _, list := range []string{"//app.example", "/path", "javascript:x", "https://u@app.example/", "https://app.example/#f", "https:///x", "http://%zz"} {
		if _, err := account.New(account.Options{DB: o.db, OAuth: account.OAuthOptions{ReturnURLs: []string{list}}}); err == nil {
			t.Errorf("%q was taken into the list", list)
		}
	}
}

// Abuse case 31.
func TestCase31AStatementForAnotherSignInIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person = ada
	for name, change := range map[string]func(map[string]any){
		"nonce": func(c map[string]any) { c["nonce"] = "another" },
		"aud":   func(c map[string]any) { c["aud"] = "another" },
	} {
		o.google.Claims = change
		_, err := o.signInWith(t, "google")
		if !errors.Is(err, oauth.ErrToken) || fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %v, want ErrToken", name, err)
		}
	}
	if n := o.count(t, `select count(*) from users`); n != 0 {
		t.Errorf("%d accounts", n)
	}
}

func TestADeclinedSignInSaysSo(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Deny, o.github.Deny = true, true
	for _, provider := range []string{"google", "github"} {
		if _, err := o.signInWith(t, provider); !errors.Is(err, account.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", provider, err)
		}
		start := account.OAuthStart{ReturnURL: appURL, CodeChallenge: oauthtest.Challenge(verifier)}
		outcome, err := o.FinishOAuth(t.Context(), provider, o.answer(t, provider, start))
		if err != nil || outcome.ReturnURL != appURL+"&error=oauth_denied" {
			t.Errorf("%s: returned to %s, %v", provider, outcome.ReturnURL, err)
		}
	}
}

func TestAnOutcomeIsCollectedOnceByWhoAskedForIt(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person = ada
	code := o.code(t, "google")
	for name, c := range map[string][2]string{
		"another verifier":            {code, verifier + "x"},
		"the challenge in its place":  {code, oauthtest.Challenge(verifier)},
		"another code":                {verifier, verifier},
		"no verifier":                 {code, ""},
		"no code":                     {"", verifier},
		"the code with a line's end ": {code + "\n", verifier},
	} {
		if _, err := o.CollectOAuth(t.Context(), c[0], c[1]); !errors.Is(err, oauth.ErrCode) {
			t.Errorf("%s: %v, want ErrCode", name, err)
		}
	}
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = o.CollectOAuth(t.Context(), code, verifier) })
	}
	wg.Wait()
	passed := 0
	for _, err := range errs {
		if err == nil {
			passed++
		} else if !errors.Is(err, oauth.ErrCode) {
			t.Error(err)
		}
	}
	if passed != 1 {
		t.Errorf("%d of %d collected", passed, len(errs))
	}
	late := o.code(t, "google")
	*o.now = o.now.Add(account.OAuthCodeTTL)
	if _, err := o.CollectOAuth(t.Context(), late, verifier); !errors.Is(err, oauth.ErrCode) {
		t.Errorf("too late: %v, want ErrCode", err)
	}
}

func TestTheSecondFactorIsAskedForAfterAProviderToo(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person = ada
	s, err := o.signInWith(t, "google")
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := o.enroll(t, o.as(t, s.AccessToken))
	for name, sign := range map[string]func() (account.SignedIn, error){
		"callback": func() (account.SignedIn, error) { return o.signInWith(t, "google") },
		"exchange": func() (account.SignedIn, error) { return o.CollectOAuth(t.Context(), o.code(t, "google"), verifier) },
	} {
		s, err := sign()
		if err != nil || s.MFA == nil || s.AccessToken != "" {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		whole, err := o.VerifySecondFactor(t.Context(), s.MFA.Token, o.totp(t, secret))
		if err != nil || whole.AccessToken == "" {
			t.Errorf("%s: %v", name, err)
		}
		*o.now = o.now.Add(30 * time.Second)
	}
	if n := o.count(t, `select count(*) from auth_sessions where methods = '{fed,otp}'`); n != 2 {
		t.Errorf("%d sessions by provider and code", n)
	}
}

func TestADeactivatedAccountStaysOutWhateverVouchesForIt(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	o.google.Person = ada
	o.exec(t, `update users set active = false where id = $1`, u.ID)
	if _, err := o.signInWith(t, "google"); !errors.Is(err, account.ErrInactive) {
		t.Errorf("error is %v, want ErrInactive", err)
	}
}

// Abuse case 36, as far as sign-in through providers goes.
func TestCase36NothingThatProvesASignInIsStored(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person = ada
	started, err := o.StartOAuth(t.Context(), "google", account.OAuthStart{ReturnURL: appURL, CodeChallenge: oauthtest.Challenge(verifier)})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(started.URL)
	if err != nil {
		t.Fatal(err)
	}
	code := o.code(t, "google")
	var rows string
	if err := o.db.Pool().QueryRow(t.Context(), `select coalesce((select string_agg(f::text, '') from oauth_flows f), '') ||
		(select string_agg(c::text, '') from oauth_codes c) || coalesce((select string_agg(i::text, '') from identities i), '')`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{
		"browser": started.Browser, "state": u.Query().Get("state"), "nonce": u.Query().Get("nonce"), "code": code, "verifier": verifier, "token": "pl4nted",
	} {
		if secret == "" || strings.Contains(rows, secret) {
			t.Errorf("the %s %q is in the database", name, secret)
		}
	}
}
