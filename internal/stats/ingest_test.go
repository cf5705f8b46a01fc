package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/imports"
	"github.com/waypost/waypost/internal/stats/visitor"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Mobile/15E148 Safari/604.1"
)

// testClock is a clock that the test moves.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *testClock) set(at time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.at = at }

// bench is a site and everything that writes its statistics.
type bench struct {
	t        testing.TB
	db       *db.DB
	sites    *site.Service
	site     site.Site
	ingester *Ingester
	importer *imports.Importer
	clock    *testClock
}

func newBench(t testing.TB, zone string, now time.Time) *bench {
	t.Helper()
	return newBenchOn(t, dbtest.New(t), zone, now)
}

func newBenchOn(t testing.TB, d *db.DB, zone string, now time.Time) *bench {
	t.Helper()
	b := &bench{t: t, db: d, clock: &testClock{at: now}}
	var err error
	if b.sites, err = site.New(site.Options{DB: b.db, Logger: slog.New(slog.DiscardHandler), Now: b.clock.now}); err != nil {
		t.Fatal(err)
	}
	if b.site, err = b.sites.Create(t.Context(), "Example", "example.com", zone); err != nil {
		t.Fatal(err)
	}
	b.ingester = b.anotherIngester()
	b.importer = b.anotherImporter()
	return b
}

func (b *bench) anotherImporter() *imports.Importer {
	b.t.Helper()
	i, err := imports.New(imports.Options{DB: b.db, Keys: Keys(b.t), Now: b.clock.now})
	if err != nil {
		b.t.Fatal(err)
	}
	return i
}

// importHits counts hits with times of their own, as lines that are equal to no others.
func (b *bench) importHits(m *imports.Importer, s site.Site, hits ...hit.Hit) error {
	b.t.Helper()
	var file bytes.Buffer
	out := json.NewEncoder(&file)
	for _, h := range hits {
		line := imports.Event{
			EventID: uuid.NewString(), TS: h.At, URL: h.URL, Referrer: h.Referrer, Name: h.Name, Props: h.Props,
			IP: h.Address.String(), UserAgent: h.UserAgent,
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	report, err := m.Import(b.t.Context(), s, &file, imports.NDJSON, nil)
	if err == nil && report.Imported+report.Skipped[imports.SkipBot] != len(hits) {
		err = fmt.Errorf("of %d hits: %+v", len(hits), report)
	}
	return err
}

// anotherIngester is what a second process, or a restarted one, would have.
func (b *bench) anotherIngester() *Ingester {
	b.t.Helper()
	return b.ingesterAt(b.clock.now)
}

func (b *bench) ingesterAt(now func() time.Time) *Ingester {
	b.t.Helper()
	i, err := NewIngester(IngesterOptions{DB: b.db, Sites: b.sites, Keys: Keys(b.t), Now: now})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := i.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return i
}

func aHit(change func(*hit.Hit)) hit.Hit {
	h := hit.Hit{Address: netip.MustParseAddr("203.0.113.7"), UserAgent: firefox, URL: "https://example.com/"}
	if change != nil {
		change(&h)
	}
	return h
}

func (b *bench) collect(i *Ingester, change func(*hit.Hit)) {
	b.t.Helper()
	if err := i.Collect(b.t.Context(), b.site, aHit(change)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) int(sql string, args ...any) int {
	b.t.Helper()
	var n int
	if err := b.db.Pool().QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// dump is every row of every statistics table, as text.
func (b *bench) dump() string {
	b.t.Helper()
	var out strings.Builder
	for _, table := range []string{"events", "sessions", "session_heads", "site_days", "imported_lines", "sites"} {
		rows, err := b.db.Pool().Query(b.t.Context(), `select x::text from `+table+` x order by 1`)
		if err != nil {
			b.t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.t.Fatal(err)
		}
		out.WriteString(strings.Join(lines, "\n"))
	}
	return out.String()
}

func TestWhatAHitSaysIsStoredAndWhoSentItIsNot(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC))
	b.collect(b.ingester, func(h *hit.Hit) {
		h.URL = "https://www.example.com:8443/Blog/100%?utm_source=news&utm_medium=mail&utm_campaign=a+b&utm_term=%ff%00x&utm_content=c#top"
		h.Referrer, h.Country = "https://www.Google.com/search?q=x", "PT"
	})
	b.collect(b.ingester, func(h *hit.Hit) {
		h.URL, h.Name, h.Props = "https://example.com", "signup", hit.Props{"plan": "pro"}
		h.Referrer = "https://example.com/Blog"
	})
	got := b.dump()
	for _, want := range []string{"/Blog/100%", "www.google.com", "news", "mail", `"a b"`, "\uFFFD\uFFFDx", "PT", "desktop", "Firefox", "Linux", "signup", `\"plan\"`} {
		if want == "www.google.com" {
			want = ",google.com,"
		}
		if !strings.Contains(strings.ReplaceAll(got, `""`, `\"`), want) {
			t.Errorf("%q is not stored in\n%s", want, got)
		}
	}
	for _, secret := range []string{"203.0.113.7", "Mozilla", "133.0", "#top", "search?q"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is stored in\n%s", secret, got)
		}
	}
	if n := b.int(`select count(*) from sessions where pageviews = 1 and events = 1 and entry_path = '/Blog/100%' and exit_path = entry_path`); n != 1 {
		t.Errorf("sessions:\n%s", got)
	}
}

func TestHitsThatMustNotCountAreAcceptedAndLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC))
	for _, change := range []func(*hit.Hit){
		func(h *hit.Hit) { h.UserAgent = "" },
		func(h *hit.Hit) { h.UserAgent = "curl/8.5.0" },
		func(h *hit.Hit) { h.URL = "https://example.org/" },
		func(h *hit.Hit) { h.URL = "https://notexample.com/" },
		func(h *hit.Hit) { h.URL = "https://example.com@evil.net/" },
		func(h *hit.Hit) { h.DoNotTrack = true },
	} {
		b.collect(b.ingester, change)
	}
	if n := b.int(`select (select count(*) from events) + (select count(*) from session_heads)`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestHitsThatBreakARuleNameTheField(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC))
	many := hit.Props{}
	for i := range 17 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, c := range []struct {
		field  string
		change func(*hit.Hit)
	}{
		{"url", func(h *hit.Hit) { h.URL = "" }},
		{"url", func(h *hit.Hit) { h.URL = "/path" }},
		{"url", func(h *hit.Hit) { h.URL = "https:///path" }},
		{"url", func(h *hit.Hit) { h.URL = "https://example.com/\x00" }},
		{"name", func(h *hit.Hit) { h.Name = strings.Repeat("é", 101) }},
		{"name", func(h *hit.Hit) { h.Name = "a\x00" }},
		{"props", func(h *hit.Hit) { h.Props = many }},
		{"props", func(h *hit.Hit) { h.Props = hit.Props{"": "x"} }},
		{"props", func(h *hit.Hit) { h.Props = hit.Props{"x": strings.Repeat("x", 1001)} }},
	} {
		err := b.ingester.Collect(t.Context(), b.site, aHit(c.change))
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Kind != fault.Invalid || len(f.Details) != 1 || f.Details[c.field] == "" {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	b.collect(b.ingester, func(h *hit.Hit) {
		h.Name, h.Props = strings.Repeat("é", 100), hit.Props{"x": strings.Repeat("é", 1000)}
	})
}

func TestPathsAreCutAtACharacter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"/" + strings.Repeat("a", 1023), "/" + strings.Repeat("a", 1023)},
		{"/" + strings.Repeat("a", 1024), "/" + strings.Repeat("a", 1023)},
		{"/" + strings.Repeat("é", 600), "/" + strings.Repeat("é", 511)},
		{"/\xff\x00", "/\uFFFD\uFFFD"},
	} {
		if got := hit.Label(c.in); got != c.want {
			t.Errorf("label of %d bytes has %d: %.20q", len(c.in), len(got), got)
		}
	}
}

func TestAVisitorLastsASiteDay(t *testing.T) {
	t.Parallel()
	lisbon, err := time.LoadLocation("Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	// On 31 March 2024 Lisbon's clocks went from 01:00 to 02:00.
	b := newBench(t, "Europe/Lisbon", time.Date(2024, 3, 30, 23, 50, 0, 0, lisbon))
	visits := []time.Time{
		time.Date(2024, 3, 30, 23, 50, 0, 0, lisbon), time.Date(2024, 3, 30, 23, 59, 59, 999999000, lisbon),
		time.Date(2024, 3, 31, 0, 0, 0, 0, lisbon), time.Date(2024, 3, 31, 0, 59, 0, 0, lisbon), time.Date(2024, 3, 31, 2, 10, 0, 0, lisbon),
		time.Date(2024, 3, 31, 23, 59, 0, 0, lisbon), time.Date(2024, 4, 1, 0, 1, 0, 0, lisbon),
	}
	for _, at := range visits {
		b.clock.set(at)
		b.collect(b.ingester, nil)
	}
	var got []string
	rows, err := b.db.Pool().Query(t.Context(), `select d.day || ' ' || extract(epoch from d.ends_at - d.starts_at)::int / 3600 || ' h, '
		|| count(distinct e.visitor) || ' visitors, ' || count(distinct e.session_id) || ' sessions, ' || count(*) || ' events'
		from site_days d join events e using (site_id, day) group by d.day, d.starts_at, d.ends_at order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"2024-03-30 24 h, 1 visitors, 1 sessions, 2 events",
		// 00:59 and 02:10 are eleven minutes apart.
		"2024-03-31 23 h, 1 visitors, 3 sessions, 4 events",
		"2024-04-01 24 h, 1 visitors, 1 sessions, 1 events",
	}, got); diff != "" {
		t.Error(diff)
	}
	if n := b.int(`select count(distinct visitor) from events`); n != 3 {
		t.Errorf("%d visitor numbers for three days", n)
	}
}

func TestVisitorsAreToldApartByAddressAndUserAgentOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC))
	for _, change := range []func(*hit.Hit){
		nil,
		func(h *hit.Hit) { h.Address = netip.MustParseAddr("::ffff:203.0.113.7") },
		func(h *hit.Hit) { h.URL = "https://www.example.com/elsewhere" },
		func(h *hit.Hit) { h.Address = netip.MustParseAddr("203.0.113.8") },
		func(h *hit.Hit) { h.UserAgent = safari },
	} {
		b.collect(b.ingester, change)
	}
	b.collect(b.anotherIngester(), nil) // a restart splits no visitor
	other, err := b.sites.Create(t.Context(), "Other", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ingester.Collect(t.Context(), other, aHit(nil)); err != nil {
		t.Fatal(err)
	}
	if n := b.int(`select count(distinct visitor) from events where site_id = $1`, b.site.ID); n != 3 {
		t.Errorf("%d visitors, want 3", n)
	}
	if n := b.int(`select count(distinct visitor) from events`); n != 4 {
		t.Errorf("%d visitor numbers over both sites, want 4", n)
	}
}

func TestSaltsAreDestroyedAfterTwoDays(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", start)
	b.collect(b.ingester, nil)
	late := aHit(func(h *hit.Hit) { h.At = start })
	destroy := func(at time.Time, want int) {
		t.Helper()
		b.clock.set(at)
		if n, err := b.ingester.DestroySalts(t.Context()); err != nil || n != want {
			t.Errorf("at %v: %d salts destroyed, %v; want %d", at, n, err, want)
		}
	}
	destroy(time.Date(2024, 6, 3, 0, 0, 0, 0, time.UTC), 0)
	if err := b.importHits(b.importer, b.site, late); err != nil {
		t.Fatal(err)
	}
	if n := b.int(`select count(distinct visitor) from events`); n != 2 {
		t.Errorf("an imported line and a live hit made %d visitors, want 2", n)
	}
	destroy(time.Date(2024, 6, 3, 0, 0, 1, 0, time.UTC), 1)
	if n := b.int(`select count(*) from site_days where salt is not null or salt_box is not null`); n != 0 {
		t.Errorf("%d salts left", n)
	}
	for _, i := range []*Ingester{b.ingester, b.anotherIngester()} {
		if n := i.days.Salts(); n != 0 {
			t.Errorf("%d salts are still in memory", n)
		}
	}
	for _, m := range []*imports.Importer{b.importer, b.anotherImporter()} { // the first had the salt
		if err := b.importHits(m, b.site, late); err != nil {
			t.Fatal(err)
		}
	}
	// Imported lines meet each other, whether the day has its salt or not.
	if n := b.int(`select count(distinct visitor) from events`); n != 2 {
		t.Errorf("%d visitors after the salt was destroyed, want 2", n)
	}
}

func TestOldDaysNeedTheImportSecret(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", now)
	old := aHit(func(h *hit.Hit) { h.At = now.AddDate(0, 0, -30) })
	for _, m := range []*imports.Importer{b.importer, b.anotherImporter()} {
		if err := b.importHits(m, b.site, old, aHit(func(h *hit.Hit) { h.At = now.AddDate(0, 0, -1) })); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.int(`select count(distinct visitor) from events`); n != 2 {
		t.Errorf("%d visitor numbers for two days", n)
	}
	if n := b.int(`select count(*) from site_days where salt_box is null and salt is null and day = '2024-05-01'`); n != 1 {
		t.Error("the salt of an old day is stored")
	}
	if err := b.importer.Forget(t.Context(), b.site.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.importHits(b.importer, b.site, old); !errors.Is(err, visitor.ErrForgotten) {
		t.Errorf("import of an old day = %v", err)
	}
	b.collect(b.ingester, nil)
}

func TestEveryAcceptedHitIsStoredAndRefusedOnesAreNot(t *testing.T) {
	t.Parallel()
	b := newBench(t, "UTC", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC))
	ingesters := []*Ingester{b.ingester, b.anotherIngester()}
	const callers, each = 16, 10
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			for n := range each {
				change := func(h *hit.Hit) {
					h.URL = fmt.Sprintf("https://example.com/%d/%d", c, n)
					h.Address = netip.AddrFrom4([4]byte{203, 0, 113, byte(c % 4)})
				}
				if err := ingesters[c%2].Collect(t.Context(), b.site, aHit(change)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n := b.int(`select count(distinct path) from events`); n != callers*each {
		t.Errorf("%d pages stored, want %d", n, callers*each)
	}
	if n := b.int(`select count(*) from sessions`); n != 4 {
		t.Errorf("%d sessions of 4 visitors", n)
	}
	if n := b.int(`select sum(pageviews) from sessions`); n != callers*each {
		t.Errorf("sessions hold %d pageviews, want %d", n, callers*each)
	}
	stopped := b.anotherIngester()
	if err := stopped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Collect(context.WithoutCancel(t.Context()), b.site, aHit(nil)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Collect after Close = %v", err)
	}
	if n := b.int(`select count(*) from events`); n != callers*each {
		t.Errorf("a refused hit was stored")
	}
}
