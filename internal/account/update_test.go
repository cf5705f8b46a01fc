package account_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// as is the context of who bears a token.
func (f fixture) as(t *testing.T, bearer string) context.Context {
	t.Helper()
	p, err := f.Authenticate(t.Context(), bearer)
	if err != nil {
		t.Fatal(err)
	}
	return identity.NewContext(t.Context(), p)
}

func TestASelfUpdateChangesNamesAndRepeatsTheRest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	got, err := f.Update(ctx, u.ID, account.Change{FirstName: new("Augusta"), Role: new(identity.User), Active: new(true)})
	if err != nil || got.FirstName != "Augusta" || got.LastName != "Lovelace" {
		t.Errorf("%+v, %v", got, err)
	}
	// Abuse case 32.
	for what, c := range map[string]account.Change{
		"role": {Role: new(identity.Admin)}, "active": {Active: new(false)}, "no role": {Role: new(identity.Role("ROOT"))},
		"name": {FirstName: new("A")}, "address": {Email: new("not an address")},
	} {
		if _, err := f.Update(ctx, u.ID, c); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want a validation fault", what, err)
		}
	}
	if got, err := f.FindByID(t.Context(), u.ID); err != nil || got.Role != identity.User || !got.Active {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOthersAccountsAreUnknownToAllButAdministrators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	victim := f.create(t, "ada@example.com", nil)
	for _, r := range []identity.Role{identity.User, identity.Editor} {
		f.create(t, string(r)+"@example.com", role(r))
		ctx := f.as(t, f.signIn(t, string(r)+"@example.com").AccessToken)
		if _, err := f.Find(ctx, victim.ID); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("%s reads: %v", r, err)
		}
		if _, err := f.Update(ctx, victim.ID, account.Change{FirstName: new("Eve")}); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("%s writes: %v", r, err)
		}
	}
	f.create(t, "root@example.com", role(identity.Admin))
	ctx := f.as(t, f.signIn(t, "root@example.com").AccessToken)
	if got, err := f.Update(ctx, victim.ID, account.Change{Role: new(identity.Editor)}); err != nil || got.Role != identity.Editor {
		t.Errorf("an ADMIN: %+v, %v", got, err)
	}
	if _, err := f.Find(t.Context(), victim.ID); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("nobody in particular reads: %v", err)
	}
}

func TestAnAddressFromAnAdministratorIsVerifiedAnewAndBothAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.register(t, "ada@example.com")
	if err := f.verify(t, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Update(f.as(t, f.signIn(t, "ada@example.com").AccessToken), u.ID, account.Change{Email: new("ADA@example.com")}); err != nil || !got.EmailVerified || got.Email != "ADA@example.com" {
		t.Errorf("another case: %+v, %v", got, err)
	}
	system := identity.NewContext(t.Context(), identity.System("test"))
	got, err := f.Update(system, u.ID, account.Change{Email: new("ada@elsewhere.example")})
	if err != nil || got.EmailVerified {
		t.Fatalf("%+v, %v", got, err)
	}
	if f.count(t, "ADA@example.com", mail.EmailChanged) != 1 || f.count(t, "ada@elsewhere.example", mail.VerifyEmail) != 1 {
		t.Errorf("mails: %v", f.mail.Sent(""))
	}
	f.create(t, "taken@example.com", nil)
	if _, err := f.Update(system, u.ID, account.Change{Email: new("TAKEN@example.com")}); !errors.Is(err, account.ErrEmailTaken) {
		t.Errorf("a twin: %v, want ErrEmailTaken", err)
	}
}

func TestDeactivationEndsSessionsForGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	system := identity.NewContext(t.Context(), identity.System("test"))
	for _, active := range []bool{false, true} {
		if _, err := f.Update(system, u.ID, account.Change{Active: &active}); err != nil {
			t.Fatal(err)
		}
		f.wantRevoked(t, "session", s.AccessToken)
	}
}

// Abuse case 38.
func TestCase38TheLastActiveAdministratorStaysWhateverHappensAtOnce(t *testing.T) {
	t.Parallel()
	system := identity.NewContext(t.Context(), identity.System("test"))
	for name, remove := range map[string]func(f fixture, id int64) error{
		"demotion": func(f fixture, id int64) error {
			_, err := f.Update(system, id, account.Change{Role: new(identity.User)})
			return err
		},
		"deactivation": func(f fixture, id int64) error {
			_, err := f.Update(system, id, account.Change{Active: new(false)})
			return err
		},
		"deletion": func(f fixture, id int64) error { return f.Delete(system, id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := []int64{f.create(t, "a@example.com", role(identity.Admin)).ID, f.create(t, "b@example.com", role(identity.Admin)).ID}
			errs := make([]error, 2)
			var wg sync.WaitGroup
			for i, id := range ids {
				wg.Go(func() { errs[i] = remove(f, id) })
			}
			wg.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), account.ErrLastAdmin) {
				t.Errorf("two at once: %v", errs)
			}
		})
	}
	f := newFixture(t)
	u := f.create(t, "root@example.com", role(identity.Admin))
	ctx := f.as(t, f.signIn(t, "root@example.com").AccessToken)
	if _, err := f.Update(ctx, u.ID, account.Change{Role: new(identity.Editor)}); !errors.Is(err, account.ErrLastAdmin) {
		t.Errorf("of itself: %v, want ErrLastAdmin", err)
	}
	if _, err := f.Update(ctx, u.ID, account.Change{Role: new(identity.Admin), Active: new(true), FirstName: new("Root")}); err != nil {
		t.Errorf("repeating what it is: %v", err)
	}
}

func TestADeletedAccountTakesItsThingsWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	_, apiToken := f.apiToken(t, s, identity.Read)
	f.exec(t, `insert into posts (author_id, title, body, created_at, updated_at) values ($1, 't', 'b', now(), now())`, u.ID)
	if err := f.Delete(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	f.wantRevoked(t, "session", s.AccessToken)
	if _, err := f.Authenticate(t.Context(), apiToken); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("API token: %v", err)
	}
	if err := f.Delete(t.Context(), u.ID); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("again: %v, want ErrNotFound", err)
	}
}
