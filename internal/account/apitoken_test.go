package account_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

func (f fixture) apiToken(t *testing.T, s account.SignedIn, scopes ...identity.Scope) (account.APIToken, string) {
	t.Helper()
	made, secret, err := f.CreateAPIToken(f.as(t, s.AccessToken), account.NewAPIToken{Name: "bot", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return made, secret
}

func TestAnAPITokenActsForItsOwnerWithinRoleAndScopes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "ada@example.com", role(identity.Editor))
	made, secret := f.apiToken(t, f.signIn(t, "ada@example.com"), identity.Write, identity.Read, identity.Read)
	if !strings.HasPrefix(secret, "wp_") || !strings.HasPrefix(secret, made.Prefix) || len(made.Prefix) != 11 {
		t.Errorf("secret %s, prefix %s", secret, made.Prefix)
	}
	got, err := f.Authenticate(t.Context(), secret)
	want := identity.Token(u.ID, identity.Editor, made.ID, identity.NewScopes(identity.Read, identity.Write))
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	f.create(t, "root@example.com", role(identity.Admin))
	if _, err := f.SetRole(t.Context(), "ada@example.com", identity.User); err != nil {
		t.Fatal(err)
	}
	if got, err = f.Authenticate(t.Context(), secret); err != nil || got.Role != identity.User {
		t.Errorf("after a demotion: %+v, %v", got, err)
	}
}

func TestTheEndOfAnAPITokenBitesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ctx := f.as(t, s.AccessToken)
	made, secret := f.apiToken(t, s, identity.Read)
	if err := f.RevokeAPIToken(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	for what, bearer := range map[string]string{"revoked": secret, "made up": "wp_" + strings.Repeat("A", 43), "short": "wp_", "long": secret + "x"} {
		if _, err := f.Authenticate(t.Context(), bearer); !errors.Is(err, account.ErrAPIToken) {
			t.Errorf("%s: %v, want ErrAPIToken", what, err)
		}
	}
	if err := f.RevokeAPIToken(ctx, made.ID); !errors.Is(err, account.ErrNoAPIToken) {
		t.Errorf("again: %v", err)
	}
	soon := f.now.Add(time.Hour)
	_, secret, err := f.CreateAPIToken(ctx, account.NewAPIToken{Name: "bot", Scopes: []identity.Scope{identity.Read}, ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	*f.now = soon
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, account.ErrAPITokenExpired) {
		t.Errorf("expired: %v", err)
	}
	_, secret = f.apiToken(t, f.signIn(t, "ada@example.com"), identity.Read)
	f.exec(t, `update users set active = false`)
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, account.ErrAPIToken) {
		t.Errorf("deactivated owner: %v", err)
	}
}

func TestTheLastUseOfAnAPITokenIsKnownToAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	_, secret := f.apiToken(t, s, identity.Read)
	lastUse := func() *time.Time {
		list, err := f.ListAPITokens(f.as(t, s.AccessToken), 0, 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].LastUsedAt
	}
	if lastUse() != nil {
		t.Error("used before its first use")
	}
	first := *f.now
	for _, tc := range []struct {
		wait time.Duration
		want time.Time
	}{{0, first}, {59 * time.Second, first}, {time.Second, first.Add(time.Minute)}} {
		*f.now = f.now.Add(tc.wait)
		if _, err := f.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if got := lastUse(); got == nil || !got.Equal(tc.want) {
			t.Errorf("last use %v, want %v", got, tc.want)
		}
	}
}

func TestWhoMayMakeAnAPITokenAndWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "root@example.com", role(identity.Admin))
	s := f.signIn(t, "ada@example.com")
	ada, root := f.as(t, s.AccessToken), f.as(t, f.signIn(t, "root@example.com").AccessToken)
	_, secret := f.apiToken(t, s, identity.Read, identity.Write)
	good := account.NewAPIToken{Name: "bot", Scopes: []identity.Scope{identity.Administer}}
	if _, _, err := f.CreateAPIToken(root, good); err != nil {
		t.Errorf("an ADMIN's scope admin: %v", err)
	}
	past := *f.now
	for what, n := range map[string]account.NewAPIToken{
		"scope beyond the role": good,
		"no scope":              {Name: "bot"},
		"another scope":         {Name: "bot", Scopes: []identity.Scope{"root"}},
		"no name":               {Name: " ", Scopes: []identity.Scope{identity.Read}},
		"long name":             {Name: strings.Repeat("x", 101), Scopes: []identity.Scope{identity.Read}},
		"expired":               {Name: "bot", Scopes: []identity.Scope{identity.Read}, ExpiresAt: &past},
	} {
		if _, _, err := f.CreateAPIToken(ada, n); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want a validation fault", what, err)
		}
	}
	n := account.NewAPIToken{Name: "bot", Scopes: []identity.Scope{identity.Read}}
	if _, _, err := f.CreateAPIToken(f.as(t, secret), n); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("by an API token: %v, want ErrReauthenticate", err)
	}
	for i := range 99 {
		if _, _, err := f.CreateAPIToken(ada, n); err != nil {
			t.Fatalf("token %d: %v", i+2, err)
		}
	}
	if _, _, err := f.CreateAPIToken(ada, n); !errors.Is(err, account.ErrManyAPITokens) {
		t.Errorf("the 101st: %v, want ErrManyAPITokens", err)
	}
	*f.now = f.now.Add(16 * time.Minute)
	if _, _, err := f.CreateAPIToken(f.as(t, f.refresh(t, s.RefreshToken).AccessToken), n); !errors.Is(err, account.ErrReauthenticate) {
		t.Errorf("long after the sign-in: %v, want ErrReauthenticate", err)
	}
}

func TestAPITokensAreListedToTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada, eve := f.as(t, s.AccessToken), f.as(t, f.signIn(t, "eve@example.com").AccessToken)
	var want []int64
	for range 5 {
		made, _ := f.apiToken(t, s, identity.Read)
		want = append([]int64{made.ID}, want...)
	}
	var got []int64
	for before := int64(0); ; {
		page, err := f.ListAPITokens(ada, before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range page {
			got = append(got, token.ID)
		}
		if len(page) < 2 {
			break
		}
		before = got[len(got)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if list, err := f.ListAPITokens(eve, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("another's: %v, %v", list, err)
	}
	if err := f.RevokeAPIToken(eve, want[0]); !errors.Is(err, account.ErrNoAPIToken) {
		t.Errorf("another's: %v", err)
	}
}

func TestSessionsAreListedToTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada, eve := f.as(t, s.AccessToken), f.as(t, f.signIn(t, "eve@example.com").AccessToken)
	f.signIn(t, "ada@example.com")
	sessions, err := f.ListSessions(ada, nil, 10)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("%v, %v", sessions, err)
	}
	current := 0
	for i, s := range sessions {
		if s.Current {
			current++
		}
		if fmt.Sprint(s.Methods) != "[pwd]" || !s.CreatedAt.Equal(*f.now) || s.ExpiresAt.Sub(s.CreatedAt) != account.SessionTTL {
			t.Errorf("%+v", s)
		}
		page, err := f.ListSessions(ada, &account.SessionPosition{CreatedAt: s.CreatedAt, ID: s.ID}, 10)
		if err != nil || len(page) != 1-i {
			t.Errorf("after session %d: %v, %v", i, page, err)
		}
	}
	if current != 1 {
		t.Errorf("%d sessions are the current one", current)
	}
	if err := f.EndSession(eve, sessions[0].ID); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("another's: %v", err)
	}
	if err := f.EndSession(ada, uuid.New()); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("no session: %v", err)
	}
	if err := f.EndSessions(ada); err != nil {
		t.Fatal(err)
	}
	f.wantRevoked(t, "after ending all", s.AccessToken)
	if n, err := f.CountSessions(eve); err != nil || n != 1 {
		t.Errorf("another's sessions: %d, %v", n, err)
	}
}

func TestTheSweepDeletesWhatEndedLongAgoAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(t, "ada@example.com")
	f.signIn(t, "ada@example.com")
	f.fail(t, from(t, "203.0.113.7"), "ada@example.com", 1)
	if n, err := f.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("swept %d, %v", n, err)
	}
	*f.now = f.now.Add(account.SessionTTL + 31*24*time.Hour)
	s := f.signIn(t, "ada@example.com")
	if n, err := f.Sweep(t.Context()); err != nil || n != 3 { // a session, a link, the address's count
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := f.Authenticate(t.Context(), s.AccessToken); err != nil {
		t.Errorf("a session of today: %v", err)
	}
}
