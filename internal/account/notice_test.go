package account_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/mailtest"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"

// browsing is the context of a request from an address with a program.
func browsing(t *testing.T, address, agent string) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.Principal{Kind: identity.KindAnonymous, Address: netip.MustParseAddr(address), UserAgent: agent})
}

func TestASignInFromAnUnseenDeviceOrNetworkIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	for _, c := range []struct {
		what, address, agent string
		told                 bool
	}{
		{"the first", "203.0.113.1", firefox, false},
		{"the same again", "203.0.113.1", firefox, false},
		{"after an update", "203.0.113.1", strings.ReplaceAll(firefox, "128", "141"), false},
		{"another device", "203.0.113.1", "curl/8.5.0", true},
		{"that device again", "203.0.113.1", "curl/8.5.0", false},
		{"another network", "203.0.113.2", firefox, true},
		{"IPv6", "2001:db8::1", firefox, true},
		{"the same /64", "2001:db8::2", firefox, false},
		{"another /64", "2001:db8:0:1::1", firefox, true},
		{"both known, but never together", "203.0.113.2", "curl/8.5.0", true},
	} {
		before := f.count(t, "ada@example.com", mail.NewSignIn)
		s, err := f.SignIn(browsing(t, c.address, c.agent), "ada@example.com", password)
		if err != nil {
			t.Fatal(err)
		}
		if told := f.count(t, "ada@example.com", mail.NewSignIn) - before; told != map[bool]int{true: 1}[c.told] {
			t.Errorf("%s: %d mails", c.what, told)
		}
		if _, err := f.Refresh(browsing(t, "198.51.100.9", "another program"), s.RefreshToken); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count(t, "ada@example.com", mail.NewSignIn); n != 5 {
		t.Errorf("%d mails in all: refreshing tells nobody", n)
	}
	if _, err := f.SignIn(browsing(t, "198.51.100.1", "x"), "ada@example.com", "wrong password"); err == nil || f.count(t, "ada@example.com", mail.NewSignIn) != 5 {
		t.Errorf("a wrong password was told: %v", err)
	}
	sent := f.mail.Sent("ada@example.com")
	want := []mail.Fact{{Label: "When", Value: "2 January 2026, 15:04 UTC"}, {Label: "From", Value: "203.0.113.1"}, {Label: "With", Value: "curl"}}
	if !slices.Equal(sent[0].Facts, want) || sent[0].UserID == 0 {
		t.Errorf("%+v", sent[0])
	}
}

func TestChangesOfAnAccountAreToldWithTheirCircumstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", nil)
	p, err := f.Authenticate(t.Context(), f.signIn(t, "ada@example.com").AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), p.From(identity.FromContext(browsing(t, "203.0.113.1", firefox))))
	for name, said := range map[string]string{"deploy": `The API token "deploy" was created`, "see https://evil.example": "An API token was created"} {
		before := len(f.mail.Sent(""))
		if _, _, err := f.CreateAPIToken(ctx, account.NewAPIToken{Name: name, Scopes: []identity.Scope{identity.Read}}); err != nil {
			t.Fatal(err)
		}
		sent := f.mail.Sent("")[before:]
		if len(sent) != 1 || sent[0].Kind != mail.TokenCreated || !strings.HasPrefix(sent[0].Detail, said) || strings.Contains(sent[0].Detail, "evil") {
			t.Errorf("%+v", sent)
		}
		if want := (mail.Fact{Label: "With", Value: "Firefox on Linux"}); len(sent[0].Facts) != 4 || sent[0].Facts[3] != want {
			t.Errorf("%+v", sent[0].Facts)
		}
	}
	f.create(t, "root@example.com", role(identity.Admin))
	root, err := f.Authenticate(t.Context(), f.signIn(t, "root@example.com").AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	asRoot := identity.NewContext(t.Context(), root.From(identity.FromContext(browsing(t, "198.51.100.77", firefox))))
	if _, err := f.Update(asRoot, u.ID, account.Change{Email: new("ada@elsewhere.example")}); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.mail.Sent("ada@example.com") {
		if m.Kind != mail.EmailChanged {
			continue
		}
		if want := (mail.Fact{Label: "By", Value: "an administrator of this service"}); !slices.Contains(m.Facts, want) || len(m.Facts) != 2 {
			t.Errorf("an administrator's address is nobody else's business: %+v", m.Facts)
		}
	}
	if f.count(t, "ada@example.com", mail.EmailChanged) != 1 {
		t.Error("the old address was told nothing")
	}
}

func TestIdentitiesThatComeAndGoAreTold(t *testing.T) {
	t.Parallel()
	var box mailtest.Memory
	o := newOutside(t, func(options *account.Options) { options.Mail = &box })
	u := o.member(t, "ada@example.com", true)
	told := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, m := range box.Sent("") {
			if m.Kind == mail.IdentityChanged {
				got = append(got, m.Detail)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	o.google.Person = ada
	if _, err := o.signInWith(t, "google"); err != nil {
		t.Fatal(err)
	}
	byAddress := "A sign-in through Google was linked to your account, which has the same e-mail address."
	told("linked by its address", byAddress)
	if _, err := o.signInWith(t, "google"); err != nil {
		t.Fatal(err)
	}
	told("used again", byAddress)
	ctx := o.signedIn(t, "ada@example.com")
	o.github.Person = oauthtest.Person{Subject: 666, Email: "mallory@example.com", Verified: true}
	linked, err := o.LinkIdentity(ctx, u.ID, o.code(t, "github"), verifier)
	if err != nil {
		t.Fatal(err)
	}
	byHand := "A sign-in through GitHub was linked to your account."
	told("linked", byAddress, byHand)
	if err := o.UnlinkIdentity(ctx, u.ID, linked.ID); err != nil {
		t.Fatal(err)
	}
	told("unlinked", byAddress, byHand, "A sign-in through GitHub was unlinked from your account.")
	o.google.Person = oauthtest.Person{Subject: 5, Email: "new@example.com", Verified: true}
	if _, err := o.signInWith(t, "google"); err != nil {
		t.Fatal(err)
	}
	if n := len(box.Sent("new@example.com")); n != 0 {
		t.Errorf("a new account got %d mails", n)
	}
}

func TestARenewedLinkVoidsTheOldOneAndIsOnlyMadeWhereItIsOfUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	renew := func(id int64, kind mail.Kind, to string) (mail.Message, error) {
		var m mail.Message
		err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
			var err error
			m, err = f.RenewLink(ctx, tx, id, kind, to)
			return err
		})
		return m, err
	}
	u := f.register(t, "ada@example.com")
	old := f.code(t, "ada@example.com", mail.VerifyEmail)
	m, err := renew(u.ID, mail.VerifyEmail, "ADA@example.com")
	if err != nil || m.To != "ada@example.com" || m.UserID != u.ID || m.Kind != mail.VerifyEmail {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := f.VerifyEmail(t.Context(), account.Verification{Secret: old, Password: password}); !errors.Is(err, account.ErrLinkInvalid) {
		t.Errorf("the old link: %v", err)
	}
	if err := f.VerifyEmail(t.Context(), account.Verification{Secret: m.Code, Password: password}); err != nil {
		t.Error(err)
	}
	invited, err := f.Invite(identity.NewContext(t.Context(), identity.System("test")), account.NewUser{FirstName: "Grace", LastName: "Hopper", Email: "grace@example.com"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = renew(invited.ID, mail.SetPassword, "grace@example.com"); err != nil {
		t.Fatal(err)
	}
	*f.now = f.now.Add(6 * 24 * time.Hour) // as long as an invitation
	if err := f.ResetPassword(t.Context(), m.Code, password); err != nil {
		t.Error(err)
	}
	f.create(t, "root@example.com", role(identity.Admin))
	for what, c := range map[string]struct {
		id   int64
		kind mail.Kind
		to   string
	}{
		"verified already": {u.ID, mail.VerifyEmail, "ada@example.com"},
		"another address":  {u.ID, mail.ResetPassword, "old@example.com"},
		"accepted already": {invited.ID, mail.SetPassword, "grace@example.com"},
		"nobody":           {999, mail.ResetPassword, "ada@example.com"},
	} {
		if _, err := renew(c.id, c.kind, c.to); !errors.Is(err, mail.ErrNotResendable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Update(identity.NewContext(t.Context(), identity.System("test")), u.ID, account.Change{Active: new(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := renew(u.ID, mail.ResetPassword, "ada@example.com"); !errors.Is(err, mail.ErrNotResendable) {
		t.Errorf("deactivated: %v", err)
	}
}

func TestJobsOfOlderVersionsStillMailTheirLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	for args, kind := range map[string]mail.Kind{
		`{"email":"ada@example.com","link":"verify_email"}`: mail.VerifyEmail, `{"email":"ada@example.com","link":"reset_password"}`: mail.ResetPassword,
	} {
		before := f.count(t, "ada@example.com", kind)
		f.mailLinkOf(t, args)
		if f.count(t, "ada@example.com", kind) != before+1 {
			t.Errorf("%s mails nothing", args)
		}
	}
	if got := f.jobArgs(t); got != `{"email":"ada@example.com","link":"reset_password"}` {
		t.Errorf("an older instance does not understand %s", got)
	}
}

// mailLinkOf works a job with those arguments.
func (f fixture) mailLinkOf(t *testing.T, args string) {
	t.Helper()
	var job account.LinkJob
	if err := json.Unmarshal([]byte(args), &job); err != nil {
		t.Fatal(err)
	}
	if err := f.MailLink(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// jobArgs are the arguments of the job that a forgotten password makes.
func (f fixture) jobArgs(t *testing.T) string {
	t.Helper()
	if err := f.RequestPasswordReset(t.Context(), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(f.jobs.list[len(f.jobs.list)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(args)
}
