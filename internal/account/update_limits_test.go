package account_test

import (
	"context"
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

// Both ways to ask are one, and say the same of a taken address, a free one and a kept one.
func TestOnesOwnAddressChangesTenTimesAnHourTakenOnesIncluded(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(f fixture, ctx context.Context, id int64, email string) error{
		"its own operation": func(f fixture, ctx context.Context, _ int64, email string) error {
			return f.RequestEmailChange(ctx, email)
		},
		"a self-update": func(f fixture, ctx context.Context, id int64, email string) error {
			got, err := f.Update(ctx, id, account.Change{Email: &email})
			if err == nil && got.Email != "ada@example.com" {
				t.Errorf("%s took effect at once", got.Email)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			u := f.create(t, "ada@example.com", nil)
			f.create(t, "taken@example.com", nil)
			ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
			for n := range 10 {
				if err := ask(f, ctx, u.ID, []string{"taken@example.com", "TAKEN@example.com", "free@example.com"}[n%3]); err != nil {
					t.Fatalf("number %d: %v", n, err)
				}
			}
			for _, email := range []string{"taken@example.com", "ada-9@example.com"} {
				if err := ask(f, ctx, u.ID, email); !errors.Is(err, throttle.ErrLimited) {
					t.Errorf("%s: %v, want ErrLimited", email, err)
				}
			}
			// What is no change of the address is none of the limit's business.
			own := account.Change{FirstName: new("Augusta"), Email: new("ADA@example.com"), Role: new(identity.User), Active: new(true)}
			if _, err := f.Update(ctx, u.ID, own); err != nil {
				t.Errorf("repeating the address: %v", err)
			}
			*f.now = f.now.Add(time.Hour)
			if err := f.RequestEmailChange(f.as(t, f.signIn(t, "ada@example.com").AccessToken), "free@example.com"); err != nil {
				t.Errorf("an hour later: %v", err)
			}
		})
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

func TestOfManyChangesAtOnceTheLimitHoldsAndOneIsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	errs := make([]error, 40)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			email := fmt.Sprintf("ada-%d@example.com", n)
			if n%2 == 0 {
				_, errs[n] = f.Update(ctx, u.ID, account.Change{Email: &email})
			} else {
				errs[n] = f.RequestEmailChange(ctx, email)
			}
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
	f.mailChanges(t)
	if links := len(f.mail.Sent("")); links != 1 {
		t.Errorf("%d mails, want that of the last alone", links)
	}
}

// Somebody makes many accounts and hands one stranger's address round among them.
func TestAStrangersAddressGetsOnlySoManyMailsFromOthersChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const stranger, member = "stranger@elsewhere.example", "member@example.com"
	f.create(t, member, nil)
	for n := range 5 {
		email := fmt.Sprintf("eve-%d@example.com", n)
		f.create(t, email, nil)
		ctx := f.as(t, f.signIn(t, email).AccessToken)
		for range 5 {
			for _, to := range []string{stranger, member} {
				if err := f.RequestEmailChange(ctx, to); err != nil {
					t.Fatal(err)
				}
				f.mailChanges(t)
			}
		}
	}
	// Whoever has an account gets as many as who has none.
	if a, b := f.count(t, stranger, mail.ConfirmEmail), f.count(t, member, mail.EmailInUse); a != 5 || b != 5 {
		t.Errorf("%d to a stranger, %d to a member, want 5 each", a, b)
	}
	if len(f.mail.Sent("")) != 10 {
		t.Errorf("%d mails, want 10", len(f.mail.Sent("")))
	}
}

func TestANetworkAsksForSixtyAddressesAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limited := 0
	for n := range 7 {
		email := fmt.Sprintf("eve-%d@example.com", n)
		f.create(t, email, nil)
		p, err := f.Authenticate(t.Context(), f.signIn(t, email).AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		ctx := identity.NewContext(t.Context(), p.From(identity.FromContext(from(t, "203.0.113.7"))))
		for m := range 10 {
			if err := f.RequestEmailChange(ctx, fmt.Sprintf("stranger-%d-%d@example.com", n, m)); errors.Is(err, throttle.ErrLimited) {
				limited++
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if limited != 10 {
		t.Errorf("%d of 70 were refused, want 10", limited)
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
