package stats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/identity"
	calendar "github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// TestReadingEqualsANaiveCount puts rows into the tables as ingestion would, so
// that reading is held against the count by itself, custom events included.
func TestReadingEqualsANaiveCount(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]time.Time{
		"UTC":                 time.Date(2024, 2, 20, 0, 0, 0, 0, time.UTC),
		"America/New_York":    time.Date(2024, 10, 20, 0, 0, 0, 0, time.UTC), // clocks go back on 3 November
		"Asia/Kolkata":        time.Date(2024, 12, 25, 0, 0, 0, 0, time.UTC), // half an hour off
		"Australia/Lord_Howe": time.Date(2024, 9, 20, 0, 0, 0, 0, time.UTC),  // clocks go forward by half an hour on 6 October
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const days = 25
			zone, d := location(t, name), dbtest.New(t)
			hits := randomHits(uint64(len(name)), from, days, zone)
			site := store(t, d, zone, hits)
			store(t, d, zone, hits[:len(hits)/2]) // another site's, to be left alone
			c := comparison{
				service: newService(t, d, from.AddDate(0, 0, days), 4), site: site, zone: zone,
				count: naive.New(naive.Rules{Zone: zone, LabelCap: 4}, hits), limit: 500, events: []string{"signup", "nothing"},
			}
			c.mustAgree(t.Context(), t, naive.Window{From: from.Format(time.DateOnly), To: from.AddDate(0, 0, days).Format(time.DateOnly)})
			rapid.Check(t, func(rt *rapid.T) {
				c.limit = rapid.SampledFrom([]int{1, 3, 500}).Draw(rt, "limit")
				c.offset = rapid.SampledFrom([]int{0, 0, 1, 4, 10_000}).Draw(rt, "offset")
				c.mustAgree(t.Context(), rt, windows(from, from.AddDate(0, 0, days), zone).Draw(rt, "window"))
			})
		})
	}
}

func newService(t testing.TB, d *db.DB, now time.Time, labelCap int) *stats.Service {
	t.Helper()
	s, err := stats.NewService(stats.ServiceOptions{DB: d, Now: func() time.Time { return now }, LabelCap: labelCap})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// randomHits are visits that crowd around the half hour and around midnight.
func randomHits(seed uint64, from time.Time, days int, zone *time.Location) []naive.Hit {
	random := rand.New(rand.NewPCG(seed, 2))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	var hits []naive.Hit
	for range days * 14 {
		y, m, d := from.Add(time.Duration(random.IntN(days*24)) * time.Hour).In(zone).Date()
		at := time.Date(y, m, d, random.IntN(30), random.IntN(60), random.IntN(60), 1000*random.IntN(1_000_000), zone)
		visitor := fmt.Sprint("v", random.IntN(30))
		for range 1 + random.IntN(5) {
			h := naive.Hit{At: at, Visitor: visitor, Path: one("/", "/a", "/b", "/c", "/d", "/é", "/Z", "/z", "(other)"), Labels: map[string]string{
				"source":     one("", "", "a.example", "b.example", "c.example", "d.example", "e.example", "(other)"),
				"utm_source": one("", "", "", "x", "y", "(other)"), "utm_medium": one("", "mail"), "utm_campaign": one("", "spring", "été", "1", "2", "3"),
				"utm_term": one("", "t"), "utm_content": one("", "c"),
				"country": one("", "DE", "US", "IN"), "device": one("desktop", "mobile", "tablet"),
				"browser": one("A", "B", "C", "D", "E", "F"), "os": one("", "L", "M"),
				"hostname": one("", "example.com", "example.com", "blog.example.com", "shop!.example.com"),
			}}
			if random.IntN(5) == 0 {
				h.Name = one("signup", "play", "Play", "save")
				h.Props = map[string]string{"plan": one("free", "team", ""), one("a", "b"): one("1", "2")}
			}
			hits = append(hits, h)
			at = at.Add(time.Duration(random.IntN(2)) * 30 * time.Minute).Add(time.Duration(random.IntN(3)-1) * time.Second)
		}
	}
	return hits
}

// store writes hits as rows of a new site, sessions included. It knows nothing of
// naive's sessions.
func store(t testing.TB, d *db.DB, zone *time.Location, hits []naive.Hit) uuid.UUID {
	t.Helper()
	site := uuid.Must(uuid.NewV7())
	hits = append([]naive.Hit(nil), hits...)
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].At.Before(hits[j].At) })
	byVisitor := map[string][]naive.Hit{}
	for _, h := range hits {
		key := h.At.In(zone).Format(time.DateOnly) + h.Visitor
		byVisitor[key] = append(byVisitor[key], h)
	}
	err := d.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		for key, all := range byVisitor {
			hash := fnv.New64()
			hash.Write([]byte(key))
			for len(all) > 0 {
				n := 1
				for n < len(all) && all[n].At.Sub(all[n-1].At) <= 30*time.Minute {
					n++
				}
				if err := storeSession(ctx, tx, site, zone, int64(hash.Sum64()), all[:n]); err != nil {
					return err
				}
				all = all[n:]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return site
}

func storeSession(ctx context.Context, tx pgx.Tx, site uuid.UUID, zone *time.Location, visitor int64, hits []naive.Hit) error {
	first, last := hits[0], hits[len(hits)-1]
	y, m, day := first.At.In(zone).Date()
	date := time.Date(y, m, day, 0, 0, 0, 0, time.UTC)
	_, err := tx.Exec(ctx, `insert into site_days (site_id, day, starts_at, ends_at) values ($1, $2, $3, $4) on conflict do nothing`,
		site, date, calendar.DayStart(date, zone), calendar.DayStart(date.AddDate(0, 0, 1), zone))
	if err != nil {
		return err
	}
	var session int64
	var entry, exit *string
	views := 0
	if err := tx.QueryRow(ctx, `select nextval('sessions_id_seq')`).Scan(&session); err != nil {
		return err
	}
	for i, h := range hits {
		var name *string
		var props []byte
		if h.Name != "" {
			name = &h.Name
			if props, err = json.Marshal(h.Props); err != nil {
				return err
			}
		} else {
			views++
			exit = &hits[i].Path
			if entry == nil {
				entry = exit
			}
		}
		if _, err := tx.Exec(ctx, `select ensure_events_month($1)`, h.At); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into events (site_id, occurred_at, day, visitor, session_id, path, name, props, hostname) values ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''))`,
			site, h.At, date, visitor, session, h.Path, name, props, h.Labels["hostname"])
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `insert into session_heads (site_id, day, visitor, session_id, last_at) values ($1, $2, $3, $4, $5)
		on conflict (site_id, day, visitor) do update set session_id = excluded.session_id, last_at = excluded.last_at`, site, date, visitor, session, last.At)
	if err != nil {
		return err
	}
	l := first.Labels
	_, err = tx.Exec(ctx, `insert into sessions (site_id, day, id, visitor, started_at, last_at, pageviews, events, entry_path, exit_path,
		source, utm_source, utm_medium, utm_campaign, utm_term, utm_content, country, device, browser, os)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
		site, date, session, visitor, first.At, last.At, views, len(hits)-views, entry, exit,
		l["source"], l["utm_source"], l["utm_medium"], l["utm_campaign"], l["utm_term"], l["utm_content"], l["country"], l["device"], l["browser"], l["os"])
	return err
}
