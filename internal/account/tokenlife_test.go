package account_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

const day = 24 * time.Hour

var reading = []identity.Scope{identity.Read}

func TestAnAPITokenLivesNinetyDaysUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	year := f.now.Add(365 * day)
	for what, tc := range map[string]struct {
		n    account.NewAPIToken
		want *time.Time
	}{
		"nothing said": {account.NewAPIToken{Name: "bot", Scopes: reading}, new(f.now.Add(90 * day))},
		"never":        {account.NewAPIToken{Name: "bot", Scopes: reading, Never: true}, nil},
		"a year":       {account.NewAPIToken{Name: "bot", Scopes: reading, ExpiresAt: &year}, &year},
	} {
		made, _, err := f.CreateAPIToken(ada, tc.n)
		if diff := cmp.Diff(tc.want, made.ExpiresAt); err != nil || diff != "" {
			t.Errorf("%s: %v %s", what, err, diff)
		}
	}
}

func TestATokenOfAnOlderProgramKeepsItsExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	secret := "wp_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE"
	f.exec(t, `insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at, expires_at)
		values ($1, 'old', 'wp_AbCdEfGh', sha256(convert_to($2, 'UTF8')), '{read}', $3, null)`, u.ID, secret, f.now.Add(-400*day))
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	list, err := f.ListAPITokens(f.as(t, f.signIn(t, "ada@example.com").AccessToken), 0, 10)
	want := account.APIToken{
		ID: 1, Name: "old", Prefix: "wp_AbCdEfGh", Scopes: reading, Networks: []string{}, CreatedAt: f.now.Add(-400 * day), LastUsedAt: f.now,
	}
	if diff := cmp.Diff([]account.APIToken{want}, list, cmpopts.IgnoreFields(account.APIToken{}, "ID")); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestARotatedAPITokenWorksUntilItsGraceIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada := f.as(t, s.AccessToken)
	made := *f.now
	n := account.NewAPIToken{Name: "bot", Scopes: reading, Networks: []string{"203.0.113.7"}, Rate: 10}
	old, oldSecret, err := f.CreateAPIToken(ada, n)
	if err != nil {
		t.Fatal(err)
	}
	*f.now = f.now.Add(10 * time.Minute)
	next, nextSecret, err := f.RotateAPIToken(ada, old.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := old
	want.ID, want.Prefix, want.CreatedAt, want.ExpiresAt = next.ID, next.Prefix, *f.now, new(f.now.Add(90*day))
	if diff := cmp.Diff(want, next); diff != "" || next.ID == old.ID {
		t.Error(diff)
	}
	list, err := f.ListAPITokens(ada, 0, 10)
	if err != nil || len(list) != 2 || !list[1].ExpiresAt.Equal(f.now.Add(time.Hour)) || !list[1].ReplacedAt.Equal(*f.now) {
		t.Errorf("%+v, %v", list, err)
	}
	if n := f.count(t, "ada@example.com", mail.TokenCreated); n != 2 {
		t.Errorf("%d mails about two tokens", n)
	}
	if _, _, err := f.RotateAPIToken(ada, old.ID, time.Hour); !errors.Is(err, account.ErrTokenReplaced) {
		t.Errorf("once more: %v", err)
	}
	home := from(t, "203.0.113.7")
	works := func(what, secret string, want error) {
		t.Helper()
		if _, err := f.Authenticate(home, secret); !errors.Is(err, want) {
			t.Errorf("%s, %s after: %v, want %v", what, f.now.Sub(made), err, want)
		}
	}
	works("the old one", oldSecret, nil)
	works("the new one", nextSecret, nil)
	*f.now = f.now.Add(time.Hour)
	works("the old one", oldSecret, account.ErrAPITokenExpired)
	works("the new one", nextSecret, nil)
}

func TestARotationNeverLengthensALife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	for what, tc := range map[string]struct {
		n     account.NewAPIToken
		wait  time.Duration
		grace time.Duration
		left  time.Duration  // of the old one
		next  *time.Duration // of the new one
	}{
		"at once":             {account.NewAPIToken{ExpiresAt: new(f.now.Add(day))}, 0, 0, 0, new(day)},
		"expires before that": {account.NewAPIToken{ExpiresAt: new(f.now.Add(time.Minute))}, 0, day, time.Minute, new(time.Minute)},
		"never":               {account.NewAPIToken{Never: true}, 0, time.Hour, time.Hour, nil},
	} {
		tc.n.Name, tc.n.Scopes = what, reading
		old, _, err := f.CreateAPIToken(ada, tc.n)
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := f.RotateAPIToken(ada, old.ID, tc.grace)
		if err != nil {
			t.Fatal(err)
		}
		var left time.Time
		if err := f.db.Direct().QueryRow(t.Context(), `select expires_at from api_tokens where id = $1`, old.ID).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if !left.Equal(f.now.Add(tc.left)) {
			t.Errorf("%s: the old one has %s left", what, left.Sub(*f.now))
		}
		var want *time.Time
		if tc.next != nil {
			want = new(f.now.Add(*tc.next))
		}
		if diff := cmp.Diff(want, next.ExpiresAt); diff != "" {
			t.Errorf("%s: the new one: %s", what, diff)
		}
	}
}

func TestWhoMayRotateAnAPITokenAndWhich(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada, eve := f.as(t, s.AccessToken), f.as(t, f.signIn(t, "eve@example.com").AccessToken)
	token, secret := f.apiToken(t, s, identity.Read, identity.Write)
	revoked, _ := f.apiToken(t, s, identity.Read)
	if err := f.RevokeAPIToken(ada, revoked.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.RotateAPIToken(f.as(t, secret), token.ID, 0); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("by itself: %v", err)
	}
	for what, try := range map[string]func() (account.APIToken, string, error){
		"another's": func() (account.APIToken, string, error) { return f.RotateAPIToken(eve, token.ID, 0) },
		"revoked":   func() (account.APIToken, string, error) { return f.RotateAPIToken(ada, revoked.ID, 0) },
		"none":      func() (account.APIToken, string, error) { return f.RotateAPIToken(ada, 987654321, 0) },
	} {
		if _, _, err := try(); !errors.Is(err, account.ErrNoAPIToken) {
			t.Errorf("%s: %v, want ErrNoAPIToken", what, err)
		}
	}
	for _, grace := range []time.Duration{-1, account.MaxTokenGrace + 1} {
		if _, _, err := f.RotateAPIToken(ada, token.ID, grace); fault.KindOf(err) != fault.Invalid {
			t.Errorf("grace %s: %v", grace, err)
		}
	}
	for range 99 {
		f.apiToken(t, s, identity.Read)
	}
	if _, _, err := f.RotateAPIToken(ada, token.ID, time.Hour); !errors.Is(err, account.ErrManyAPITokens) {
		t.Errorf("of a hundred, with grace: %v", err)
	}
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("the refused rotation ended it: %v", err)
	}
	if _, _, err := f.RotateAPIToken(ada, token.ID, 0); err != nil {
		t.Errorf("of a hundred, at once: %v", err)
	}
	*f.now = f.now.Add(16 * time.Minute)
	if _, _, err := f.RotateAPIToken(f.as(t, f.refresh(t, s.RefreshToken).AccessToken), token.ID, 0); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("long after the sign-in: %v", err)
	}
}

func TestOfRotationsAtOnceOneMakesAToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada := f.as(t, s.AccessToken)
	token, _ := f.apiToken(t, s, identity.Read)
	var made, refused int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			_, _, err := f.RotateAPIToken(ada, token.ID, time.Hour)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case errors.Is(err, account.ErrTokenReplaced):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, err := f.CountAPITokens(ada); made != 1 || refused != 11 || n != 2 || err != nil {
		t.Errorf("%d made, %d refused, %d tokens, %v", made, refused, n, err)
	}
}

func TestAPITokensThatEndedAreForgottenAfterAMonth(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada := f.as(t, s.AccessToken)
	revoked, _ := f.apiToken(t, s, identity.Read)
	if err := f.RevokeAPIToken(ada, revoked.ID); err != nil {
		t.Fatal(err)
	}
	for _, n := range []account.NewAPIToken{{ExpiresAt: new(f.now.Add(time.Hour))}, {ExpiresAt: new(f.now.Add(20 * day))}, {Never: true}} {
		n.Name, n.Scopes = "bot", reading
		if _, _, err := f.CreateAPIToken(ada, n); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		var n int
		if err := f.db.Direct().QueryRow(t.Context(), `select count(*) from api_tokens`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{30 * day, 4}, {30*day + 2*time.Hour, 2}, {51 * day, 1}, {4000 * day, 1}} {
		now := f.now.Add(step.at)
		at := *f.now
		*f.now = now
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		*f.now = at
		if n := left(); n != step.want {
			t.Errorf("after %s: %d tokens, want %d", step.at, n, step.want)
		}
	}
}
