package account_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// badNames are names that pretend to be something else where they are shown.
var badNames = []string{
	"Ada\nYour account was closed: https://evil.example", "Ada\r\n", "Ada\x1b[2J", "\tAda", "Ada\u0085", "Ada\u2028x", "\u202eadA", "\u2066Ada",
	"A\u200bda", "\ufeffAda", "  ", "\u3000\u3000",
}

// details are the fields that a validation fault names.
func details(err error) []string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Invalid {
		return nil
	}
	var list []string
	for field := range f.Details {
		list = append(list, field)
	}
	return list
}

func TestANameIsOneLineOfWhatCanBeSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	f.create(t, "root@example.com", role(identity.Admin))
	ada, root := f.as(t, f.signIn(t, "ada@example.com").AccessToken), f.as(t, f.signIn(t, "root@example.com").AccessToken)
	for _, bad := range badNames {
		person := account.NewUser{FirstName: bad, LastName: "Lovelace", Email: "new@example.com", Password: password}
		for what, try := range map[string]func() error{
			"create":   func() error { _, err := f.Create(t.Context(), person); return err },
			"register": func() error { _, err := f.Register(t.Context(), person); return err },
			"invite":   func() error { _, err := f.Invite(t.Context(), person, true); return err },
			"self":     func() error { _, err := f.Update(ada, u.ID, account.Change{FirstName: &bad}); return err },
			"others":   func() error { _, err := f.Update(root, u.ID, account.Change{FirstName: &bad}); return err },
		} {
			if diff := cmp.Diff([]string{"first_name"}, details(try())); diff != "" {
				t.Errorf("%s %+q: %s", what, bad, diff)
			}
		}
		if _, err := f.Update(ada, u.ID, account.Change{LastName: &bad}); !cmp.Equal(details(err), []string{"last_name"}) {
			t.Errorf("last name %+q: %v", bad, err)
		}
		if _, _, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: bad, Scopes: []identity.Scope{identity.Read}}); !cmp.Equal(details(err), []string{"name"}) {
			t.Errorf("API token %+q: %v", bad, err)
		}
	}
	for _, good := range []string{"علی\u200cرضا", "क्\u200dष", "李小龍", "O'Neil"} {
		if _, err := f.Update(ada, u.ID, account.Change{FirstName: &good}); err != nil {
			t.Errorf("%+q: %v", good, err)
		}
	}
}

// Names of before the rule stay, are read, and keep nobody from changing the rest.
func TestAnAccountWithANameOfBeforeTheRuleIsReadAndChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	for _, bad := range badNames {
		f.exec(t, `update users set first_name = $1`, bad)
		ctx := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
		got, err := f.Update(ctx, u.ID, account.Change{LastName: new("King"), Email: new("ada@example.com"), Role: new(identity.User), Active: new(true)})
		if err != nil || got.FirstName != bad || got.LastName != "King" {
			t.Errorf("%+q: %+v, %v", bad, got, err)
		}
		if got, err := f.Find(ctx, u.ID); err != nil || got.FirstName != bad {
			t.Errorf("%+q is read as %+v, %v", bad, got, err)
		}
	}
}

// White space around a name would make two people look alike, and pass for one of no
// letters.
func TestNamesAreStoredWithoutWhiteSpaceAroundThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, err := f.Create(t.Context(), account.NewUser{FirstName: " Ada\u00a0", LastName: "\u3000Lovelace ", Email: "ada@example.com", Password: password})
	if err != nil || u.FirstName != "Ada" || u.LastName != "Lovelace" {
		t.Errorf("%+v, %v", u, err)
	}
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	if u, err = f.Update(ada, u.ID, account.Change{FirstName: new(" Augusta "), LastName: new(" King")}); err != nil || u.FirstName != "Augusta" || u.LastName != "King" {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := f.Update(ada, u.ID, account.Change{FirstName: new(" A ")}); !cmp.Equal(details(err), []string{"first_name"}) {
		t.Errorf("one letter among white space: %v", err)
	}
	made, _, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: " Nightly export ", Scopes: []identity.Scope{identity.Read}})
	if err != nil || made.Name != "Nightly export" {
		t.Errorf("%+v, %v", made, err)
	}
	if u, err := f.Register(t.Context(), account.NewUser{FirstName: "Grace ", LastName: " Hopper", Email: "grace@example.com", Password: password}); err != nil || u.FirstName+u.LastName != "GraceHopper" {
		t.Errorf("%+v, %v", u, err)
	}
}
