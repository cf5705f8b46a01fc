package stats_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/imports"
)

// counted is a site whose traffic was imported and counted anew.
type counted struct {
	comparison
	from, to time.Time
}

// counting says what is imported and how both sides count it.
type counting struct {
	content  []byte
	format   imports.Format
	domain   string
	rules    naive.Rules
	labelCap int // of the product; rules have the naive count's
	// zone and gap make the product another than the rules say.
	zone string
	gap  time.Duration
}

// imported makes a site, imports into it, and checks what the import says.
func imported(t *testing.T, in counting) counted {
	t.Helper()
	if in.zone == "" {
		in.zone = in.rules.Zone.String()
	}
	d := dbtest.New(t)
	sites, err := site.New(site.Options{DB: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sites.Create(t.Context(), "Counted", in.domain, in.zone)
	if err != nil {
		t.Fatal(err)
	}
	importer, err := imports.New(imports.Options{DB: d, Keys: stats.Keys(t), SessionGap: in.gap})
	if err != nil {
		t.Fatal(err)
	}
	report, err := importer.Import(t.Context(), s, bytes.NewReader(in.content), in.format, nil)
	if err != nil {
		t.Fatal(err)
	}

	log := naive.Log{Domain: in.domain, Classify: classifier(t), Common: in.format == imports.Common}
	read := log.Read
	if in.format == imports.NDJSON {
		read = log.ReadEvents
	}
	hits := read(bytes.NewReader(in.content))
	skipped := map[string]int{
		"malformed": report.Skipped[imports.SkipMalformed] + report.Skipped[imports.SkipBlank],
		"method":    report.Skipped[imports.SkipNotGet], "status": report.Skipped[imports.SkipStatus],
		"asset": report.Skipped[imports.SkipAsset], "bot": report.Skipped[imports.SkipBot],
	}
	for reason, n := range skipped {
		if n == 0 {
			delete(skipped, reason)
		}
	}
	if diff := cmp.Diff(log.Skipped, skipped); diff != "" || report.Imported != log.Counted {
		t.Fatalf("imported %d lines, want %d; skipped (-naive +product):\n%s", report.Imported, log.Counted, diff)
	}
	c := counted{comparison: comparison{
		service: newService(t, d, time.Now(), in.labelCap), site: s.ID, zone: s.Zone,
		count: naive.New(in.rules, hits), limit: 500, events: []string{"signup", "Play"},
	}, from: hits[0].At, to: hits[0].At}
	for _, h := range hits {
		if h.At.Before(c.from) {
			c.from = h.At
		}
		if h.At.After(c.to) {
			c.to = h.At
		}
	}
	return c
}

// all is every day that has traffic.
func (c counted) all() naive.Window {
	return naive.Window{From: c.from.In(c.zone).Format(time.DateOnly), To: c.to.In(c.zone).Format(time.DateOnly)}
}

// classifier is the product's reading of user agents, the one thing that can't be
// counted anew without its libraries.
func classifier(t *testing.T) func(string) naive.Agent {
	t.Helper()
	clients, err := client.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	return func(userAgent string) naive.Agent {
		c := clients.Parse(userAgent)
		return naive.Agent{Bot: c.Bot, Device: c.Device, Browser: c.Browser, OS: c.OS}
	}
}

// seasons are weeks with what makes counting hard: changes of clocks, a month's
// end, an offset that is no full hour.
var seasons = map[string]naive.Traffic{
	"UTC":                 {Seed: 1, Start: time.Date(2024, 2, 26, 12, 0, 0, 0, time.UTC)},
	"America/New_York":    {Seed: 2, Start: time.Date(2024, 10, 30, 12, 0, 0, 0, time.UTC)}, // clocks go back on 3 November
	"Europe/Lisbon":       {Seed: 3, Start: time.Date(2024, 3, 28, 12, 0, 0, 0, time.UTC)},  // clocks go forward on 31 March
	"Asia/Kolkata":        {Seed: 4, Start: time.Date(2023, 12, 28, 12, 0, 0, 0, time.UTC)},
	"Australia/Lord_Howe": {Seed: 5, Start: time.Date(2024, 4, 4, 12, 0, 0, 0, time.UTC)}, // clocks go back by half an hour on 7 April
}

func season(t testing.TB, zone string) naive.Traffic {
	traffic := seasons[zone]
	traffic.Zone, traffic.Days, traffic.Visitors, traffic.Domain = location(t, zone), 6, 50, "example.com"
	return traffic
}

func generated(t testing.TB, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func logOf(t testing.TB, traffic naive.Traffic) []byte {
	return generated(t, func(b *bytes.Buffer) error { return traffic.Log(b) })
}

func TestAnImportedLogIsCountedToTheUnit(t *testing.T) {
	t.Parallel()
	for zone := range seasons {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			traffic := season(t, zone)
			c := imported(t, counting{content: logOf(t, traffic), format: imports.Combined, domain: traffic.Domain, rules: naive.Rules{Zone: traffic.Zone}})
			c.mustAgree(t.Context(), t, c.all())
			rapid.Check(t, func(rt *rapid.T) {
				c.mustAgree(t.Context(), rt, windows(c.from, c.to, c.zone).Draw(rt, "window"))
			})
		})
	}
}

func TestImportedEventsAreCountedToTheUnit(t *testing.T) {
	t.Parallel()
	const zone, labelCap = "America/New_York", 3
	traffic := season(t, zone)
	content := generated(t, func(b *bytes.Buffer) error { return traffic.Events(b) })
	c := imported(t, counting{
		content: content, format: imports.NDJSON, domain: traffic.Domain,
		rules: naive.Rules{Zone: traffic.Zone, LabelCap: labelCap}, labelCap: labelCap,
	})
	c.mustAgree(t.Context(), t, c.all())
	rapid.Check(t, func(rt *rapid.T) {
		c.mustAgree(t.Context(), rt, windows(c.from, c.to, c.zone).Draw(rt, "window"))
	})
}

func TestRealtimeCountsTheLastFiveMinutes(t *testing.T) {
	t.Parallel()
	traffic := season(t, "America/New_York")
	d := dbtest.New(t)
	content := logOf(t, traffic)
	log := naive.Log{Domain: traffic.Domain, Classify: classifier(t)}
	hits := log.Read(bytes.NewReader(content))
	count := naive.New(naive.Rules{Zone: traffic.Zone}, hits)
	site := store(t, d, traffic.Zone, hits)
	busy := 0
	for _, h := range hits[:200] {
		for _, since := range []time.Duration{-time.Second, 0, time.Second, 299 * time.Second, 300 * time.Second, 301 * time.Second} {
			now := h.At.Add(since)
			got, err := newService(t, d, now, 0).Realtime(t.Context(), stats.Query{SiteID: site, Zones: calendar.Always(traffic.Zone)})
			if err != nil {
				t.Fatal(err)
			}
			if want := count.Realtime(now); got != want {
				t.Fatalf("at %v: %d visitors, want %d", now, got, want)
			}
			busy = max(busy, int(got))
		}
	}
	if busy < 2 {
		t.Errorf("never more than %d visitors at once: the test shows little", busy)
	}
}

// TestAWrongProductIsFoundOut shows that the traffic and the windows of these
// tests tell a product with other definitions from the right one.
func TestAWrongProductIsFoundOut(t *testing.T) {
	t.Parallel()
	traffic := season(t, "America/New_York")
	for name, c := range map[string]struct {
		zone  string
		gap   time.Duration
		right bool
	}{
		"right":                            {right: true},
		"days of UTC for a zoned site":     {zone: "UTC"},
		"days of a zone an hour off":       {zone: "America/Chicago"},
		"a gap of 31 minutes":              {gap: 31 * time.Minute},
		"a gap of 30 minutes and a second": {gap: 30*time.Minute + time.Second},
		"a gap under 30 minutes":           {gap: 30*time.Minute - time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			product := imported(t, counting{
				content: logOf(t, traffic), format: imports.Combined, domain: traffic.Domain,
				rules: naive.Rules{Zone: traffic.Zone}, zone: c.zone, gap: c.gap,
			})
			report, err := product.differences(t.Context(), product.all())
			if err != nil {
				t.Fatal(err)
			}
			if (report == "") != c.right {
				t.Errorf("right = %v, but the differences found are: %q", c.right, report)
			}
		})
	}
}
