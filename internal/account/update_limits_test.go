package account_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

func TestOnesOwnAddressChangesTenTimesAnHourTakenOnesIncluded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	f.create(t, "taken@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	change := func(email string) error {
		_, err := f.Update(ctx, u.ID, account.Change{Email: &email})
		return err
	}
	for n := range 5 {
		if err := change("taken@example.com"); !errors.Is(err, account.ErrEmailTaken) {
			t.Fatalf("taken, number %d: %v", n, err)
		}
		if err := change(fmt.Sprintf("ada-%d@example.com", n)); err != nil {
			t.Fatalf("free, number %d: %v", n, err)
		}
	}
	for _, email := range []string{"taken@example.com", "ada@example.com", "ada-9@example.com"} {
		if err := change(email); !errors.Is(err, throttle.ErrLimited) {
			t.Errorf("%s: %v, want ErrLimited", email, err)
		}
	}
	// What is no change of the address is none of the limit's business.
	own := account.Change{FirstName: new("Augusta"), Email: new("ADA-4@example.com"), Role: new(identity.User), Active: new(true)}
	if _, err := f.Update(ctx, u.ID, own); err != nil {
		t.Errorf("repeating the address: %v", err)
	}
	*f.now = f.now.Add(time.Hour)
	ctx = f.as(t, f.signIn(t, "ada-4@example.com").AccessToken)
	if err := change("ada@example.com"); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

func TestAnAdministratorIsNotLimitedInChangingOthersAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	f.create(t, "root@example.com", role(identity.Admin))
	s := f.signIn(t, "root@example.com")
	*f.now = f.now.Add(time.Hour) // nor need they have signed in of late
	ctx := f.as(t, f.refresh(t, s.RefreshToken).AccessToken)
	for n := range 30 {
		if _, err := f.Update(ctx, u.ID, account.Change{Email: new(fmt.Sprintf("ada%d@example.com", n%2))}); err != nil {
			t.Fatalf("number %d: %v", n, err)
		}
	}
	if got := f.count(t, "ada0@example.com", mail.VerifyEmail); got != 15 {
		t.Errorf("%d links to verify, want one for each change", got)
	}
}

func TestOfManyChangesAtOnceTheLimitHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	errs := make([]error, 40)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			_, errs[n] = f.Update(ctx, u.ID, account.Change{Email: new(fmt.Sprintf("ada-%d@example.com", n))})
		})
	}
	wg.Wait()
	allowed := 0
	for _, err := range errs {
		switch {
		case err == nil:
			allowed++
		case !errors.Is(err, throttle.ErrLimited):
			t.Errorf("%v, want ErrLimited", err)
		}
	}
	if allowed != 10 {
		t.Errorf("%d of 40 changes were allowed, want 10", allowed)
	}
}

// Somebody makes many accounts and hands one stranger's address round among them.
func TestAStrangersAddressGetsOnlySoManyMailsFromOthersChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const stranger = "stranger@elsewhere.example"
	for n := range 5 {
		email := fmt.Sprintf("eve-%d@example.com", n)
		u := f.create(t, email, nil)
		ctx := f.as(t, f.signIn(t, email).AccessToken)
		for range 5 {
			for _, to := range []string{stranger, email} {
				if _, err := f.Update(ctx, u.ID, account.Change{Email: &to}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if links, notices := f.count(t, stranger, mail.VerifyEmail), f.count(t, stranger, mail.EmailChanged); links != 5 || notices != 10 {
		t.Errorf("%d links and %d notices, want 5 and 10", links, notices)
	}
}

func TestAnotherAddressOfOnesOwnNeedsARecentSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	_, bot := f.apiToken(t, s, identity.Read, identity.Write)
	*f.now = f.now.Add(16 * time.Minute)
	s = f.refresh(t, s.RefreshToken)
	for who, bearer := range map[string]string{"long after the sign-in": s.AccessToken, "an API token": bot} {
		ctx := f.as(t, bearer)
		for range 12 { // and it is not counted
			if _, err := f.Update(ctx, u.ID, account.Change{Email: new("ada@later.example")}); !errors.Is(err, account.ErrReauthenticate) {
				t.Errorf("%s: %v, want ErrReauthenticate", who, err)
			}
		}
		own := account.Change{FirstName: new("Augusta"), Email: new("ada@example.com"), Role: new(identity.User), Active: new(true)}
		if _, err := f.Update(ctx, u.ID, own); err != nil {
			t.Errorf("%s repeats what it is: %v", who, err)
		}
	}
	if _, err := f.Update(f.as(t, f.signIn(t, "ada@example.com").AccessToken), u.ID, account.Change{Email: new("ada@later.example")}); err != nil {
		t.Errorf("right after a sign-in: %v", err)
	}
}
