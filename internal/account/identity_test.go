package account_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/mail/mailtest"
	"github.com/waypost/waypost/internal/text"
)

// Abuse case 29.
func TestCase29AnUnverifiedAddressLinksNothing(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	for _, verified := range []bool{true, false} {
		u := o.member(t, map[bool]string{true: "ada@example.com", false: "eve@example.com"}[verified], verified)
		for _, provider := range []string{"google", "github"} {
			person := oauthtest.Person{Subject: 99, Email: u.Email, Name: "Mallory"}
			o.google.Person, o.github.Person = person, person
			if _, err := o.signInWith(t, provider); !errors.Is(err, account.ErrLinkRequired) {
				t.Errorf("%s: %v, want ErrLinkRequired", provider, err)
			}
		}
		o.signedIn(t, u.Email) // the password holds
	}
	if n := o.count(t, `select count(*) from identities`); n != 0 {
		t.Errorf("%d identities were linked", n)
	}
}

func TestAddressesVerifiedOnBothSidesAreLinked(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	o.google.Person, o.github.Person = ada, ada
	for _, provider := range []string{"google", "github"} {
		if s, err := o.signInWith(t, provider); err != nil || s.User.ID != u.ID {
			t.Errorf("%s: %+v, %v", provider, s.User, err)
		}
	}
	o.signedIn(t, "ada@example.com") // the password holds
}

// Abuse case 30.
func TestCase30WhoRegisteredSomebodyElsesAddressLosesItToItsOwner(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	mallory := o.member(t, "ada@example.com", false)
	before, err := o.SignIn(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	ctx := o.as(t, before.AccessToken)
	o.github.Person = oauthtest.Person{Subject: 666, Email: "mallory@example.com", Verified: true}
	if _, err := o.LinkIdentity(ctx, mallory.ID, o.code(t, "github"), verifier); !errors.Is(err, account.ErrEmailUnverified) {
		t.Errorf("an identity before the address is verified: %v, want ErrEmailUnverified", err)
	}
	// But there may be one from before that was refused.
	o.exec(t, `insert into identities (user_id, provider, subject, email, created_at, last_used_at) values ($1, 'github', '666', '', $2, $2)`, mallory.ID, *o.now)
	o.google.Person = ada
	s, err := o.signInWith(t, "google")
	if err != nil || s.User.ID != mallory.ID {
		t.Fatalf("the owner: %+v, %v", s.User, err)
	}
	if _, err := o.SignIn(t.Context(), "ada@example.com", password); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("the attacker's password: %v, want ErrInvalidCredentials", err)
	}
	if _, err := o.Authenticate(t.Context(), before.AccessToken); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("the attacker's session: %v, want ErrSessionRevoked", err)
	}
	if other, err := o.signInWith(t, "github"); err != nil || other.User.ID == mallory.ID {
		t.Errorf("the attacker's identity: %+v, %v, want another account", other.User, err)
	}
	list, err := o.ListIdentities(ctx, mallory.ID)
	if err != nil || len(list) != 1 || list[0].Provider != "google" {
		t.Errorf("identities %+v, %v", list, err)
	}
}

// Its holder proved another address once, and an ADMIN gave it this one.
func TestAnUnverifiedAccountWithASecondFactorIsLinkedByItsHolderOnly(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	o.enroll(t, o.signedIn(t, "ada@example.com"))
	o.exec(t, `update users set email_verified_at = null where id = $1`, u.ID)
	o.google.Person = ada
	if _, err := o.signInWith(t, "google"); !errors.Is(err, account.ErrLinkRequired) {
		t.Errorf("error is %v, want ErrLinkRequired", err)
	}
	if s, err := o.SignIn(t.Context(), "ada@example.com", password); err != nil || s.MFA == nil {
		t.Errorf("the account changed: %v", err)
	}
}

// From before a second factor needed a verified address; the migration marks those.
func TestASecondFactorFromBeforeTheProofGoesWithTheStranger(t *testing.T) {
	t.Parallel()
	for what, claim := range map[string]func(o outside) error{
		"by a provider that vouches": func(o outside) error {
			o.google.Person = ada
			_, err := o.signInWith(t, "google")
			return err
		},
		"by a reset": func(o outside) error {
			return o.ResetPassword(t.Context(), o.plant(t, "reset_password"), "the owner's new password")
		},
		"by a new password": func(o outside) error {
			return o.VerifyEmail(t.Context(), account.Verification{Secret: o.plant(t, "verify_email"), NewPassword: "the owner's new password"})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var box mailtest.Memory
			o := newOutside(t, func(o *account.Options) { o.Mail = &box })
			u := o.member(t, "ada@example.com", true)
			_, codes := o.enroll(t, o.signedIn(t, "ada@example.com"))
			o.exec(t, `update users set email_verified_at = null where id = $1`, u.ID)
			o.exec(t, `update totp_factors set unproven = true where user_id = $1`, u.ID)
			if err := claim(o); err != nil {
				t.Fatal(err)
			}
			if n := o.count(t, `select (select count(*) from totp_factors) + (select count(*) from recovery_codes)`); n != 0 {
				t.Errorf("%d rows of a second factor are left, with codes such as %s", n, codes[0])
			}
		})
	}
}

// plant stores the digest of a link's secret for the one account, and returns the secret.
func (o outside) plant(t *testing.T, purpose string) string {
	t.Helper()
	secret := "wpml_planted-" + purpose
	o.exec(t, `insert into mail_tokens (token_sha256, user_id, purpose, email_key, created_at, expires_at)
		select sha256($1), id, $2, email_key, $3, $3::timestamptz + interval '1 hour' from users`, []byte(secret), purpose, *o.now)
	return secret
}

func TestAnUnverifiedAddressMakesNoAccount(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	for _, provider := range []string{"google", "github"} {
		person := oauthtest.Person{Subject: 99, Email: "ada@example.com", Name: "Mallory"}
		o.google.Person, o.github.Person = person, person
		if _, err := o.signInWith(t, provider); !errors.Is(err, account.ErrUnverifiedOutside) {
			t.Errorf("%s: %v, want ErrUnverifiedOutside", provider, err)
		}
	}
	if n := o.count(t, `select count(*) from users`); n != 0 {
		t.Errorf("%d accounts", n)
	}
	o.google.Person = ada
	if s, err := o.signInWith(t, "google"); err != nil || !s.User.EmailVerified {
		t.Errorf("a verified one: %+v, %v", s.User, err)
	}
}

func TestAProviderMakesNoAccountForAnAddressThatIsKept(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "second@example.com", true)
	o.exec(t, `insert into email_changes (user_id, session_id, signed_in_at, old_email, old_email_key, new_email, new_email_key, created_at, expires_at, confirmed_at, undo_sha256, undo_until)
		values ($1, gen_random_uuid(), $2, 'ada@example.com', 'ada@example.com', 'second@example.com', 'second@example.com', $2, $2, $2, 'x', $2::timestamptz + interval '7 days')`, u.ID, *o.now)
	o.google.Person = ada
	if _, err := o.signInWith(t, "google"); !errors.Is(err, account.ErrLinkRequired) {
		t.Errorf("%v, want ErrLinkRequired", err)
	}
}

func TestAnOutcomeThatMustBeLinkedCanBeLinkedAfterSigningIn(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	u := o.member(t, "ada@example.com", true)
	o.github.Person = oauthtest.Person{Subject: 7, Email: "ada@example.com"}
	code := o.code(t, "github")
	if _, err := o.CollectOAuth(t.Context(), code, verifier); !errors.Is(err, account.ErrLinkRequired) {
		t.Fatalf("error is %v, want ErrLinkRequired", err)
	}
	ctx := o.signedIn(t, "ada@example.com")
	if _, err := o.LinkIdentity(ctx, u.ID, code, "another verifier"); !errors.Is(err, oauth.ErrCode) {
		t.Errorf("another verifier: %v, want ErrCode", err)
	}
	linked, err := o.LinkIdentity(ctx, u.ID, code, verifier)
	if err != nil {
		t.Fatal(err)
	}
	want := account.Identity{ID: linked.ID, Provider: "github", Email: "ada@example.com", CreatedAt: *o.now, LastUsedAt: *o.now}
	if diff := cmp.Diff(want, linked); diff != "" {
		t.Error(diff)
	}
	if s, err := o.signInWith(t, "github"); err != nil || s.User.ID != u.ID {
		t.Errorf("with the linked identity: %+v, %v", s.User, err)
	}
	again, err := o.LinkIdentity(ctx, u.ID, o.code(t, "github"), verifier)
	if err != nil || again.ID != linked.ID {
		t.Errorf("linked twice: %+v, %v", again, err)
	}
	eve := o.member(t, "eve@example.com", true)
	if _, err := o.LinkIdentity(o.signedIn(t, "eve@example.com"), eve.ID, o.code(t, "github"), verifier); !errors.Is(err, account.ErrIdentityTaken) {
		t.Errorf("linked to another: %v, want ErrIdentityTaken", err)
	}
	*o.now = o.now.Add(time.Hour)
	if _, err := o.LinkIdentity(ctx, u.ID, o.code(t, "github"), verifier); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("long after the sign-in: %v, want ErrReauthenticate", err)
	}
}

func TestTheLastWayToSignInStays(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	o.google.Person, o.github.Person = ada, ada
	s, err := o.signInWith(t, "google")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.signInWith(t, "github"); err != nil {
		t.Fatal(err)
	}
	ctx := o.as(t, s.AccessToken)
	list, err := o.ListIdentities(ctx, s.User.ID)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	other := o.member(t, "eve@example.com", true)
	if err := o.UnlinkIdentity(ctx, other.ID, list[0].ID); !errors.Is(err, account.ErrMissingIdentity) {
		t.Errorf("somebody else's: %v, want ErrMissingIdentity", err)
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = o.UnlinkIdentity(ctx, s.User.ID, list[i].ID) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), account.ErrLastIdentity) {
		t.Errorf("both at once: %v", errs)
	}
	if err := o.SetPassword(t.Context(), s.User.Email, password); err != nil {
		t.Fatal(err)
	}
	left, err := o.ListIdentities(ctx, s.User.ID)
	if err != nil || len(left) != 1 {
		t.Fatalf("%+v, %v", left, err)
	}
	if err := o.UnlinkIdentity(ctx, s.User.ID, left[0].ID); err != nil {
		t.Errorf("with a password: %v", err)
	}
}

func TestAnIdentityWithoutAnAddressNeedsAnAccountToBeLinkedTo(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	for _, email := range []string{"", "not an address", "a\x00@example.com", "\uff41da@example.com"} {
		o.google.Person = oauthtest.Person{Subject: 7, Email: email, Verified: true}
		if _, err := o.signInWith(t, "google"); !errors.Is(err, account.ErrNoAddress) {
			t.Errorf("%q: %v, want ErrNoAddress", email, err)
		}
	}
}

func FuzzWhateverAProviderTellsCanBeStored(f *testing.F) {
	f.Add("ada@example.com", "Ada", "Lovelace", "")
	f.Add("", "", "", "Ada King Lovelace")
	f.Add("", "Ada\nLovelace", "\u202eadA", "A\u200bda Love\x1blace")
	f.Add("x\x00@example.com", "\xff", strings.Repeat("é", 200), "\u2028 ")
	f.Fuzz(func(t *testing.T, email, given, family, name string) {
		got, verified, first, last := account.Admit(oauth.Identity{Email: email, EmailVerified: true, GivenName: given, FamilyName: family, Name: name})
		if verified != (got != "") || len(got) > account.MaxEmail {
			t.Errorf("address %q, verified %t", got, verified)
		}
		for _, n := range []string{first, last} {
			if count := utf8.RuneCountInString(n); count < account.MinName || count > account.MaxName || !utf8.ValidString(n) || !text.IsLine(n) || text.Blank(n) {
				t.Errorf("name %q", n)
			}
		}
	})
}
