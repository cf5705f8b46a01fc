package account_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
)

func (f fixture) refresh(t *testing.T, token string) account.SignedIn {
	t.Helper()
	s, err := f.Refresh(t.Context(), token)
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	return s
}

func (f fixture) wantRevoked(t *testing.T, what string, access string) {
	t.Helper()
	if _, err := f.Authenticate(t.Context(), access); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("%s: error is %v, want ErrSessionRevoked", what, err)
	}
}

func TestARefreshGivesTheNextTokensOfTheSameSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	first := f.signIn(t, "ada@example.com")
	*f.now = f.now.Add(14 * time.Minute)
	second := f.refresh(t, first.RefreshToken)
	a, err := f.Authenticate(t.Context(), first.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Authenticate(t.Context(), second.AccessToken)
	if err != nil || a.SessionID != b.SessionID || second.RefreshToken == first.RefreshToken || second.User.Email != "ada@example.com" {
		t.Errorf("%+v then %+v, %v", a, b, err)
	}
}

// Abuse case 9.
func TestCase09ARefreshTokenUsedTwiceEndsTheFamily(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	bystander := f.signIn(t, "ada@example.com")
	stolen := f.signIn(t, "ada@example.com")
	next := f.refresh(t, stolen.RefreshToken)
	if _, err := f.Refresh(t.Context(), stolen.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
		t.Errorf("error is %v, want ErrRefreshReused", err)
	}
	f.wantRevoked(t, "the thief's access token", stolen.AccessToken)
	f.wantRevoked(t, "the owner's access token", next.AccessToken)
	if _, err := f.Refresh(t.Context(), next.RefreshToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("the successor: error is %v, want ErrSessionRevoked", err)
	}
	if _, err := f.Authenticate(t.Context(), bystander.AccessToken); err != nil {
		t.Errorf("another session: %v", err)
	}
}

// Abuse case 10.
func TestCase10OfTwentyParallelRefreshesAtMostOneSucceeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	for range 5 {
		s := f.signIn(t, "ada@example.com")
		errs := make([]error, 20)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = f.Refresh(t.Context(), s.RefreshToken) })
		}
		wg.Wait()
		succeeded := 0
		for _, err := range errs {
			switch {
			case err == nil:
				succeeded++
			case !errors.Is(err, account.ErrRefreshReused):
				t.Errorf("error is %v, want ErrRefreshReused", err)
			}
		}
		if succeeded > 1 {
			t.Errorf("%d succeeded", succeeded)
		}
		f.wantRevoked(t, "afterwards", s.AccessToken)
	}
}

func TestTheGraceForgivesTheImmediateParentAloneAndOnlyForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = 10 * time.Second })
	f.create(t, "ada@example.com", nil)

	s := f.signIn(t, "ada@example.com")
	f.refresh(t, s.RefreshToken)
	*f.now = f.now.Add(9 * time.Second)
	twin := f.refresh(t, s.RefreshToken)
	f.refresh(t, twin.RefreshToken)
	if _, err := f.Refresh(t.Context(), s.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
		t.Errorf("a grandparent: error is %v, want ErrRefreshReused", err)
	}
	f.wantRevoked(t, "after a grandparent", s.AccessToken)

	late := f.signIn(t, "ada@example.com")
	f.refresh(t, late.RefreshToken)
	*f.now = f.now.Add(10 * time.Second)
	if _, err := f.Refresh(t.Context(), late.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
		t.Errorf("after the grace: error is %v, want ErrRefreshReused", err)
	}

	ended := f.signIn(t, "ada@example.com")
	f.refresh(t, ended.RefreshToken)
	f.exec(t, `update auth_sessions set revoked_at = now() where revoked_at is null`)
	if _, err := f.Refresh(t.Context(), ended.RefreshToken); err == nil {
		t.Error("the grace brought an ended session back")
	}
}

func TestNoRefreshAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sql  string
		wait time.Duration
	}{
		"logout":       {sql: `update auth_sessions set revoked_at = now()`},
		"deactivation": {sql: `update users set active = false`},
		"expiry":       {sql: `update users set active = true`, wait: account.SessionTTL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(t, "ada@example.com", nil)
			s := f.signIn(t, "ada@example.com")
			f.exec(t, tc.sql)
			*f.now = f.now.Add(tc.wait)
			if _, err := f.Refresh(t.Context(), s.RefreshToken); !errors.Is(err, account.ErrSessionRevoked) {
				t.Errorf("error is %v, want ErrSessionRevoked", err)
			}
		})
	}
}

func TestWhatIsNoRefreshTokenIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	for _, text := range []string{"", "wprt_", s.AccessToken, s.RefreshToken + "x", s.RefreshToken[:len(s.RefreshToken)-1] + "\x00", "wprt_" + s.RefreshToken[5:len(s.RefreshToken)-1] + "!"} {
		if _, err := f.Refresh(t.Context(), text); !errors.Is(err, account.ErrRefreshUnknown) {
			t.Errorf("%q: error is %v, want ErrRefreshUnknown", text, err)
		}
	}
	f.refresh(t, s.RefreshToken) // the guesses ended nothing
}

func TestAGraceOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, grace := range []time.Duration{-1, account.MaxRefreshGrace + 1} {
		if _, err := account.New(account.Options{DB: f.db, RefreshGrace: grace}); err == nil {
			t.Errorf("%s was taken", grace)
		}
	}
}
