package account_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// 150 sign-ins with right passwords, again and again, beside one person.
func TestAnHonestSignInBesideAHundredAndFiftyOthersIsAnswered(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(i int) (email, address string){
		"one account from one address":    func(int) (string, string) { return "eve-0@example.com", "203.0.113.1" },
		"many accounts from one address":  func(i int) (string, string) { return fmt.Sprintf("eve-%d@example.com", i%5), "203.0.113.1" },
		"one account from many addresses": func(i int) (string, string) { return "eve-0@example.com", fmt.Sprintf("203.0.113.%d", 1+i) },
		"many addresses of one IPv6 network": func(i int) (string, string) {
			return fmt.Sprintf("eve-%d@example.com", i%5), fmt.Sprintf("2001:db8::%x", 1+i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The cost is that of production, so that the queue is full.
			f := newFixtureWith(t, func(o *account.Options) { o.PasswordCost, o.ConcurrentHashes = account.DefaultPasswordCost, 1 })
			f.create(t, "ada@example.com", nil)
			for i := range 5 {
				f.create(t, fmt.Sprintf("eve-%d@example.com", i), nil)
			}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			full := make(chan struct{})
			tellFull := sync.OnceFunc(func() { close(full) })
			for i := range 150 {
				email, address := flood(i)
				at := from(t, address)
				wg.Go(func() {
					for ctx.Err() == nil {
						_, err := f.SignIn(at, email, password)
						if errors.Is(err, account.ErrBusy) {
							tellFull()
						}
						if err != nil { // or throttle.ErrLimited
							select { // as long as an answer and the next request are on their way
							case <-time.After(10 * time.Millisecond):
							case <-ctx.Done():
							}
						}
					}
				})
			}
			<-full
			for n := range 3 {
				if _, err := f.SignIn(from(t, "198.51.100.7"), "ada@example.com", password); err != nil {
					t.Errorf("right password, number %d: %v", n, err)
				}
				// Who mistypes waits no longer, and is told so.
				if _, err := f.SignIn(from(t, "198.51.100.8"), "nobody@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
					t.Errorf("unknown address, number %d: %v", n, err)
				}
			}
			stop()
			wg.Wait()
		})
	}
}

// Whoever is one too many costs the database nothing: not even the connection.
func TestASignInThatTheQueueRefusesDoesNotAskTheDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.signIn(t, "ada@example.com") // the keys are there
	f.RefuseHashes()
	f.db.Close()
	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		if _, err := f.SignIn(from(t, "203.0.113.1"), email, password); !errors.Is(err, account.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", email, err)
		}
	}
}

// Whatever computes a hash charges it to the account, by its address in any
// spelling, and to the client's network.
func TestEveryHashIsChargedToItsAccountAndItsNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	recorded := f.RecordPayers()
	const email, address = "ada@example.com", "2001:db8:1:2:3:4:5:6"
	at := from(t, address)
	f.create(t, "other@example.com", nil)
	recorded()
	signedIn := func() context.Context {
		s, err := f.SignIn(at, email, password)
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Authenticate(at, s.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		recorded()
		return identity.NewContext(at, p.From(identity.FromContext(at)))
	}
	for _, c := range []struct {
		what   string
		hashes int
		do     func() error
	}{
		{"register", 1, func() error {
			_, err := f.Register(at, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "Ada@Example.com", Password: password})
			return err
		}},
		{"a right password", 1, func() error { _, err := f.SignIn(at, "ADA@example.com", password); return err }},
		{"a wrong password", 1, func() error { _, err := f.SignIn(at, email, "wrong password"); return err }},
		{"change", 2, func() error { return f.ChangePassword(signedIn(), password, password) }},
		{"reset", 1, func() error {
			if err := f.MailLink(t.Context(), account.LinkJob{Email: email, Link: account.ForPassword}); err != nil {
				return err
			}
			return f.ResetPassword(at, f.code(t, "Ada@Example.com", mail.ResetPassword), password)
		}},
		{"set", 1, func() error { return f.SetPassword(at, email, password) }},
	} {
		if err := c.do(); err != nil && !errors.Is(err, account.ErrInvalidCredentials) {
			t.Fatalf("%s: %v", c.what, err)
		}
		got := recorded()
		if len(got) != c.hashes {
			t.Errorf("%s: %d hashes, want %d", c.what, len(got), c.hashes)
		}
		for _, payers := range got {
			if diff := cmp.Diff(account.Payers(at, email), payers); diff != "" {
				t.Errorf("%s: %s", c.what, diff)
			}
		}
	}
	if _, err := f.SignIn(at, "nobody@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{account.Payers(at, "nobody@example.com")}, recorded()); diff != "" {
		t.Errorf("an unknown address: %s", diff)
	}
	neighbour, stranger := account.Payers(from(t, "2001:db8:1:2::1"), email), account.Payers(from(t, "2001:db8:1:3::1"), email)
	if diff := cmp.Diff(account.Payers(at, email), neighbour); diff != "" {
		t.Errorf("an address of the same /64: %s", diff)
	}
	if cmp.Equal(neighbour, stranger) {
		t.Error("addresses of two networks are charged as one")
	}
	if got := account.Payers(t.Context(), email); len(got) != 1 {
		t.Errorf("a command is charged to %v", got)
	}
}
