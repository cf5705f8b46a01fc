package account_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// renew makes a link anew, as an ADMIN who has a mail sent again does.
func (f fixture) renew(t *testing.T, userID int64, kind mail.Kind, to string) (mail.Message, error) {
	t.Helper()
	var m mail.Message
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		m, err = f.RenewLink(ctx, tx, userID, kind, to)
		return err
	})
	return m, err
}

// A thief has an access token for a quarter of an hour, and a mailbox.
func TestAnUndoTakesAllFromAThief(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	thief := f.as(t, s.AccessToken)
	f.exec(t, `insert into identities (user_id, provider, subject, email, created_at, last_used_at)
		values ($1, 'google', 'the owner', '', $2::timestamptz - interval '1 day', $2), ($1, 'github', 'the thief', '', $2, $2)`, u.ID, *f.now)
	_, bot := f.apiToken(t, s, identity.Read)
	f.moved(t, thief, "thief@example.com")
	f.forgot(t, "thief@example.com")
	if err := f.ResetPassword(t.Context(), f.code(t, "thief@example.com", mail.ResetPassword), "the thief's own password"); err != nil {
		t.Fatal(err)
	}
	in, err := f.SignIn(t.Context(), "thief@example.com", "the thief's own password")
	if err != nil {
		t.Fatal(err)
	}
	next := f.ask(t, f.as(t, in.AccessToken), "another@example.com")
	f.exec(t, `insert into totp_factors (user_id, secret, secret_key_id, created_at, confirmed_at) values ($1, '', '', $2, $2)`, u.ID, *f.now)
	f.forgot(t, "thief@example.com")

	undo := f.code(t, "ada@example.com", mail.UndoEmail)
	if err := errors.Join(f.CheckUndoEmailLink(t.Context(), undo), f.UndoEmail(t.Context(), undo)); err != nil {
		t.Fatal(err)
	}
	if got := f.emailOf(t, u.ID); got != "ada@example.com" {
		t.Errorf("the account has %s", got)
	}
	f.wantRevoked(t, "a stolen session", s.AccessToken)
	if _, err := f.Authenticate(t.Context(), bot); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("an API token: %v", err)
	}
	for _, email := range []string{"ada@example.com", "thief@example.com"} {
		for _, guess := range []string{"", password, "the thief's own password"} {
			if _, err := f.SignIn(t.Context(), email, guess); !errors.Is(err, account.ErrInvalidCredentials) {
				t.Errorf("%s with %q: %v, want ErrInvalidCredentials", email, guess, err)
			}
		}
	}
	for what, err := range map[string]error{
		"the next change": f.ConfirmEmail(t.Context(), next), "the undo again": f.UndoEmail(t.Context(), undo),
		"the thief's reset": f.ResetPassword(t.Context(), f.code(t, "thief@example.com", mail.ResetPassword), "the thief's own password"),
	} {
		if !errors.Is(err, account.ErrLinkInvalid) {
			t.Errorf("%s: %v, want ErrLinkInvalid", what, err)
		}
	}
	list, err := f.ListIdentities(t.Context(), u.ID)
	if err != nil || len(list) != 1 || list[0].Provider != "google" {
		t.Errorf("identities %+v, %v", list, err)
	}
	if n := f.count(t, "thief@example.com", mail.EmailChanged); n != 1 {
		t.Errorf("%d notices", n)
	}
	if err := f.ResetPassword(t.Context(), f.code(t, "ada@example.com", mail.ResetPassword), "the owner's new password"); err != nil {
		t.Fatal(err)
	}
	if in, err := f.SignIn(t.Context(), "ada@example.com", "the owner's new password"); err != nil || in.MFA != nil {
		t.Errorf("the owner: %+v, %v", in.MFA, err)
	}
}

// Of the second factor of an account, the one that it had before stays.
func TestAnUndoLeavesTheOwnersSecondFactor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	thief := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	f.exec(t, `insert into totp_factors (user_id, secret, secret_key_id, created_at, confirmed_at) values ($1, '', '', $2, $2::timestamptz - interval '1 second')`, u.ID, *f.now)
	f.moved(t, thief, "thief@example.com")
	if err := f.UndoEmail(t.Context(), f.code(t, "ada@example.com", mail.UndoEmail)); err != nil {
		t.Fatal(err)
	}
	f.exec(t, `update totp_factors set last_step = 1 where user_id = $1`, u.ID)
}

// The oldest claim wins, however far the account was moved on.
func TestAnUndoTakesLaterChangesBackToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	f.moved(t, ctx, "second@example.com")
	f.moved(t, ctx, "third@example.com")
	if err := f.UndoEmail(t.Context(), f.code(t, "ada@example.com", mail.UndoEmail)); err != nil {
		t.Fatal(err)
	}
	if err := f.UndoEmail(t.Context(), f.code(t, "second@example.com", mail.UndoEmail)); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("the later one: %v, want ErrLinkInvalid", err)
	}
	if got := f.emailOf(t, u.ID); got != "ada@example.com" {
		t.Errorf("the account has %s", got)
	}
	f.create(t, "second@example.com", nil) // nothing is kept any more
	f.create(t, "third@example.com", nil)
}

// The owner may change back instead of taking back; then the thief's mailbox, which is
// the former address now, must not get the stronger claim.
func TestAReturnEndsTheClaimOfTheAddressInBetween(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	f.moved(t, ctx, "thief@example.com")
	f.moved(t, ctx, "Ada@example.com")
	if n := f.count(t, "thief@example.com", mail.UndoEmail); n != 0 || f.count(t, "thief@example.com", mail.EmailChanged) != 1 {
		t.Errorf("%d links to take the return back", n)
	}
	if _, err := f.renew(t, u.ID, mail.UndoEmail, "thief@example.com"); !errors.Is(err, mail.ErrNotResendable) {
		t.Errorf("made anew: %v", err)
	}
	f.create(t, "thief@example.com", nil)
}

func TestAFormerAddressIsKeptForSevenDays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, eve := f.create(t, "ada@example.com", nil), f.create(t, "eve@example.com", nil)
	f.moved(t, f.as(t, f.signIn(t, "ada@example.com").AccessToken), "second@example.com")
	system := identity.NewContext(t.Context(), identity.System("test"))
	take := map[string]func() error{
		"registration": func() error {
			_, err := f.Register(t.Context(), account.NewUser{FirstName: "Eve", LastName: "Ve", Email: "ADA@example.com", Password: password})
			return err
		},
		"invitation": func() error {
			_, err := f.Invite(system, account.NewUser{FirstName: "Eve", LastName: "Ve", Email: "ada@example.com"}, true)
			return err
		},
		"an administrator": func() error {
			_, err := f.Update(system, eve.ID, account.Change{Email: new("ada@example.com")})
			return err
		},
	}
	for what, err := range take {
		if err := err(); !errors.Is(err, account.ErrEmailTaken) {
			t.Errorf("%s: %v, want ErrEmailTaken", what, err)
		}
	}
	// Who asks for it is answered as for any, and its mailbox is told.
	ctx := f.as(t, f.signIn(t, "eve@example.com").AccessToken)
	if err := f.RequestEmailChange(ctx, "ada@example.com"); err != nil {
		t.Errorf("another account's wish: %v", err)
	}
	f.mailChanges(t)
	if f.count(t, "ada@example.com", mail.EmailInUse) != 1 || f.count(t, "ada@example.com", mail.ConfirmEmail) != 0 {
		t.Errorf("%v", f.mail.Sent("ada@example.com"))
	}
	undo := f.code(t, "ada@example.com", mail.UndoEmail)
	*f.now = f.now.Add(account.EmailUndoTTL - time.Second)
	if err := f.CheckUndoEmailLink(t.Context(), undo); err != nil {
		t.Errorf("a second before: %v", err)
	}
	*f.now = f.now.Add(time.Second)
	if err := f.UndoEmail(t.Context(), undo); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("seven days later: %v, want ErrLinkInvalid", err)
	}
	if err := take["registration"](); err != nil {
		t.Errorf("seven days later: %v", err)
	}
	if got := f.emailOf(t, u.ID); got != "second@example.com" {
		t.Errorf("the account has %s", got)
	}
}

// Whoever mistypes the address at the registration, and corrects it, must not have put a
// stranger into the position to take the account.
func TestAnAddressThatWasNeverVerifiedHasNoClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "stranger@example.com")
	f.moved(t, f.as(t, f.signIn(t, "stranger@example.com").AccessToken), "ada@example.com")
	if f.count(t, "stranger@example.com", mail.UndoEmail) != 0 || f.count(t, "stranger@example.com", mail.EmailChanged) != 1 {
		t.Errorf("%v", f.mail.Sent("stranger@example.com"))
	}
	if err := f.verify(t, "stranger@example.com"); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("its link from the registration: %v, want ErrLinkInvalid", err)
	}
	f.register(t, "stranger@example.com")
}

// An ADMIN's word is the last one.
func TestAnAdministratorsChangeEndsTheClaimsBeforeIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	f.moved(t, f.as(t, f.signIn(t, "ada@example.com").AccessToken), "second@example.com")
	system := identity.NewContext(t.Context(), identity.System("test"))
	if _, err := f.Update(system, u.ID, account.Change{Email: new("given@example.com")}); err != nil {
		t.Fatal(err)
	}
	if err := f.UndoEmail(t.Context(), f.code(t, "ada@example.com", mail.UndoEmail)); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("%v, want ErrLinkInvalid", err)
	}
	f.create(t, "ada@example.com", nil) // nor is the address kept
}

// together does things at once, and returns what came of them.
func together(list ...func() error) []error {
	errs, start := make([]error, len(list)), make(chan struct{})
	var wg sync.WaitGroup
	for i, do := range list {
		wg.Go(func() {
			<-start
			errs[i] = do()
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// refused are the answers of who came too late.
func refused(err error) bool {
	return errors.Is(err, account.ErrLinkInvalid) || errors.Is(err, account.ErrEmailTaken)
}

func TestRacesOverAnAddressHaveOneOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	system := identity.NewContext(t.Context(), identity.System("test"))
	for round := range 15 {
		name := func(s string) string { return fmt.Sprintf("%s-%d@example.com", s, round) }
		u := f.create(t, name("ada"), nil)
		ctx := f.as(t, f.signIn(t, name("ada")).AccessToken)

		// Confirmed by several at once: one.
		code := f.ask(t, ctx, name("second"))
		confirm := func() error { return f.ConfirmEmail(t.Context(), code) }
		errs := together(confirm, confirm, confirm, confirm)
		if wins := count(errs, nil); wins != 1 || count(errs, account.ErrLinkInvalid) != 3 || f.count(t, name("ada"), mail.UndoEmail) != 1 {
			t.Fatalf("of four confirmations: %v", errs)
		}

		// The next is confirmed while the first is taken back: the account is back, whoever came first.
		code = f.ask(t, ctx, name("third"))
		undo := f.code(t, name("ada"), mail.UndoEmail)
		errs = together(confirm, func() error { return f.UndoEmail(t.Context(), undo) }, func() error { return f.UndoEmail(t.Context(), undo) })
		if errs[0] != nil && !refused(errs[0]) || count(errs[1:], nil) != 1 || f.emailOf(t, u.ID) != name("ada") {
			t.Fatalf("confirmed beside undone twice: %v, %s", errs, f.emailOf(t, u.ID))
		}
		if err := f.SetPassword(t.Context(), name("ada"), password); err != nil {
			t.Fatal(err)
		}

		// Confirmed beside an ADMIN's: the ADMIN's word holds, or comes after.
		ctx = f.as(t, f.signIn(t, name("ada")).AccessToken)
		code = f.ask(t, ctx, name("fourth"))
		errs = together(confirm, func() error {
			_, err := f.Update(system, u.ID, account.Change{Email: new(name("given"))})
			return err
		})
		got, err := f.FindByID(t.Context(), u.ID)
		if err != nil || errs[1] != nil || errs[0] != nil && !refused(errs[0]) || got.Email != name("given") {
			t.Fatalf("confirmed beside an ADMIN's change: %v, %+v", errs, got)
		}
		f.exec(t, `update users set email_verified_at = now() where id = $1`, u.ID)

		// Confirmed while others take the address: one has it.
		ctx = f.as(t, f.signIn(t, name("given")).AccessToken)
		code = f.ask(t, ctx, name("fifth"))
		register := func() error {
			_, err := f.Register(t.Context(), account.NewUser{FirstName: "Eve", LastName: "Ve", Email: name("fifth"), Password: password})
			return err
		}
		errs = together(confirm, register, register)
		if count(errs, nil) != 1 || count(errs, account.ErrEmailTaken) != 2 {
			t.Fatalf("confirmed beside registrations: %v", errs)
		}
	}
}

// count is how many of errs are want.
func count(errs []error, want error) int {
	n := 0
	for _, err := range errs {
		if errors.Is(err, want) {
			n++
		}
	}
	return n
}

// A registration that waits for the account to give the address up still finds it kept.
func TestARegistrationBesideTheConfirmationFindsTheAddressKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for round := range 20 {
		name := func(s string) string { return fmt.Sprintf("%s-%d@example.com", s, round) }
		u := f.create(t, name("ada"), nil)
		code := f.ask(t, f.as(t, f.signIn(t, name("ada")).AccessToken), name("second"))
		register := func() error {
			_, err := f.Register(t.Context(), account.NewUser{FirstName: "Eve", LastName: "Ve", Email: name("ada"), Password: password})
			return err
		}
		errs := together(register, register, func() error { return f.ConfirmEmail(t.Context(), code) }, register)
		if count(errs, account.ErrEmailTaken) != 3 || errs[2] != nil {
			t.Fatalf("%v", errs)
		}
		if err := f.UndoEmail(t.Context(), f.code(t, name("ada"), mail.UndoEmail)); err != nil || f.emailOf(t, u.ID) != name("ada") {
			t.Fatal(err)
		}
	}
}

func TestSecretsOfChangesAreStoredAsDigestsAndSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	f.moved(t, ctx, "second@example.com")
	f.ask(t, ctx, "third@example.com")
	rows := func() (list []string) {
		got, err := f.db.Pool().Query(t.Context(), `select c::text from email_changes c`)
		if err == nil {
			list, err = pgx.CollectRows(got, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, row := range rows() {
		if strings.Contains(row, "wpml_") {
			t.Error(row)
		}
	}
	if len(rows()) != 2 {
		t.Errorf("%v", rows())
	}
	*f.now = f.now.Add(40 * 24 * time.Hour)
	if _, err := f.Sweep(t.Context()); err != nil || len(rows()) != 0 {
		t.Errorf("%d rows are left, %v", len(rows()), err)
	}
}
