package account_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

// counted makes a limit's counts as if so many had been.
func (f fixture) counted(t *testing.T, name string, count int) {
	t.Helper()
	f.exec(t, `update throttles set count = $1 where name = $2`, count, name)
}

func TestRightPasswordsOfOneAccountFromOneNetworkAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "bot@example.com", nil)
	f.create(t, "ada@example.com", nil)
	const office = "198.51.100.1"
	for i := range 300 {
		if err := f.signInFrom(t, office, "bot@example.com"); err != nil {
			t.Fatalf("sign-in %d: %v", i+1, err)
		}
	}
	if wait := f.wantLimited(t, from(t, office), "one more", "bot@example.com", password); wait != 15*time.Minute {
		t.Errorf("blocked for %s", wait)
	}
	if err := f.signInFrom(t, office, "ada@example.com"); err != nil {
		t.Errorf("somebody else in that network: %v", err)
	}
	if err := f.signInFrom(t, "203.0.113.7", "bot@example.com"); err != nil {
		t.Errorf("that account from elsewhere: %v", err)
	}
	*f.now = f.now.Add(15 * time.Minute)
	if err := f.signInFrom(t, office, "bot@example.com"); err != nil {
		t.Errorf("a quarter of an hour later: %v", err)
	}
}

// An office of 200 people behind one address, on a Monday morning: each signs in, a
// few mistype first.
func TestAnOfficeBehindOneAddressSignsIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const office = "198.51.100.1"
	for i := range 200 {
		email := fmt.Sprintf("person%d@example.com", i)
		f.create(t, email, nil)
		if i%3 == 0 {
			f.fail(t, from(t, office), email, 1)
		}
		if err := f.signInFrom(t, office, email); err != nil {
			t.Fatalf("person %d: %v", i+1, err)
		}
	}
}

func TestAResetForgivesTooManySignIns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	for _, address := range []string{"198.51.100.1", "2001:db8:1:2::1"} {
		if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	f.counted(t, "signed_in", 300)
	f.counted(t, "signed_in.wide", 600)
	f.wantLimited(t, from(t, "198.51.100.1"), "before", "ada@example.com", password)
	f.forgot(t, "ada@example.com")
	if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), password); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"198.51.100.1", "2001:db8:1:2::1", "2001:db8:1:3::1"} {
		if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOfRightPasswordsAtOnceNoMoreThanTheLimitGetThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "bot@example.com", nil)
	const office = "198.51.100.1"
	if err := f.signInFrom(t, office, "bot@example.com"); err != nil {
		t.Fatal(err)
	}
	f.counted(t, "signed_in", 290)
	errs := make([]error, 30)
	var wg sync.WaitGroup
	for i := range errs {
		at := from(t, office)
		wg.Go(func() { _, errs[i] = f.SignIn(at, "bot@example.com", password) })
	}
	wg.Wait()
	through := 0
	for _, err := range errs {
		switch {
		case err == nil:
			through++
		case !errors.Is(err, throttle.ErrLimited) && !errors.Is(err, account.ErrBusy):
			t.Errorf("error is %v", err)
		}
	}
	if through > 10 || through == 0 {
		t.Errorf("%d got through", through)
	}
}

func TestConfirmingTheCurrentPasswordIsBoundedToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	if err := f.ChangePassword(ctx, password, password); err != nil {
		t.Fatal(err)
	}
	f.counted(t, "reauthenticated", 60)
	if err := f.ChangePassword(ctx, password, password); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("error is %v, want a limit", err)
	}
	*f.now = f.now.Add(15 * time.Minute)
	if err := f.ChangePassword(ctx, password, password); err != nil {
		t.Errorf("a quarter of an hour later: %v", err)
	}
}

// A refresh that is refused spends nothing: the client goes on with its token later.
func TestRefreshesOfASessionAreBoundedAndARefusedTokenStaysGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s, other := f.signIn(t, "ada@example.com"), f.signIn(t, "ada@example.com")
	for range 300 {
		s = f.refresh(t, s.RefreshToken)
	}
	for range 3 {
		_, err := f.Refresh(t.Context(), s.RefreshToken)
		limited, ok := errors.AsType[*fault.Error](err)
		if !ok || !errors.Is(err, throttle.ErrLimited) || limited.RetryAfter != 15*time.Minute {
			t.Fatalf("one more: %v, want ErrLimited", err)
		}
	}
	if _, err := f.Authenticate(t.Context(), s.AccessToken); err != nil {
		t.Errorf("its access token: %v", err)
	}
	f.refresh(t, other.RefreshToken)
	*f.now = f.now.Add(15 * time.Minute)
	f.refresh(t, s.RefreshToken)
}

func TestRefreshesOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	s, neighbour := f.signIn(t, "ada@example.com"), f.signIn(t, "eve@example.com")
	s = f.refresh(t, s.RefreshToken)
	f.counted(t, "refresh.account", 3000)
	f.refresh(t, neighbour.RefreshToken)
	if _, err := f.Refresh(t.Context(), s.RefreshToken); !errors.Is(err, throttle.ErrLimited) {
		t.Errorf("error is %v, want ErrLimited", err)
	}
	// Whoever is thwarted by it signs in.
	f.signIn(t, "ada@example.com")
}

// A thief can't hide behind a limit.
func TestAReusedTokenEndsItsSessionWhateverTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	first := f.signIn(t, "ada@example.com")
	next := f.refresh(t, first.RefreshToken)
	f.counted(t, "refresh.session", 300)
	f.counted(t, "refresh.account", 3000)
	if _, err := f.Refresh(t.Context(), first.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
		t.Errorf("error is %v, want ErrRefreshReused", err)
	}
	f.wantRevoked(t, "afterwards", next.AccessToken)
}
