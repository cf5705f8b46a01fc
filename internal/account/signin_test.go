package account_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

func (f fixture) signIn(t *testing.T, email string) account.SignedIn {
	t.Helper()
	s, err := f.SignIn(t.Context(), email, password)
	if err != nil {
		t.Fatalf("sign in %s: %v", email, err)
	}
	return s
}

func TestASignInOpensASessionThatAuthenticates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", role(identity.Editor))
	s := f.signIn(t, " ADA@example.com ")
	if s.User.ID != u.ID || s.ExpiresIn != 15*time.Minute {
		t.Errorf("got user %d for %v", s.User.ID, s.ExpiresIn)
	}
	p, err := f.Authenticate(t.Context(), s.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Account(u.ID, identity.Editor, p.SessionID)
	want.SignedInAt = *f.now
	if p != want || p.SessionID == "" {
		t.Errorf("principal %+v, want %+v", p, want)
	}
	other, err := f.Authenticate(t.Context(), f.signIn(t, "ada@example.com").AccessToken)
	if err != nil || other.SessionID == p.SessionID {
		t.Errorf("a second sign-in shares the first one's session: %v", err)
	}
}

func TestARefreshTokenIsStoredOnlyAsItsDigest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	digest := sha256.Sum256([]byte(s.RefreshToken))
	var stored []byte
	var used *time.Time
	if err := f.db.Pool().QueryRow(t.Context(), `select token_sha256, used_at from refresh_tokens`).Scan(&stored, &used); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, digest[:]) || used != nil {
		t.Errorf("stored %x, used %v", stored, used)
	}
}

// Abuse case 13; that the work is equal too shows in the same hash being
// computed: see TestCase13AnUnknownAddressCostsAHash.
func TestCase13AnUnknownAddressAndAWrongPasswordGetOneAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "off@example.com", nil)
	f.exec(t, `update users set active = false where email = 'off@example.com'`)
	_, want := f.SignIn(t.Context(), "ada@example.com", "wrong password")
	if !errors.Is(want, account.ErrInvalidCredentials) {
		t.Fatalf("wrong password: %v", want)
	}
	for _, email := range []string{"eve@example.com", "off@example.com", "not an address", "", "nul\x00@example.com", "\xff@example.com"} {
		_, got := f.SignIn(t.Context(), email, "wrong password")
		if !errors.Is(got, account.ErrInvalidCredentials) || got.Error() != want.Error() {
			t.Errorf("%q: %v, want exactly %v", email, got, want)
		}
	}
	var sessions int
	if err := f.db.Pool().QueryRow(t.Context(), `select count(*) from auth_sessions`).Scan(&sessions); err != nil || sessions != 0 {
		t.Errorf("%d sessions were opened, %v", sessions, err)
	}
}

func TestCase13AnUnknownAddressCostsAHash(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hashing, release := f.BlockHashing()
	answer := make(chan error)
	go func() {
		_, err := f.SignIn(t.Context(), "eve@example.com", password)
		answer <- err
	}()
	select {
	case <-hashing:
	case err := <-answer:
		t.Fatalf("answered %v without a hash", err)
	}
	release()
	if err := <-answer; !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("error is %v, want ErrInvalidCredentials", err)
	}
}

func TestAnAccountThatChangesDuringASignInGetsNoSession(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"password":     `update users set password_hash = password_hash || 'x'`,
		"deactivation": `update users set active = false`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(t, "ada@example.com", nil)
			hashing, release := f.BlockHashing()
			answer := make(chan error, 1)
			go func() {
				_, err := f.SignIn(t.Context(), "ada@example.com", password)
				answer <- err
			}()
			<-hashing
			f.exec(t, sql)
			release()
			if err := <-answer; !errors.Is(err, account.ErrInvalidCredentials) {
				t.Errorf("error is %v, want ErrInvalidCredentials", err)
			}
		})
	}
}

func TestADeactivatedAccountIsToldSoOnlyWithItsPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "off@example.com", nil)
	f.exec(t, `update users set active = false`)
	if _, err := f.SignIn(t.Context(), "off@example.com", password); !errors.Is(err, account.ErrInactive) {
		t.Errorf("right password: %v, want ErrInactive", err)
	}
}

// Abuse case 16: a hash of one megabyte would be cheap, yet nothing is computed.
func TestCase16APasswordTooLongIsRefusedBeforeHashing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.SignIn(canceled, "ada@example.com", strings.Repeat("x", 1<<20)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("error is %v, want a validation fault before any work", err)
	}
}

// Abuse case 8.
func TestCase08TheEndOfASessionBitesOnTheNextRequest(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"logout":       `update auth_sessions set revoked_at = now()`,
		"deactivation": `update users set active = false`,
		"deletion":     `delete from users`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(t, "ada@example.com", nil)
			s := f.signIn(t, "ada@example.com")
			if _, err := f.Authenticate(t.Context(), s.AccessToken); err != nil {
				t.Fatal(err)
			}
			f.exec(t, sql)
			if _, err := f.Authenticate(t.Context(), s.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
				t.Errorf("error is %v, want ErrSessionRevoked", err)
			}
		})
	}
}

func TestAServiceWithoutTokensSignsNobodyIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s, err := account.New(account.Options{DB: f.db, PasswordCost: cheapHashes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignIn(t.Context(), "ada@example.com", password); err == nil {
		t.Error("signed in")
	}
	if _, err := s.Authenticate(t.Context(), f.signIn(t, "ada@example.com").AccessToken); err == nil {
		t.Error("authenticated")
	}
}

func TestDeletionBitesOnTheNextRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	f.asOwner(t, `delete from users`)
	if _, err := f.Authenticate(t.Context(), s.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("error is %v, want ErrSessionRevoked", err)
	}
}

func TestAnotherRoleBitesOnTheNextRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "root@example.com", role(identity.Admin))
	f.create(t, "ada@example.com", role(identity.Admin))
	s := f.signIn(t, "ada@example.com")
	for _, want := range []identity.Role{identity.User, identity.Editor, identity.Admin} {
		if _, err := f.SetRole(t.Context(), "ada@example.com", want); err != nil {
			t.Fatal(err)
		}
		p, err := f.Authenticate(t.Context(), s.AccessToken)
		if err != nil || p.Role != want {
			t.Errorf("role is %s, %v; want %s", p.Role, err, want)
		}
	}
}

func TestASessionEndsAtItsExpiryEvenWithAFreshToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	f.exec(t, `update auth_sessions set expires_at = $1`, *f.now)
	if _, err := f.Authenticate(t.Context(), s.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("error is %v, want ErrSessionRevoked", err)
	}
	*f.now = f.now.Add(token.AccessTTL)
	if _, err := f.Authenticate(t.Context(), s.AccessToken); !errors.Is(err, token.ErrExpired) {
		t.Errorf("error is %v, want ErrExpired", err)
	}
}

// Abuse case 36, as far as errors and printed values go.
func TestNoErrorOrPrintedAccountHoldsASecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	_, twin := f.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password})
	_, short := f.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "a@b.c", Password: "pl4nted"})
	_, wrong := f.SignIn(t.Context(), "ada@example.com", "pl4nted wrong")
	_, broken := f.Authenticate(t.Context(), "pl4nted.pl4nted.pl4nted")
	text := fmt.Sprintf("%+v %#v %v %v %v %v", u, u, twin, short, wrong, broken)
	for _, secret := range []string{password, "pl4nted", "argon2id"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q shows in %s", secret, text)
		}
	}
}

// With one connection, whoever asks for a second one inside a transaction waits in
// vain. Signing keys are read anew each minute.
func TestASignInNeverNeedsTwoConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	d, err := db.Open(t.Context(), db.Options{URL: urls.App, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	tokens, err := token.New(t.Context(), token.Options{
		DB: d, Issuer: "https://waypost.example", SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := account.New(account.Options{DB: d, Tokens: tokens, PasswordCost: cheapHashes, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	in, err := accounts.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := accounts.Refresh(t.Context(), in.RefreshToken); err != nil {
		t.Error(err)
	}
	if u := d.Usage(); u.Refused != 0 {
		t.Errorf("%d times there was no connection left", u.Refused)
	}
}
