package account_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

func TestTokensOfAServiceAccountAreRotatedAndRevokedLikePeoples(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, token, secret := f.bot(t, root, identity.User, identity.Read)
	other, _, _ := f.bot(t, root, identity.User, identity.Read)
	if _, _, err := f.RotateServiceToken(root, other.ID, token.ID, 0); !errors.Is(err, account.ErrNoAPIToken) {
		t.Errorf("another account's: %v", err)
	}
	next, nextSecret, err := f.RotateServiceToken(root, bot.ID, token.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.RotateServiceToken(root, bot.ID, token.ID, time.Minute); !errors.Is(err, account.ErrTokenReplaced) {
		t.Errorf("again: %v", err)
	}
	list, err := f.ListServiceTokens(root, bot.ID, 0, 10)
	if err != nil || len(list) != 2 || list[0].ID != next.ID || list[1].ID != token.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err := f.CountServiceTokens(root, bot.ID); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	*f.now = f.now.Add(time.Minute)
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, account.ErrAPITokenExpired) {
		t.Errorf("after its grace: %v", err)
	}
	if err := f.RevokeServiceToken(root, other.ID, next.ID); !errors.Is(err, account.ErrNoAPIToken) {
		t.Errorf("another account's: %v", err)
	}
	if err := f.RevokeServiceToken(root, bot.ID, next.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(t.Context(), nextSecret); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("revoked: %v", err)
	}
}

func TestTheTokensOfPeopleAndOfServiceAccountsAreKeptApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	s := f.signIn(t, "root@example.com")
	own, _ := f.apiToken(t, s, identity.Read)
	bot, token, _ := f.bot(t, root, identity.User, identity.Read)
	self := identity.FromContext(root).UserID
	for what, try := range map[string]func() error{
		"create": func() error {
			_, _, err := f.CreateServiceToken(root, self, account.NewAPIToken{Name: "bot", Scopes: reading})
			return err
		},
		"rotate": func() error { _, _, err := f.RotateServiceToken(root, self, own.ID, 0); return err },
		"revoke": func() error { return f.RevokeServiceToken(root, self, own.ID) },
		"list":   func() error { _, err := f.ListServiceTokens(root, self, 0, 10); return err },
	} {
		if err := try(); !errors.Is(err, account.ErrNoServiceAccount) {
			t.Errorf("%s a person's: %v", what, err)
		}
	}
	if err := f.RevokeServiceToken(root, bot.ID, own.ID); !errors.Is(err, account.ErrNoAPIToken) {
		t.Errorf("a person's by way of a service account: %v", err)
	}
	for what, err := range map[string]error{
		"revoke": f.RevokeAPIToken(root, token.ID),
		"rotate": func() error { _, _, err := f.RotateAPIToken(root, token.ID, 0); return err }(),
	} {
		if !errors.Is(err, account.ErrNoAPIToken) {
			t.Errorf("%s a service account's as one's own: %v", what, err)
		}
	}
}

func TestNoTokenMakesATokenOfAServiceAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, token, secret := f.bot(t, root, identity.Admin, identity.Read, identity.Write, identity.Administer)
	_, own := f.apiToken(t, f.signIn(t, "root@example.com"), identity.Read, identity.Write, identity.Administer)
	for who, bearer := range map[string]string{"itself": secret, "an ADMIN's token": own} {
		ctx := f.as(t, bearer)
		if _, _, err := f.CreateServiceToken(ctx, bot.ID, account.NewAPIToken{Name: "bot", Scopes: reading}); !errors.Is(err, account.ErrReauthenticate) {
			t.Errorf("made by %s: %v", who, err)
		}
		if _, _, err := f.RotateServiceToken(ctx, bot.ID, token.ID, 0); !errors.Is(err, account.ErrReauthenticate) {
			t.Errorf("rotated by %s: %v", who, err)
		}
	}
}

func TestATokenOfAServiceAccountHasNoScopeBeyondItsRole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, _, _ := f.bot(t, root, identity.Editor, identity.Read)
	_, _, err := f.CreateServiceToken(root, bot.ID, account.NewAPIToken{Name: "bot", Scopes: []identity.Scope{identity.Administer}})
	if diff := cmp.Diff([]string{"scopes"}, details(err)); diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	for i := range 99 {
		if _, _, err := f.CreateServiceToken(root, bot.ID, account.NewAPIToken{Name: "bot", Scopes: reading}); err != nil {
			t.Fatalf("token %d: %v", i+2, err)
		}
	}
	if _, _, err := f.CreateServiceToken(root, bot.ID, account.NewAPIToken{Name: "bot", Scopes: reading}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the 101st: %v", err)
	}
}

func TestTheAdministratorWhoMakesAServiceAccountsTokenIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.root(t)
	bot, token, _ := f.bot(t, root, identity.User, identity.Read)
	if _, _, err := f.RotateServiceToken(root, bot.ID, token.ID, 0); err != nil {
		t.Fatal(err)
	}
	sent := f.mail.Sent("")
	if n := f.count(t, "root@example.com", mail.TokenCreated); n != 2 || len(sent) != n {
		t.Fatalf("%d mails, %d in all", n, len(sent))
	}
	for _, m := range sent {
		if !strings.Contains(m.Detail, `"bot"`) || !strings.Contains(m.Detail, `the service account "Nightly export"`) {
			t.Errorf("it says %q", m.Detail)
		}
	}
}

func TestAnOperatorMakesAServiceAccountsTokenWithoutSigningIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operator := identity.NewContext(t.Context(), identity.Command("root", "service-account token create"))
	bot, token, secret := f.bot(t, operator, identity.User, identity.Read)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if _, _, err := f.RotateServiceToken(operator, bot.ID, token.ID, 0); err != nil {
		t.Error(err)
	}
	if sent := f.mail.Sent(""); len(sent) != 0 {
		t.Errorf("mailed %v", sent)
	}
}

// alerts keeps what the administrators are told, once for each cause.
type alerts struct {
	details []string
	causes  map[string]bool
	fails   error
}

func (a *alerts) Alert(_ context.Context, _ pgx.Tx, cause, _, detail string) (int, error) {
	if a.causes[cause] {
		return 0, nil
	}
	if a.causes == nil {
		a.causes = map[string]bool{}
	}
	a.causes[cause] = true
	a.details = append(a.details, detail)
	return 1, a.fails
}

func (f fixture) tell(t *testing.T, want int) {
	t.Helper()
	if n, err := f.TellOfExpiry(t.Context()); err != nil || n != want {
		t.Errorf("at %s: told of %d, want %d, %v", f.now, n, want, err)
	}
}

// expiring are the accounts whose tokens ExpiringTokens lists.
func (f fixture) expiring(t *testing.T) []int64 {
	t.Helper()
	list, err := f.ExpiringTokens(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, e := range list {
		ids = append(ids, e.ServiceAccount)
	}
	return ids
}

func TestTheAdministratorsAreToldTwoWeeksBeforeATokenExpires(t *testing.T) {
	t.Parallel()
	var told alerts
	f := newFixtureWith(t, func(o *account.Options) { o.Alerts = &told })
	root := f.root(t)
	bot, token, _ := f.bot(t, root, identity.User, identity.Read) // 90 days
	for _, n := range []account.NewAPIToken{{Name: "for ever", Never: true}, {Name: "gone", ExpiresAt: new(f.now.Add(time.Hour))}} {
		n.Scopes = reading
		if _, _, err := f.CreateServiceToken(root, bot.ID, n); err != nil {
			t.Fatal(err)
		}
	}
	f.apiToken(t, f.signIn(t, "root@example.com"), identity.Read) // a person's
	made := *f.now
	*f.now = made.Add(76*day - time.Second)
	f.tell(t, 0)
	*f.now = made.Add(76 * day)
	f.tell(t, 1)
	f.tell(t, 0)
	*f.now = made.Add(89 * day)
	f.tell(t, 0)
	listed, err := f.ExpiringTokens(t.Context(), 10)
	if diff := cmp.Diff([]account.ExpiringToken{{ID: token.ID, Name: "bot", ServiceAccount: bot.ID, AccountName: "Nightly export", ExpiresAt: made.Add(90 * day)}}, listed); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	want := account.TokenExpiry{
		At: made.Add(76 * day), ServiceAccount: bot.ID, AccountName: "Nightly export",
		Token: token.ID, TokenName: "bot", Prefix: token.Prefix, ExpiresAt: made.Add(90 * day),
	}
	if len(f.jobs.list) != 1 {
		t.Fatalf("jobs: %+v", f.jobs.list)
	}
	got := f.jobs.list[0].(account.TokenExpiry)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(account.TokenExpiry{}, "ID")); diff != "" {
		t.Error(diff)
	}
	if len(told.details) != 1 || !strings.HasPrefix(told.details[0], `The API token "bot" of the service account "Nightly export" (`+token.Prefix+`...) expires on 2 April 2026, 15:04 UTC. `) {
		t.Errorf("mailed: %q", told.details)
	}
}

func TestWhatIsRotatedRevokedOrDeactivatedIsNotAnnounced(t *testing.T) {
	t.Parallel()
	var told alerts
	f := newFixtureWith(t, func(o *account.Options) { o.Alerts = &told })
	root := f.root(t)
	rotated, token, _ := f.bot(t, root, identity.User, identity.Read)
	revoked, other, _ := f.bot(t, root, identity.User, identity.Read)
	asleep, _, _ := f.bot(t, root, identity.User, identity.Read)
	made := *f.now
	if _, err := f.UpdateServiceAccount(root, asleep.ID, account.ServiceAccountChange{Active: new(false)}); err != nil {
		t.Fatal(err)
	}
	if err := f.RevokeServiceToken(root, revoked.ID, other.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.RotateServiceToken(root, rotated.ID, token.ID, account.MaxTokenGrace); err != nil {
		t.Fatal(err)
	}
	*f.now = made.Add(29 * day) // the rotated one has a day
	f.tell(t, 0)
	if ids := f.expiring(t); ids != nil {
		t.Errorf("listed: %v", ids)
	}
	*f.now = made.Add(80 * day)
	f.tell(t, 1) // the new one of the rotation
	if diff := cmp.Diff([]int64{rotated.ID}, f.expiring(t)); diff != "" {
		t.Error(diff)
	}
	if _, err := f.UpdateServiceAccount(root, asleep.ID, account.ServiceAccountChange{Active: new(true)}); err != nil {
		t.Fatal(err)
	}
	f.tell(t, 1)
}

func TestManyExpiriesAreOneMailAndAJobEach(t *testing.T) {
	t.Parallel()
	var told alerts
	f := newFixtureWith(t, func(o *account.Options) { o.Alerts = &told })
	root := f.root(t)
	bot, _, _ := f.bot(t, root, identity.User, identity.Read)
	f.exec(t, `insert into api_tokens (user_id, name, prefix, token_sha256, scopes, created_at, expires_at)
		select $1, 'bot ' || n, 'wp_x', sha256(int4send(n)), '{read}', $2, $3 from generate_series(1, 120) n`,
		bot.ID, *f.now, f.now.Add(day))
	f.tell(t, 120)
	if len(f.jobs.list) != 120 || len(told.details) != 2 || !strings.Contains(told.details[0], "So do 90 more;") {
		t.Errorf("%d jobs, %d mails: %.100q", len(f.jobs.list), len(told.details), told.details)
	}
}

func TestAnAnnouncementThatFailsIsMadeAgain(t *testing.T) {
	t.Parallel()
	told := alerts{fails: fmt.Errorf("no mail today")}
	f := newFixtureWith(t, func(o *account.Options) { o.Alerts = &told })
	f.bot(t, f.root(t), identity.User, identity.Read)
	*f.now = f.now.Add(80 * day)
	if n, err := f.TellOfExpiry(t.Context()); err == nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	told.fails = nil
	f.tell(t, 1)
}
