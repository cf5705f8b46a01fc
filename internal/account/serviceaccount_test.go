package account_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// bot makes an active service account and a token of it, as an ADMIN who signed in.
func (f fixture) bot(t *testing.T, root context.Context, r identity.Role, scopes ...identity.Scope) (account.ServiceAccount, account.APIToken, string) {
	t.Helper()
	made, err := f.CreateServiceAccount(root, account.NewServiceAccount{Name: "Nightly export", Role: r, Active: true})
	if err != nil {
		t.Fatal(err)
	}
	token, secret, err := f.CreateServiceToken(root, made.ID, account.NewAPIToken{Name: "bot", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return made, token, secret
}

// root is an ADMIN who signed in.
func (f fixture) root(t *testing.T) context.Context {
	t.Helper()
	f.create(t, "root@example.com", role(identity.Admin))
	return f.as(t, f.signIn(t, "root@example.com").AccessToken)
}

// key is what a service account's row of users is called.
func (f fixture) key(t *testing.T, id int64) string {
	t.Helper()
	var key string
	if err := f.db.Direct().QueryRow(t.Context(), `select email_key from users where id = $1`, id).Scan(&key); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestAServiceAccountActsByItsTokensWithinItsRole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, token, secret := f.bot(t, root, identity.Editor, identity.Read, identity.Write)
	got, err := f.Authenticate(t.Context(), secret)
	want := identity.Token(bot.ID, identity.Editor, token.ID, identity.NewScopes(identity.Read, identity.Write))
	want.Service = true
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if bot, err = f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Role: new(identity.User)}); err != nil || bot.Role != identity.User {
		t.Errorf("%+v, %v", bot, err)
	}
	if got, err = f.Authenticate(t.Context(), secret); err != nil || got.Role != identity.User {
		t.Errorf("after a demotion: %+v, %v", got, err)
	}
	for _, active := range []bool{false, true} {
		if _, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Active: &active}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Authenticate(t.Context(), secret); active != (err == nil) || !active && !errors.Is(err, account.ErrAPIToken) {
			t.Errorf("active is %t: %v", active, err)
		}
	}
	if err := f.DeleteServiceAccount(root, bot.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("after its deletion: %v", err)
	}
}

func TestAServiceAccountsTokensDoNotDependOnAPerson(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	_, _, secret := f.bot(t, root, identity.Admin, identity.Read)
	f.create(t, "next@example.com", role(identity.Admin))
	next := f.as(t, f.signIn(t, "next@example.com").AccessToken)
	works := func(what string) {
		t.Helper()
		if _, err := f.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("after its maker's %s: %v", what, err)
		}
	}
	f.forgot(t, "root@example.com")
	if err := f.ResetPassword(t.Context(), f.code(t, "root@example.com", mail.ResetPassword), "a new horse battery staple"); err != nil {
		t.Fatal(err)
	}
	works("reset")
	maker := identity.FromContext(root).UserID
	if _, err := f.Update(next, maker, account.Change{Active: new(false)}); err != nil {
		t.Fatal(err)
	}
	works("deactivation")
	if err := f.Delete(next, maker); err != nil {
		t.Fatal(err)
	}
	works("deletion")
}

func TestASecondFactorIsNotAskedOfAServiceAccount(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, func(o *account.Options) {
		o.TwoFactor = account.TwoFactorOptions{Sealer: sealer(t, 'k', 0), RequiredForAdmin: true}
	})
	_, _, secret := f.bot(t, f.root(t), identity.Admin, identity.Read)
	if p, err := f.Authenticate(t.Context(), secret); err != nil || p.MustEnroll {
		t.Errorf("%+v, %v", p, err)
	}
}

// Whoever knows what the row is called gets no further than with a made-up address.
func TestNoWayInReachesAServiceAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, _, _ := f.bot(t, root, identity.Admin, identity.Read)
	key := f.key(t, bot.ID)
	ctx := identity.NewContext(t.Context(), identity.Command("root", "test"))
	for what, tc := range map[string]struct {
		try  func() error
		want error
	}{
		"sign-in":           {func() error { _, err := f.SignIn(t.Context(), key, password); return err }, account.ErrInvalidCredentials},
		"empty password":    {func() error { _, err := f.SignIn(t.Context(), key, ""); return err }, account.ErrInvalidCredentials},
		"search by address": {func() error { _, err := f.FindByEmail(ctx, key); return err }, account.ErrNotFound},
		"set-password":      {func() error { return f.SetPassword(ctx, key, password) }, account.ErrNotFound},
		"set-role":          {func() error { _, err := f.SetRole(ctx, key, identity.User); return err }, account.ErrNotFound},
		"remove-2fa":        {func() error { return f.RemoveTOTP(ctx, key) }, account.ErrNotFound},
		"found by an ADMIN": {func() error { _, err := f.Find(root, bot.ID); return err }, account.ErrNotFound},
		"moved by an ADMIN": {func() error {
			_, err := f.Update(root, bot.ID, account.Change{Email: new("eve@example.com")})
			return err
		}, account.ErrNotFound},
		"raised by an ADMIN": {func() error { _, err := f.Update(root, bot.ID, account.Change{Active: new(true)}); return err }, account.ErrNotFound},
		"demoted":            {func() error { _, err := f.Update(root, bot.ID, account.Change{Role: new(identity.User)}); return err }, account.ErrNotFound},
		"deleted as a user":  {func() error { return f.Delete(root, bot.ID) }, account.ErrNotFound},
		"a link renewed": {func() error {
			return f.db.InTx(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
				_, err := f.RenewLink(ctx, tx, bot.ID, mail.SetPassword, key)
				return err
			})
		}, mail.ErrNotResendable},
	} {
		if err := tc.try(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", what, err, tc.want)
		}
	}
	for what, try := range map[string]func() error{
		"registration": func() error {
			_, err := f.Register(t.Context(), account.NewUser{FirstName: "Eve", LastName: "Twin", Email: key, Password: password})
			return err
		},
		"invitation": func() error {
			_, err := f.Invite(root, account.NewUser{FirstName: "Eve", LastName: "Twin", Email: key}, true)
			return err
		},
		"reset":        func() error { return f.RequestPasswordReset(t.Context(), key) },
		"verification": func() error { return f.RequestVerification(t.Context(), key) },
	} {
		if err := try(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want a validation fault", what, err)
		}
	}
	sent := len(f.mail.Sent(""))
	for _, link := range []account.LinkJob{{Email: key, Link: account.ForPassword}, {Email: key, Link: account.ForEmail}} {
		if err := f.MailLink(t.Context(), link); err != nil || len(f.mail.Sent("")) != sent {
			t.Errorf("a job for a link: %v, %d mails", err, len(f.mail.Sent(""))-sent)
		}
	}
	if u, err := f.List(root, account.Filter{Request: page.Request{Limit: 10, Count: true}}); err != nil || len(u.Rows) != 1 || *u.Total != 1 {
		t.Errorf("among the users: %+v, %v", u, err)
	}
	if u, err := f.List(root, account.Filter{Request: page.Request{Limit: 10, Query: "service"}}); err != nil || len(u.Rows) != 0 {
		t.Errorf("searched: %+v, %v", u, err)
	}
}

// Older programs, which know only the row of users, run these very statements.
func TestTheDatabaseKeepsAServiceAccountOutOfOlderProgramsHands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, _, _ := f.bot(t, root, identity.Admin, identity.Read)
	for _, change := range []string{
		`password_hash = 'x'`, `active = true`, `role = 'ADMIN'`, `email_verified_at = now()`, `email = 'eve@example.com'`,
		`email = 'eve@example.com', email_key = 'eve@example.com'`, `email = 'service:x', email_key = 'service:x'`,
		`email_key = 'eve@example.com', password_hash = 'x', active = true`,
	} {
		_, err := f.db.Single(identity.System("test")).Exec(t.Context(), `update users set `+change+` where id = $1`, bot.ID)
		if err == nil || !strings.Contains(err.Error(), "users_of_services") && !strings.Contains(err.Error(), "service_accounts") {
			t.Errorf("%s: %v", change, err)
		}
	}
	for what, sql := range map[string]string{
		"an administrator":     `select count(*) from users where role = 'ADMIN' and active and id = $1`,
		"a token's owner":      `select count(*) from api_tokens t join users u on u.id = t.user_id where u.active and u.id = $1`,
		"a session to be":      `select count(*) from users u where u.id = $1 and u.active and u.password_hash = ''`,
		"the mails' addressee": `select count(*) from users where id = $1 and active and email like '%@%'`,
	} {
		var n int
		if err := f.db.Direct().QueryRow(t.Context(), sql, bot.ID).Scan(&n); err != nil || n != 0 {
			t.Errorf("older programs see %s: %d, %v", what, n, err)
		}
	}
	if _, err := f.FindServiceAccount(t.Context(), bot.ID); err != nil {
		t.Error(err)
	}
}

func TestNoProviderSignsInToAServiceAccount(t *testing.T) {
	t.Parallel()
	o := newOutside(t, nil)
	operator := identity.NewContext(t.Context(), identity.Command("root", "test"))
	if _, err := o.CreateServiceAccount(operator, account.NewServiceAccount{Name: "bot", Role: identity.Admin, Active: true}); err != nil {
		t.Fatal(err)
	}
	var key string
	if err := o.db.Direct().QueryRow(t.Context(), `select email_key from users`).Scan(&key); err != nil {
		t.Fatal(err)
	}
	person := oauthtest.Person{Subject: 99, Email: key, Verified: true, Name: "Mallory"}
	o.google.Person, o.github.Person = person, person
	for _, provider := range []string{"google", "github"} {
		if _, err := o.signInWith(t, provider); !errors.Is(err, account.ErrNoAddress) {
			t.Errorf("%s: %v, want ErrNoAddress", provider, err)
		}
	}
	if n := o.count(t, `select count(*) from users`) + o.count(t, `select count(*) from identities`) + o.count(t, `select count(*) from auth_sessions`); n != 1 {
		t.Errorf("%d rows, want that of the account alone", n)
	}
}

// Programs before service accounts list users with all columns there are, into a struct
// of these: with another column their list would fail during a rolling upgrade.
func TestUsersHaveTheColumnsThatOlderProgramsExpect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rows, err := f.db.Direct().Query(t.Context(), `select u.* from users u`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for _, column := range rows.FieldDescriptions() {
		got = append(got, column.Name)
	}
	want := []string{"id", "first_name", "last_name", "email", "email_key", "password_hash", "role", "active", "created_at", "updated_at", "email_verified_at"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("put what is new into a table beside, or raise installation.compatible_from: %s", diff)
	}
}

func TestAServiceAccountIsNeverTheLastAdministrator(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, _, secret := f.bot(t, root, identity.Admin, identity.Read, identity.Write, identity.Administer)
	self := identity.FromContext(root).UserID
	for what, try := range map[string]func(ctx context.Context) error{
		"deletion": func(ctx context.Context) error { return f.Delete(ctx, self) },
		"demotion": func(ctx context.Context) error {
			_, err := f.Update(ctx, self, account.Change{Role: new(identity.User)})
			return err
		},
		"deactivation": func(ctx context.Context) error {
			_, err := f.Update(ctx, self, account.Change{Active: new(false)})
			return err
		},
	} {
		for who, ctx := range map[string]context.Context{"the person": root, "the bot": f.as(t, secret)} {
			if err := try(ctx); !errors.Is(err, account.ErrLastAdmin) {
				t.Errorf("%s by %s: %v, want ErrLastAdmin", what, who, err)
			}
		}
	}
	if _, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Role: new(identity.User), Active: new(false)}); err != nil {
		t.Errorf("the bot itself: %v", err)
	}
}

// files keeps whose files were deleted.
type files struct{ of []int64 }

func (f *files) DeleteAllOf(_ context.Context, _ pgx.Tx, owner int64) error {
	f.of = append(f.of, owner)
	return nil
}

func TestWhatADeletedServiceAccountLeaves(t *testing.T) {
	t.Parallel()
	var deleted files
	f := newFixtureWith(t, func(o *account.Options) { o.Files = &deleted })
	root := f.root(t)
	bot, _, _ := f.bot(t, root, identity.Editor, identity.Read)
	self := identity.FromContext(root).UserID
	for _, author := range []int64{bot.ID, self} {
		f.exec(t, `insert into posts (author_id, title, body, created_at, updated_at) values ($1, 'T', 'C', now(), now())`, author)
	}
	count := func(sql string) (n int) {
		if err := f.db.Direct().QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Active: new(false)}); err != nil {
		t.Fatal(err)
	}
	if n := count(`select count(*) from posts`); n != 2 {
		t.Errorf("deactivated, it leaves %d posts of 2", n)
	}
	if err := f.DeleteServiceAccount(root, self); !errors.Is(err, account.ErrNoServiceAccount) || len(deleted.of) != 0 {
		t.Errorf("a person: %v, files of %v", err, deleted.of)
	}
	if err := f.DeleteServiceAccount(root, bot.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{bot.ID}, deleted.of); diff != "" {
		t.Error(diff)
	}
	if posts, tokens, users := count(`select count(*) from posts`), count(`select count(*) from api_tokens`), count(`select count(*) from users`); posts != 1 || tokens != 0 || users != 1 {
		t.Errorf("it leaves %d posts, %d tokens, %d users", posts-1, tokens, users-1)
	}
	if err := f.DeleteServiceAccount(root, bot.ID); !errors.Is(err, account.ErrNoServiceAccount) {
		t.Errorf("again: %v", err)
	}
}

func TestServiceAccountsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	var want, got []int64
	for i := range 7 {
		if i%3 == 0 {
			*f.now = f.now.Add(time.Second)
		}
		made, _, _ := f.bot(t, root, identity.User, identity.Read)
		want = append([]int64{made.ID}, want...)
	}
	r := page.Request{Limit: 3, Count: true}
	for {
		p, err := f.ListServiceAccounts(root, r)
		if err != nil || *p.Total != 7 {
			t.Fatalf("%+v, %v", p, err)
		}
		for _, a := range p.Rows {
			got = append(got, a.ID)
		}
		if r.After = p.Next; r.After == nil {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := f.ListServiceAccounts(root, page.Request{Limit: 3, After: &page.Position{Sort: "name", Value: "x"}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a made-up cursor: %v", err)
	}
}

func TestAServiceAccountIsNamedAndHasARole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, _, _ := f.bot(t, root, "", identity.Read)
	if bot.Role != identity.User {
		t.Errorf("role %s", bot.Role)
	}
	for _, bad := range append([]string{"", strings.Repeat("x", 101)}, badNames...) {
		_, err := f.CreateServiceAccount(root, account.NewServiceAccount{Name: bad})
		if diff := cmp.Diff([]string{"name"}, details(err)); diff != "" {
			t.Errorf("create %+q: %v", bad, err)
		}
		if _, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Name: &bad}); !cmp.Equal(details(err), []string{"name"}) {
			t.Errorf("update %+q: %v", bad, err)
		}
	}
	if made, err := f.CreateServiceAccount(root, account.NewServiceAccount{Name: " Import\u00a0"}); err != nil || made.Name != "Import" {
		t.Errorf("white space around: %+v, %v", made, err)
	}
	if changed, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Name: new(" Import ")}); err != nil || changed.Name != "Import" {
		t.Errorf("white space around: %+v, %v", changed, err)
	}
	if _, err := f.UpdateServiceAccount(root, bot.ID, account.ServiceAccountChange{Role: new(identity.Role("ROOT"))}); !cmp.Equal(details(err), []string{"role"}) {
		t.Errorf("a role that is none: %v", err)
	}
	if _, err := f.UpdateServiceAccount(root, identity.FromContext(root).UserID, account.ServiceAccountChange{}); !errors.Is(err, account.ErrNoServiceAccount) {
		t.Errorf("a person: %v", err)
	}
}
