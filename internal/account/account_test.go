package account_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail/mailtest"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/token"
)

const password = "correct horse battery staple"

// cheapHashes keeps the tests quick; what a hash costs is no part of them.
var cheapHashes = account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}

type fixture struct {
	*account.Service
	db       *db.DB
	ownerURL string
	now      *time.Time
	mail     *mailtest.Memory
	jobs     *jobs
}

// jobs keeps what was inserted, for tests to work.
type jobs struct {
	mu   sync.Mutex
	list []queue.Job
}

func (j *jobs) Insert(_ context.Context, _ pgx.Tx, job queue.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, job)
	return nil
}

func newFixture(t *testing.T) fixture { return newFixtureWith(t, nil) }

func newFixtureWith(t *testing.T, change func(*account.Options)) fixture {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	f := fixture{db: d, ownerURL: urls.Owner, now: &now, mail: &mailtest.Memory{}, jobs: &jobs{}}
	clock := func() time.Time { return *f.now }
	tokens, err := token.New(t.Context(), token.Options{
		DB: d, Issuer: "https://waypost.example", SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := account.Options{
		DB: d, Tokens: tokens, PasswordCost: cheapHashes, Now: clock,
		Mail: f.mail, Jobs: f.jobs, URL: "https://waypost.example",
	}
	if change != nil {
		change(&o)
	}
	f.Service, err = account.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) create(t *testing.T, email string, change func(*account.NewUser)) account.User {
	t.Helper()
	n := account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password}
	if change != nil {
		change(&n)
	}
	u, err := f.Create(t.Context(), n)
	if err != nil {
		t.Fatalf("create %s: %v", email, err)
	}
	return u
}

func (f fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	tag, err := f.db.Single(identity.System("test")).Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %d rows", sql, err, tag.RowsAffected())
	}
}

// rows is how many rows a table has.
func (f fixture) rows(t *testing.T, table string) int {
	t.Helper()
	var n int
	if err := f.db.Direct().QueryRow(t.Context(), "select count(*) from "+pgx.Identifier{table}.Sanitize()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// asOwner does what the application's role may not do.
func (f fixture) asOwner(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func role(r identity.Role) func(*account.NewUser) {
	return func(n *account.NewUser) { n.Role = r }
}

func TestACreatedAccountIsFoundAsItWasGiven(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.create(t, " Ada@Example.com ", nil)
	want := account.User{
		ID: got.ID, FirstName: "Ada", LastName: "Lovelace", Email: "Ada@Example.com",
		Role: identity.User, Active: true, CreatedAt: *f.now, UpdatedAt: *f.now, EmailVerified: true,
	}
	ignoreKey := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".emailKey" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, ignoreKey); diff != "" {
		t.Error(diff)
	}
	found, err := f.FindByID(t.Context(), got.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, found, ignoreKey); diff != "" {
		t.Error(diff)
	}
	byEmail, err := f.FindByEmail(t.Context(), "ADA@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, byEmail, ignoreKey); diff != "" {
		t.Error(diff)
	}
	if _, err := f.FindByEmail(t.Context(), "eve@example.com"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("another address: %v, want ErrNotFound", err)
	}
	if _, err := f.FindByID(t.Context(), got.ID+1); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("another id: %v, want ErrNotFound", err)
	}
}

// Abuse case 17.
func TestCase17AnAddressInAnotherCaseIsTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	for _, twin := range []string{"ada@example.com", "ADA@example.com", "Ada@EXAMPLE.Com", "\tada@example.com "} {
		_, err := f.Create(t.Context(), account.NewUser{FirstName: "Eve", LastName: "Twin", Email: twin, Password: password})
		if !errors.Is(err, account.ErrEmailTaken) {
			t.Errorf("%q: %v, want ErrEmailTaken", twin, err)
		}
	}
}

func TestOfSimultaneousTwinsOneIsCreated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = f.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password})
		})
	}
	wg.Wait()
	created := 0
	for _, err := range errs {
		switch {
		case err == nil:
			created++
		case !errors.Is(err, account.ErrEmailTaken):
			t.Error(err)
		}
	}
	if created != 1 {
		t.Errorf("%d were created", created)
	}
}

func TestFieldsThatBreakARuleAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for field, change := range map[string]func(*account.NewUser){
		"first_name": func(n *account.NewUser) { n.FirstName = "A" },
		"last_name":  func(n *account.NewUser) { n.LastName = strings.Repeat("é", account.MaxName+1) },
		"password":   func(n *account.NewUser) { n.Password = "seven 7" },
		"email":      func(n *account.NewUser) { n.Email = "Ada <ada@example.com>" },
		"role":       func(n *account.NewUser) { n.Role = "ROOT" },
	} {
		n := account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: password}
		change(&n)
		_, err := f.Create(t.Context(), n)
		problem, ok := errors.AsType[*fault.Error](err)
		if !ok || problem.Kind != fault.Invalid || len(problem.Details) != 1 || problem.Details[field] == "" {
			t.Errorf("%s: %v with details %v", field, err, problem)
		}
	}
	for _, bad := range []string{"", "ada", "ada@", "@example.com", "a b@example.com", "ada@example.com\r\nBcc: x@example.com", "\uff41da@example.com", strings.Repeat("a", 65) + "@b.c", "a@" + strings.Repeat("b.", 126) + "c"} {
		if _, err := f.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: bad, Password: password}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("address %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", account.MaxPassword+1), "with \x00 inside", "invalid \xff UTF-8"} {
		if _, err := f.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "a@b.c", Password: bad}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("password %q: %v", bad, err)
		}
	}
	for i, good := range []string{strings.Repeat("ü", account.MaxPassword), "8 chars!"} {
		f.create(t, string(rune('a'+i))+"@example.com", func(n *account.NewUser) { n.Password = good })
	}
}

func TestSetRoleChangesTheAccountWithThatAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	*f.now = f.now.Add(time.Hour)
	got, err := f.SetRole(t.Context(), "ADA@example.com", identity.Editor)
	if err != nil {
		t.Fatal(err)
	}
	if got.Role != identity.Editor || !got.UpdatedAt.Equal(*f.now) {
		t.Errorf("got %+v", got)
	}
	if _, err := f.SetRole(t.Context(), "eve@example.com", identity.Editor); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("unknown address: %v", err)
	}
	if _, err := f.SetRole(t.Context(), "ada@example.com", "ROOT"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("unknown role: %v", err)
	}
}

func TestTheLastActiveAdministratorStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	emails := []string{"a@example.com", "b@example.com"}
	for _, e := range emails {
		f.create(t, e, role(identity.Admin))
	}
	f.create(t, "inactive@example.com", role(identity.Admin))
	f.exec(t, `update users set active = false where email = 'inactive@example.com'`)
	f.create(t, "user@example.com", nil)

	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, e := range emails {
		wg.Go(func() { _, errs[i] = f.SetRole(t.Context(), e, identity.User) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), account.ErrLastAdmin) {
		t.Errorf("two demotions at once: %v", errs)
	}
	if _, err := f.SetRole(t.Context(), "user@example.com", identity.Editor); err != nil {
		t.Errorf("another account's role: %v", err)
	}
}

func TestListsPageThroughEveryAccountOnceInEachOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var newest []string
	for _, e := range []string{"d@example.com", "B@example.com", "a@example.com", "e@example.com", "c@example.com"} {
		f.create(t, e, nil)
		newest = append([]string{e}, newest...)
		if e != "a@example.com" { // so that two accounts share an instant
			*f.now = f.now.Add(time.Second)
		}
	}
	byEmail := slices.SortedFunc(slices.Values(newest), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	reversed := func(s []string) []string { s = slices.Clone(s); slices.Reverse(s); return s }
	for sort, want := range map[string][]string{
		"": newest, "-created_at": newest, "created_at": reversed(newest), "email": byEmail, "-email": reversed(byEmail),
		// All have one name, so the id decides.
		"last_name": reversed(newest), "-last_name": newest,
	} {
		for _, limit := range []int{1, 2, 5, 100} {
			if diff := cmp.Diff(want, f.walk(t, sort, limit)); diff != "" {
				t.Errorf("sort %q, limit %d: %s", sort, limit, diff)
			}
		}
	}
	if _, err := f.List(t.Context(), account.Filter{Request: page.Request{Sort: "password_hash", Limit: 1}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("unlisted sort: %v", err)
	}
}

func (f fixture) walk(t *testing.T, sort string, limit int) []string {
	t.Helper()
	var emails []string
	var after *page.Position
	for {
		users, err := f.List(t.Context(), account.Filter{Request: page.Request{Sort: sort, Limit: limit, After: after, Count: true}})
		if err != nil {
			t.Fatal(err)
		}
		if *users.Total != 5 {
			t.Fatalf("total %d after %d rows", *users.Total, len(emails))
		}
		for _, u := range users.Rows {
			emails = append(emails, u.Email)
		}
		if after = users.Next; after == nil {
			return emails
		}
	}
}

func TestFiltersSelectAccounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", role(identity.Admin))
	f.create(t, "under_score@example.com", func(n *account.NewUser) { n.FirstName, n.LastName = "Grace", "Hopper 100%" })
	f.create(t, "off@example.org", role(identity.Editor))
	f.exec(t, `update users set active = false where email = 'off@example.org'`)
	yes, no := true, false
	for _, tc := range []struct {
		name   string
		filter account.Filter
		want   []string
	}{
		{"nothing", account.Filter{}, []string{"off@example.org", "under_score@example.com", "ada@example.com"}},
		{"role", account.Filter{Role: identity.Admin}, []string{"ada@example.com"}},
		{"active", account.Filter{Active: &yes}, []string{"under_score@example.com", "ada@example.com"}},
		{"deactivated", account.Filter{Active: &no}, []string{"off@example.org"}},
		{"address in another case", account.Filter{Request: page.Request{Query: "EXAMPLE.ORG"}}, []string{"off@example.org"}},
		{"both names", account.Filter{Request: page.Request{Query: "grace hop"}}, []string{"under_score@example.com"}},
		{"percent is a character", account.Filter{Request: page.Request{Query: "0%"}}, []string{"under_score@example.com"}},
		{"underscore is a character", account.Filter{Request: page.Request{Query: "r_s"}}, []string{"under_score@example.com"}},
		{"backslash is a character", account.Filter{Request: page.Request{Query: `\`}}, nil},
		{"quotes are characters", account.Filter{Request: page.Request{Query: `' or true --`}}, nil},
		{"all at once", account.Filter{Request: page.Request{Query: "lovelace"}, Role: identity.Editor, Active: &no}, []string{"off@example.org"}},
	} {
		tc.filter.Limit, tc.filter.Count = 10, true
		users, err := f.List(t.Context(), tc.filter)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		var got []string
		for _, u := range users.Rows {
			got = append(got, u.Email)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || *users.Total != int64(len(tc.want)) {
			t.Errorf("%s: total %d, %s", tc.name, *users.Total, diff)
		}
	}
	if _, err := f.List(t.Context(), account.Filter{Request: page.Request{Query: "\x00", Limit: 1}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("U+0000 in q: %v", err)
	}
}
