package account_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

func TestAnAPITokenWorksFromItsNetworksAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	made, secret, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: "bot", Scopes: reading, Networks: []string{
		"203.0.113.7", "198.51.100.99/24", "2001:db8::1/32", "203.0.113.7/32", "::ffff:192.0.2.0/120",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"203.0.113.7/32", "198.51.100.0/24", "2001:db8::/32", "192.0.2.0/24"}, made.Networks); diff != "" {
		t.Error(diff)
	}
	for address, allowed := range map[string]bool{
		"203.0.113.7": true, "::ffff:203.0.113.7": true, "203.0.113.8": false, "198.51.100.1": true, "198.51.101.1": false,
		"2001:db8:1::5": true, "2001:db9::5": false, "192.0.2.77": true, "::203.0.113.7": false,
	} {
		_, err := f.Authenticate(from(t, address), secret)
		if allowed != (err == nil) || !allowed && !errors.Is(err, account.ErrTokenNetwork) {
			t.Errorf("%s: %v", address, err)
		}
		if fault, ok := errors.AsType[*fault.Error](err); ok && !strings.Contains(fault.Message, netip.MustParseAddr(address).Unmap().String()) {
			t.Errorf("%s is told %q", address, fault.Message)
		}
	}
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, account.ErrTokenNetwork) {
		t.Errorf("from nowhere: %v", err)
	}
}

func TestNetworksThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	for _, bad := range []string{"", "example.com", "203.0.113", "203.0.113.7/33", "203.0.113.7/", "fe80::1%eth0", "fe80::1%eth0/64", "::ffff:0:0/64", "203.0.113.7 ", "0x7f.1"} {
		_, _, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: "bot", Scopes: reading, Networks: []string{"203.0.113.7", bad}})
		if diff := cmp.Diff([]string{"allowed_networks"}, details(err)); diff != "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, n := range []account.NewAPIToken{
		{Networks: make([]string, account.MaxTokenNetworks+1)}, {Rate: -1}, {Rate: account.MaxTokenRate + 1},
	} {
		n.Name, n.Scopes = "bot", reading
		if _, _, err := f.CreateAPIToken(ada, n); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", n, err)
		}
	}
}

func TestATokenFromElsewhereIsNotedOnceAMinuteAndNotAsAUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	_, secret, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: "bot", Scopes: reading, Networks: []string{"203.0.113.7"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := f.Authenticate(from(t, "192.0.2.1"), secret); !errors.Is(err, account.ErrTokenNetwork) {
			t.Fatal(err)
		}
	}
	*f.now = f.now.Add(time.Minute)
	if _, err := f.Authenticate(from(t, "192.0.2.2"), secret); !errors.Is(err, account.ErrTokenNetwork) {
		t.Fatal(err)
	}
	rows, err := f.db.Direct().Query(t.Context(), `select coalesce(ip, '') from audit_pending
		where op = 'note' and table_name = 'api_tokens' and changes like '%token_refused%' order by id`)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if diff := cmp.Diff([]string{"192.0.2.1", "192.0.2.2"}, notes); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	list, err := f.ListAPITokens(ada, 0, 10)
	if err != nil || list[0].LastUsedAt != nil || list[0].LastAddress != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestTheLastAddressOfAnAPITokenIsThatOfItsLastUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	ada := f.as(t, s.AccessToken)
	_, secret := f.apiToken(t, s, identity.Read)
	for _, step := range []struct {
		wait       time.Duration
		from, want string
	}{
		{0, "::ffff:203.0.113.7", "203.0.113.7"}, {59 * time.Second, "203.0.113.8", "203.0.113.7"}, {time.Second, "2001:db8::1", "2001:db8::1"},
	} {
		*f.now = f.now.Add(step.wait)
		if _, err := f.Authenticate(from(t, step.from), secret); err != nil {
			t.Fatal(err)
		}
		if list, err := f.ListAPITokens(ada, 0, 10); err != nil || list[0].LastAddress != step.want {
			t.Errorf("after %s: %+v, %v", step.from, list, err)
		}
	}
}

func TestNotingAUseWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	_, secret := f.apiToken(t, f.signIn(t, "ada@example.com"), identity.Read)
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select 1 from api_tokens for update`); err != nil {
			return err
		}
		_, err := f.Authenticate(t.Context(), secret) // would wait for ever
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnOlderProgramDoesNotFindATokenThatIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	for what, tc := range map[string]struct {
		n     account.NewAPIToken
		found int
	}{
		"unbound":       {account.NewAPIToken{}, 1},
		"with networks": {account.NewAPIToken{Networks: []string{"203.0.113.7"}}, 0},
		"with a rate":   {account.NewAPIToken{Rate: 10}, 0},
	} {
		tc.n.Name, tc.n.Scopes = "bot", reading
		made, secret, err := f.CreateAPIToken(ada, tc.n)
		if err != nil {
			t.Fatal(err)
		}
		for _, rotated := range []bool{false, true} {
			sum := sha256.Sum256([]byte(secret))
			var n int
			if err := f.db.Direct().QueryRow(t.Context(), `select count(*) from api_tokens where token_sha256 = $1`, sum[:]).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != tc.found {
				t.Errorf("%s, rotated %t: found %d times by its plain digest", what, rotated, n)
			}
			if _, err := f.Authenticate(from(t, "203.0.113.7"), secret); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if _, secret, err = f.RotateAPIToken(ada, made.ID, 0); err != nil && !rotated {
				t.Fatal(err)
			}
		}
	}
}

func TestARateOfATokenHoldsOverAllInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	ada := f.as(t, f.signIn(t, "ada@example.com").AccessToken)
	_, secret, err := f.CreateAPIToken(ada, account.NewAPIToken{Name: "bot", Scopes: reading, Rate: 5})
	if err != nil {
		t.Fatal(err)
	}
	second, err := account.New(account.Options{DB: f.db, PasswordCost: cheapHashes, Now: func() time.Time { return *f.now }})
	if err != nil {
		t.Fatal(err)
	}
	uses := func() (allowed int) {
		for i := range 20 {
			instance := f.Service
			if i%2 == 1 {
				instance = second
			}
			switch _, err := instance.Authenticate(t.Context(), secret); {
			case err == nil:
				allowed++
			case !errors.Is(err, throttle.ErrLimited):
				t.Fatal(err)
			}
		}
		return allowed
	}
	if n := uses(); n != 5 {
		t.Errorf("%d uses in a minute, want 5", n)
	}
	*f.now = f.now.Add(time.Minute)
	if n := uses(); n != 5 {
		t.Errorf("%d uses in the next minute, want 5", n)
	}
}

func FuzzNetworks(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "198.51.100.99/24", "2001:db8::/32", "::ffff:192.0.2.0/120", "::/0", "0.0.0.0/0", "fe80::1%eth0"} {
		f.Add(s, "203.0.113.7")
	}
	f.Fuzz(func(t *testing.T, s, client string) {
		networks, problem := account.ParseNetworks([]string{s, s})
		if (problem == "") != (len(networks) == 1) {
			t.Fatalf("%q: %v, %q", s, networks, problem)
		}
		if problem != "" {
			return
		}
		again, problem := account.ParseNetworks([]string{networks[0].String()})
		if problem != "" || again[0] != networks[0] {
			t.Fatalf("%q is %s, then %v", s, networks[0], again)
		}
		a, err := netip.ParseAddr(client)
		if err != nil {
			return
		}
		if want := networks[0].Contains(a.Unmap().WithZone("")); want != (account.AdmitsFrom([]string{networks[0].String()}, a) == nil) {
			t.Errorf("%s in %s: want %t", a, networks[0], want)
		}
	})
}
