package site_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
)

// clock is a clock that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

func newService(t *testing.T) (*site.Service, *clock, *db.DB) {
	t.Helper()
	database := dbtest.New(t)
	c := &clock{at: time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)}
	s, err := site.New(site.Options{DB: database, Logger: slog.New(slog.DiscardHandler), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, database
}

func create(t *testing.T, s *site.Service, name string) site.Site {
	t.Helper()
	made, err := s.Create(t.Context(), name, "example.com", "Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestASiteIsFoundByIdAndByPublicKey(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	made := create(t, s, "Example")
	if made.ID.Version() != 7 || made.Zone.String() != "Europe/Lisbon" {
		t.Errorf("made %+v", made)
	}
	zones := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	byID, err := s.Find(t.Context(), made.ID)
	if diff := cmp.Diff(made, byID, zones); err != nil || diff != "" {
		t.Errorf("Find: %v\n%s", err, diff)
	}
	for range 2 { // from the database, then from memory
		byKey, err := s.BySiteKey(t.Context(), made.Key)
		if diff := cmp.Diff(made, byKey, zones); err != nil || diff != "" {
			t.Errorf("BySiteKey: %v\n%s", err, diff)
		}
	}
	if _, err := s.Find(t.Context(), uuid.Max); !errors.Is(err, site.ErrNoSite) {
		t.Errorf("Find of no site = %v", err)
	}
	changed := "wps_aaaaaaaaaaaaaaaa" + made.Key[strings.LastIndex(made.Key, "_"):]
	for _, key := range []string{"", "wps_", "x", changed, made.Key + "0", strings.ToUpper(made.Key), "wps_aaaaaaaaaaaaaaaa_" + strings.Repeat("0", 32)} {
		if _, err := s.BySiteKey(t.Context(), key); !errors.Is(err, site.ErrSiteKey) {
			t.Errorf("BySiteKey(%q) = %v", key, err)
		}
	}
}

func TestFieldsThatBreakARuleAreNamed(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	for _, c := range []struct{ name, domain, zone, field string }{
		{"", "example.com", "UTC", "name"},
		{strings.Repeat("é", 101), "example.com", "UTC", "name"},
		{"a\x00b", "example.com", "UTC", "name"},
		{"a\nb", "example.com", "UTC", "name"},
		{"a\x1b[2Jb", "example.com", "UTC", "name"},
		{"a\u202eb", "example.com", "UTC", "name"},
		{"a\u200bb", "example.com", "UTC", "name"},
		{"Example", "", "UTC", "domain"},
		{"Example", "https://example.com", "UTC", "domain"},
		{"Example", "example.com:8080", "UTC", "domain"},
		{"Example", "example.com/path", "UTC", "domain"},
		{"Example", strings.Repeat("a.", 150) + "com", "UTC", "domain"},
		{"Example", "example.com", "Mars/Olympus", "timezone"},
		{"Example", "example.com", "Local", "timezone"},
		{"Example", "example.com", "../../etc/passwd", "timezone"},
	} {
		_, err := s.Create(t.Context(), c.name, c.domain, c.zone)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Kind != fault.Invalid || len(f.Details) != 1 || f.Details[c.field] == "" {
			t.Errorf("Create(%.20q, %.20q, %q) = %v", c.name, c.domain, c.zone, err)
		}
	}
}

func TestDomainsAreKeptInOneFormAndOwnTheirSubdomains(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	for _, c := range []struct {
		domain, url string
		owned       bool
	}{
		{"Example.COM.", "https://example.com/", true},
		{"example.com", "https://EXAMPLE.com:8443/a?b", true},
		{"example.com", "https://www.blog.example.com./", true},
		{"example.com", "https://notexample.com/", false},
		{"example.com", "https://example.com.evil.net/", false},
		{"www.example.com", "https://example.com/", false},
		{"bücher.example", "https://xn--bcher-kva.example/", true},
		{"xn--bcher-kva.example", "https://BÜCHER.example/", true},
		{"localhost", "http://localhost:3000/", true},
		{"127.0.0.1", "http://127.0.0.1:3000/", true},
		{"::1", "http://[::1]:3000/", true},
		{"example.com", "/only/a/path", false},
	} {
		made, err := s.Create(t.Context(), "Example", c.domain, "")
		if err != nil {
			t.Errorf("Create(%q): %v", c.domain, err)
			continue
		}
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := made.Owns(site.Hostname(u)); got != c.owned {
			t.Errorf("%q owns %q: %v", made.Domain, c.url, got)
		}
	}
}

func TestSitesAreListedNewestFirstInPages(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	var want []string
	for _, name := range []string{"first", "second", "third"} {
		create(t, s, name)
		want = append([]string{name}, want...)
	}
	var got []string
	var before uuid.UUID
	for {
		page, err := s.List(t.Context(), before, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, found := range page {
			got, before = append(got, found.Name), found.ID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASecretIsStoredOnlyAsAHash(t *testing.T) {
	t.Parallel()
	s, _, database := newService(t)
	made := create(t, s, "Example")
	key, secret, err := s.CreateKey(t.Context(), made.ID, "reports", site.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, key.Prefix) || len(key.Prefix) > len(secret)/4 {
		t.Errorf("prefix %q of a secret of %d characters", key.Prefix, len(secret))
	}
	var row string
	if err := database.Pool().QueryRow(t.Context(), `select k::text from site_api_keys k`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	if random := strings.Split(secret, "_")[1]; strings.Contains(row, random) || !strings.Contains(row, key.Prefix) {
		t.Errorf("stored row %s", row)
	}
	if _, _, err := s.CreateKey(t.Context(), uuid.Max, "reports", site.ScopeRead); !errors.Is(err, site.ErrNoSite) {
		t.Errorf("a key for no site: %v", err)
	}
	if _, _, err := s.CreateKey(t.Context(), made.ID, "", "write"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a key without name, of an unknown scope: %v", err)
	}
}

func TestOnlyAKeyInForceAuthenticates(t *testing.T) {
	t.Parallel()
	s, clock, _ := newService(t)
	made, other := create(t, s, "Example"), create(t, s, "Other")
	key, secret, err := s.CreateKey(t.Context(), made.ID, "reports", site.ScopeIngest)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(secret string, want error) {
		t.Helper()
		found, used, err := s.AuthenticateKey(t.Context(), secret)
		if !errors.Is(err, want) {
			t.Errorf("AuthenticateKey = %v, want %v", err, want)
		}
		if want == nil && (found.ID != made.ID || used.Scope != site.ScopeIngest) {
			t.Errorf("authenticated %+v, %+v", found, used)
		}
	}
	expect(secret, nil)
	elsewhere := secret[:strings.LastIndex(secret, "_")] + other.Key[strings.LastIndex(other.Key, "_"):]
	for _, wrong := range []string{"", "x", secret + " ", secret[:len(secret)-1], "wpr" + secret[3:], elsewhere, made.Key} {
		expect(wrong, site.ErrAPIKey)
	}

	_, renewed, err := s.RotateKey(t.Context(), made.ID, key.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expect(secret, nil)
	expect(renewed, nil)
	clock.advance(time.Hour)
	expect(secret, site.ErrAPIKey)
	expect(renewed, nil)

	keys, err := s.ListKeys(t.Context(), made.ID)
	if err != nil || len(keys) != 2 || keys[0].Name != "reports" || keys[0].Scope != site.ScopeIngest {
		t.Fatalf("ListKeys = %+v, %v", keys, err)
	}
	for range 2 {
		if _, err := s.RevokeKey(t.Context(), made.ID, keys[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	expect(renewed, site.ErrAPIKey)
	if _, err := s.RevokeKey(t.Context(), other.ID, keys[0].ID); !errors.Is(err, site.ErrNoKey) {
		t.Errorf("another site's key was revoked: %v", err)
	}
	for _, c := range []struct {
		site, key uuid.UUID
		want      error
	}{{made.ID, keys[0].ID, site.ErrRetired}, {made.ID, keys[1].ID, site.ErrRetired}, {other.ID, keys[0].ID, site.ErrNoKey}} {
		if _, _, err := s.RotateKey(t.Context(), c.site, c.key, 0); !errors.Is(err, c.want) {
			t.Errorf("RotateKey = %v, want %v", err, c.want)
		}
	}
}

func TestOfConcurrentRotationsOneMakesAKey(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	made := create(t, s, "Example")
	key, _, err := s.CreateKey(t.Context(), made.ID, "reports", site.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		callers.Go(func() {
			_, _, err := s.RotateKey(t.Context(), made.ID, key.ID, site.DefaultGrace)
			results <- err
		})
	}
	callers.Wait()
	close(results)
	made1 := 0
	for err := range results {
		if err == nil {
			made1++
		} else if !errors.Is(err, site.ErrRetired) {
			t.Error(err)
		}
	}
	keys, err := s.ListKeys(t.Context(), made.ID)
	if made1 != 1 || len(keys) != 2 || err != nil {
		t.Errorf("%d rotations succeeded, %d keys, %v", made1, len(keys), err)
	}
}

func TestLastUseIsNotedOnceAMinuteAndWaitsForNoLock(t *testing.T) {
	t.Parallel()
	s, clock, database := newService(t)
	made := create(t, s, "Example")
	key, secret, err := s.CreateKey(t.Context(), made.ID, "reports", site.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	use := func(ctx context.Context) time.Time {
		t.Helper()
		if _, _, err := s.AuthenticateKey(ctx, secret); err != nil {
			t.Fatal(err)
		}
		keys, err := s.ListKeys(t.Context(), made.ID)
		if err != nil || keys[0].LastUsedAt == nil {
			t.Fatalf("%+v, %v", keys, err)
		}
		return *keys[0].LastUsedAt
	}
	first := use(t.Context())
	clock.advance(59 * time.Second)
	if again := use(t.Context()); !again.Equal(first) {
		t.Errorf("noted again after 59 s: %v", again)
	}
	clock.advance(2 * time.Second)
	if later := use(t.Context()); !later.Equal(clock.now()) {
		t.Errorf("last use %v, want %v", later, clock.now())
	}

	clock.advance(time.Hour)
	tx, err := database.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `select from site_api_keys where id = $1 for update`, key.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if held := use(ctx); held.Equal(clock.now()) {
		t.Error("the use was noted past somebody's lock")
	}
}
