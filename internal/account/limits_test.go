package account_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

func from(t *testing.T, address string) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.Principal{Kind: identity.KindAnonymous, Address: netip.MustParseAddr(address)})
}

func (f fixture) fail(t *testing.T, ctx context.Context, email string, times int) {
	t.Helper()
	for i := range times {
		if _, err := f.SignIn(ctx, email, "wrong password"); !errors.Is(err, account.ErrInvalidCredentials) {
			t.Fatalf("failure %d: %v, want ErrInvalidCredentials", i+1, err)
		}
	}
}

func (f fixture) wantLimited(t *testing.T, ctx context.Context, what, email, password string) time.Duration {
	t.Helper()
	_, err := f.SignIn(ctx, email, password)
	limited, ok := errors.AsType[*fault.Error](err)
	if !ok || !errors.Is(err, throttle.ErrLimited) || limited.RetryAfter <= 0 {
		t.Fatalf("%s: %v, want ErrLimited with a time", what, err)
	}
	return limited.RetryAfter
}

// Abuse case 14.
func TestCase14TenFailuresInARowBlockAnAccountForAWhile(t *testing.T) {
	t.Parallel()
	for _, email := range []string{"ada@example.com", "nobody@example.com"} { // known or not, the answers are the same
		f := newFixture(t)
		f.create(t, "ada@example.com", nil)
		ctx := from(t, "203.0.113.7")
		f.fail(t, ctx, email, 10)
		first := f.wantLimited(t, ctx, "the right password", email, password)
		if first != time.Minute {
			t.Errorf("blocked for %s", first)
		}
		*f.now = f.now.Add(first)
		f.fail(t, ctx, email, 1)
		if second := f.wantLimited(t, ctx, "after another failure", email, password); second != 2*time.Minute {
			t.Errorf("then blocked for %s", second)
		}
		for range 10 {
			*f.now = f.now.Add(15 * time.Minute)
			f.fail(t, ctx, email, 1)
		}
		if longest := f.wantLimited(t, ctx, "after many", email, password); longest != 15*time.Minute {
			t.Errorf("at last blocked for %s: an owner is kept out for good", longest)
		}
		*f.now = f.now.Add(15 * time.Minute)
		if email == "ada@example.com" {
			f.signIn(t, email)
			f.fail(t, ctx, email, 9) // the row starts anew
		}
	}
}

func TestStrangersFailuresDoNotBlockTheOwnerAtHome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	homely := from(t, "198.51.100.1")
	if _, err := f.SignIn(homely, "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	f.wantLimited(t, from(t, "203.0.113.8"), "another stranger", "ada@example.com", password)
	if _, err := f.SignIn(homely, "ada@example.com", password); err != nil {
		t.Errorf("the owner at home: %v", err)
	}
	f.wantLimited(t, from(t, "203.0.113.8"), "a stranger after the owner", "ada@example.com", password)
	f.fail(t, homely, "ada@example.com", 10)
	f.wantLimited(t, homely, "guesses from home", "ada@example.com", password)
}

func TestAHundredFailuresBlockAnAddressWhateverTheAccounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ctx := from(t, "2001:db8:1:2:3:4:5:6")
	for i := range 100 {
		f.fail(t, ctx, string(rune('a'+i%26))+string(rune('a'+i/26))+"@example.com", 1)
	}
	if wait := f.wantLimited(t, from(t, "2001:db8:1:2:ffff::1"), "the same /64", "ada@example.com", password); wait != 15*time.Minute {
		t.Errorf("blocked for %s", wait)
	}
	if _, err := f.SignIn(from(t, "2001:db8:1:3::1"), "ada@example.com", password); err != nil {
		t.Errorf("another network: %v", err)
	}
	*f.now = f.now.Add(15 * time.Minute)
	if _, err := f.SignIn(ctx, "ada@example.com", password); err != nil {
		t.Errorf("a quarter of an hour later: %v", err)
	}
}

func TestSuccessesAreNotCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ctx := from(t, "203.0.113.7")
	for range 120 {
		if _, err := f.SignIn(ctx, "ada@example.com", password); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfGuessesAtOnceNoMoreThanTenAreAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	errs := make([]error, 40)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = f.SignIn(from(t, "203.0.113.7"), "ada@example.com", "wrong password") })
	}
	wg.Wait()
	wrong := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, account.ErrInvalidCredentials):
			wrong++
		case !errors.Is(err, throttle.ErrLimited) && !errors.Is(err, account.ErrBusy):
			t.Errorf("error is %v", err)
		}
	}
	if wrong > 10 {
		t.Errorf("%d guesses were answered", wrong)
	}
}

func TestSixtyRegistrationsOfAnAddressInAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	register := func(i int) error {
		_, err := f.Register(from(t, "203.0.113.7"), account.NewUser{
			FirstName: "Ada", LastName: "Lovelace", Password: password, Email: string(rune('a'+i%26)) + string(rune('a'+i/26)) + "@example.com",
		})
		return err
	}
	for i := range 60 {
		if err := register(i); err != nil {
			t.Fatalf("registration %d: %v", i+1, err)
		}
	}
	if err := register(60); !errors.Is(err, throttle.ErrLimited) {
		t.Errorf("error is %v, want ErrLimited", err)
	}
	*f.now = f.now.Add(time.Hour)
	if err := register(61); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}
