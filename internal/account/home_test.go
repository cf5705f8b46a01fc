package account_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

// signInFrom signs in rightly, or says what kept it out.
func (f fixture) signInFrom(t *testing.T, address, email string) error {
	t.Helper()
	_, err := f.SignIn(from(t, address), email, password)
	return err
}

// failures are of as many accounts, so that only the network's limit counts them.
func (f fixture) failures(t *testing.T, address string, times int) {
	t.Helper()
	for i := range times {
		f.fail(t, from(t, address), fmt.Sprintf("nobody-%s-%d@example.com", address, i), 1)
	}
}

// A program with privacy extensions (RFC 8981) has another address every day, of the
// same /64.
func TestAnOwnerIsAtHomeInTheWholeNetworkOfASignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	if err := f.signInFrom(t, "2001:db8:1:2:aaaa:bbbb:cccc:dddd", "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	if err := f.signInFrom(t, "2001:db8:1:2:1111:2222:3333:4444", "ada@example.com"); err != nil {
		t.Errorf("another address of the home network: %v", err)
	}
	for what, address := range map[string]string{"another /64 of the /48": "2001:db8:1:3::1", "an IPv4 address": "198.51.100.1"} {
		if err := f.signInFrom(t, address, "ada@example.com"); !errors.Is(err, throttle.ErrLimited) {
			t.Errorf("%s: %v, want ErrLimited", what, err)
		}
	}
}

func TestNeighboursFailuresKeepNoOwnerOutAtHome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "new@example.com", nil)
	const office = "198.51.100.1" // 200 people behind one address
	if err := f.signInFrom(t, office, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	f.failures(t, office, 100)
	f.wantLimited(t, from(t, office), "who never was there", "new@example.com", password)
	if err := f.signInFrom(t, office, "ada@example.com"); err != nil {
		t.Errorf("the owner at home: %v", err)
	}
	f.fail(t, from(t, office), "ada@example.com", 10)
	f.wantLimited(t, from(t, office), "guesses at the owner's account from there", "ada@example.com", password)
}

// Who guesses at accounts of the house from the house is known as one who guesses.
func TestFailuresAtHomeCountForTheNetworkToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "new@example.com", nil)
	const office = "198.51.100.1"
	for i := range 10 {
		email := fmt.Sprintf("ada%d@example.com", i)
		f.create(t, email, nil)
		if err := f.signInFrom(t, office, email); err != nil {
			t.Fatal(err)
		}
		f.fail(t, from(t, office), email, 10)
	}
	f.wantLimited(t, from(t, office), "a stranger there", "new@example.com", password)
}

func TestFailuresAtHomeCountForTheAccountToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	if err := f.signInFrom(t, "198.51.100.1", "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	f.fail(t, from(t, "198.51.100.1"), "ada@example.com", 10)
	f.wantLimited(t, from(t, "203.0.113.7"), "from elsewhere", "ada@example.com", password)
}

// A reset by mail lets its owner in wherever they are: at home after ten mistakes of
// their own, in other homes, and in a network full of other people's failures.
func TestAResetByMailLetsTheOwnerInEverywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	homes := []string{"198.51.100.1", "2001:db8:1:2::1", "2001:db8:9:9::1"}
	for _, address := range homes {
		if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	const cafe = "192.0.2.55"
	f.failures(t, cafe, 100)
	for _, address := range homes {
		f.fail(t, from(t, address), "ada@example.com", 10)
		f.wantLimited(t, from(t, address), "after ten mistakes", "ada@example.com", password)
	}
	f.forgot(t, "ada@example.com")
	if err := f.ResetPassword(from(t, cafe), f.code(t, "ada@example.com", mail.ResetPassword), password); err != nil {
		t.Fatal(err)
	}
	for _, address := range append(homes, cafe) {
		if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := f.signInFrom(t, cafe, "nobody@example.com"); !errors.Is(err, throttle.ErrLimited) {
		t.Errorf("others in that network: %v, want ErrLimited", err)
	}
}

func TestAnOperatorsPasswordLiftsBlocksAtHomeToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	if err := f.signInFrom(t, "198.51.100.1", "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	f.fail(t, from(t, "198.51.100.1"), "ada@example.com", 10)
	if err := f.SetPassword(identity.NewContext(t.Context(), identity.System("test")), "ada@example.com", password); err != nil {
		t.Fatal(err)
	}
	if err := f.signInFrom(t, "198.51.100.1", "ada@example.com"); err != nil {
		t.Error(err)
	}
}

func TestAHomeIsForgottenAfterThirtyDaysAndTheSweepDeletesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	const address = "198.51.100.1"
	if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	*f.now = f.now.Add(29 * 24 * time.Hour)
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	if err := f.signInFrom(t, address, "ada@example.com"); err != nil {
		t.Fatalf("after 29 days: %v", err)
	}
	*f.now = f.now.Add(30 * 24 * time.Hour)
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	f.wantLimited(t, from(t, address), "30 days later", "ada@example.com", password)
	*f.now = f.now.Add(time.Second)
	if _, err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.rows(t, "sign_in_networks"); n != 0 {
		t.Errorf("%d networks are kept", n)
	}
}

// Who moves through many networks fills no table.
func TestAtMostAHundredHomesOfAnAccountAreKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	for i := range 110 {
		*f.now = f.now.Add(time.Minute)
		if err := f.signInFrom(t, fmt.Sprintf("2001:db8:1:%x::1", i), "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.rows(t, "sign_in_networks"); n != 100 {
		t.Errorf("%d networks are kept", n)
	}
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	if err := f.signInFrom(t, "2001:db8:1:a::2", "ada@example.com"); err != nil {
		t.Errorf("the hundredth from the end: %v", err)
	}
	f.wantLimited(t, from(t, "2001:db8:1:9::2"), "the one before", "ada@example.com", password)
}

func TestAPasswordWithoutItsSecondFactorMakesNoHome(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.member(t, "ada@example.com", true)
	secret, _ := o.enroll(t, o.signedIn(t, "ada@example.com"))
	at := from(t, "198.51.100.1")
	s, err := o.SignIn(at, "ada@example.com", password)
	if err != nil || s.MFA == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	f := fixture{Service: o.Service, db: o.db, now: o.now}
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 10)
	f.wantLimited(t, at, "with the password alone", "ada@example.com", password)
	if _, err := o.VerifySecondFactor(at, s.MFA.Token, o.totp(t, secret)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SignIn(at, "ada@example.com", password); err != nil {
		t.Errorf("after both, while strangers' guesses still block: %v", err)
	}
}

func TestAnIPv4ClientBehindNAT64IsAloneInItsNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.failures(t, "64:ff9b::cb00:7107", 100) // 203.0.113.7
	if err := f.signInFrom(t, "64:ff9b::c633:6401", "ada@example.com"); err != nil {
		t.Errorf("another client of the same gateway: %v", err)
	}
	f.wantLimited(t, from(t, "203.0.113.7"), "the same client without a gateway", "ada@example.com", password)
}
