package account_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/throttle"
)

// inOneSite is the nth of many networks that somebody has who has a /48.
func inOneSite(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n) }

// Whoever has a /48 has 65,536 networks, and is not allowed as much for each.
func TestEveryLimitOfAnAddressHoldsForASlash48Too(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		most int
		in   time.Duration
		do   func(f fixture, t *testing.T, n int) error
	}{
		{"failed sign-ins", 200, 15 * time.Minute, func(f fixture, t *testing.T, n int) error {
			_, err := f.SignIn(from(t, inOneSite(n)), fmt.Sprintf("nobody%d@example.com", n), "wrong password")
			if errors.Is(err, account.ErrInvalidCredentials) {
				return nil
			}
			return err
		}},
		{"registrations", 120, time.Hour, func(f fixture, t *testing.T, n int) error {
			_, err := f.Register(from(t, inOneSite(n)), account.NewUser{
				FirstName: "Ada", LastName: "Lovelace", Password: password, Email: fmt.Sprintf("ada%d@example.com", n),
			})
			return err
		}},
		{"requests for a reset", 120, time.Hour, func(f fixture, t *testing.T, n int) error {
			return f.RequestPasswordReset(from(t, inOneSite(n)), "ada@example.com")
		}},
		{"requests for a verification", 120, time.Hour, func(f fixture, t *testing.T, n int) error {
			return f.RequestVerification(from(t, inOneSite(n)), "ada@example.com")
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for n := range c.most {
				if err := c.do(f, t, n); err != nil {
					t.Fatalf("number %d: %v", n+1, err)
				}
			}
			if err := c.do(f, t, c.most); !errors.Is(err, throttle.ErrLimited) {
				t.Errorf("one more: %v, want ErrLimited", err)
			}
			if _, err := f.Register(from(t, "2001:db8:2::1"), account.NewUser{FirstName: "Eve", LastName: "Moore", Email: "eve@example.com", Password: password}); err != nil {
				t.Errorf("another /48: %v", err)
			}
			*f.now = f.now.Add(c.in)
			if err := c.do(f, t, c.most+1); err != nil {
				t.Errorf("after %s: %v", c.in, err)
			}
		})
	}
}

// Of its neighbours' /48, one /64 that is over its limit uses up its own part.
func TestOneNetworkAloneDoesNotCloseItsSlash48(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	register := func(address string, n int) error {
		_, err := f.Register(from(t, address), account.NewUser{
			FirstName: "Ada", LastName: "Lovelace", Password: password, Email: fmt.Sprintf("ada%d@example.com", n),
		})
		return err
	}
	for n := range 200 {
		if err := register(inOneSite(1), n); err != nil && !errors.Is(err, throttle.ErrLimited) {
			t.Fatal(err)
		}
	}
	if err := register(inOneSite(2), 200); err != nil {
		t.Errorf("the neighbour: %v", err)
	}
}

// Whoever is refused writes nothing, from however many networks they come: neither
// counts nor, but for one a minute, notes in the audit log.
func TestWhatIsRefusedFromManyNetworksFillsNoTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := f.create(t, "ada@example.com", nil)
	try := func(n int, want error) {
		t.Helper()
		if _, err := f.SignIn(from(t, inOneSite(n)), ada.Email, password); !errors.Is(err, want) {
			t.Fatalf("number %d: %v, want %v", n, err, want)
		}
	}
	try(1, nil)
	if err := f.RequestPasswordReset(from(t, inOneSite(1)), ada.Email); err != nil {
		t.Fatal(err)
	}
	f.fail(t, from(t, inOneSite(2)), ada.Email, 1)
	f.counted(t, "sign_in.address.wide", 200)
	f.counted(t, "forgot.address.wide", 120)
	counts, notes := f.rows(t, "throttles"), f.rows(t, "audit_pending")
	for n := range 50 {
		try(100+n, throttle.ErrLimited)
		if err := f.RequestPasswordReset(from(t, inOneSite(100+n)), ada.Email); !errors.Is(err, throttle.ErrLimited) {
			t.Fatal(err)
		}
	}
	if n := f.rows(t, "throttles") - counts; n != 0 {
		t.Errorf("%d counts more", n)
	}
	if n := f.rows(t, "audit_pending") - notes; n != 1 {
		t.Errorf("%d notes more, want one", n)
	}
}

func TestAHashIsChargedToTheSlash48Too(t *testing.T) {
	t.Parallel()
	common := func(a, b string) (both []string) {
		for _, p := range account.Payers(from(t, a), "ada@example.com") {
			for _, q := range account.Payers(from(t, b), "eve@example.com") {
				if p == q {
					both = append(both, p)
				}
			}
		}
		return both
	}
	for _, c := range []struct {
		a, b string
		want []string
	}{
		{"2001:db8:1:2::1", "2001:db8:1:2::2", []string{"network 2001:db8:1:2::/64", "network 2001:db8:1::/48"}},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", []string{"network 2001:db8:1::/48"}},
		{"2001:db8:1:2::1", "2001:db8:2:2::1", nil},
		{"203.0.113.7", "203.0.113.7", []string{"network 203.0.113.7"}},
		{"203.0.113.7", "203.0.113.8", nil},
		{"::ffff:203.0.113.7", "203.0.113.7", []string{"network 203.0.113.7"}},
		{"64:ff9b::cb00:7107", "203.0.113.7", []string{"network 203.0.113.7"}},
	} {
		if diff := cmp.Diff(c.want, common(c.a, c.b)); diff != "" {
			t.Errorf("%s and %s: %s", c.a, c.b, diff)
		}
	}
}
