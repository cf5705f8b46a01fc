package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

// storedEvent is an event as the database has it.
type storedEvent struct {
	id, session int64
	at          time.Time
	path        string
	custom      bool
}

// plainSession is a session as anybody would describe it.
type plainSession struct {
	Started, Last     time.Time
	Pageviews, Events int
	Entry, Exit       string
	Source            string
	Members           []int64 // ids of events
}

// countSessions is the definition, read aloud: in order of time, ties in order
// of arrival, a gap of more than half an hour begins a new session.
func countSessions(events []storedEvent) []plainSession {
	slices.SortFunc(events, func(a, b storedEvent) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return int(a.id - b.id)
	})
	var sessions []plainSession
	for i, e := range events {
		if i == 0 || e.at.Sub(events[i-1].at) > 30*time.Minute {
			sessions = append(sessions, plainSession{Started: e.at, Source: "source of " + e.path})
		}
		s := &sessions[len(sessions)-1]
		s.Last, s.Members = e.at, append(s.Members, e.id)
		if e.custom {
			s.Events++
			continue
		}
		s.Pageviews++
		if s.Exit = e.path; s.Pageviews == 1 {
			s.Entry = e.path
		}
	}
	return sessions
}

// storedSessions reads what ingestion made of the same events.
func storedSessions(t rapid.TB, d *db.DB, key Visitor) ([]storedEvent, []plainSession) {
	t.Helper()
	ctx := context.Background()
	rows, err := d.Pool().Query(ctx, `select id, session_id, occurred_at, path, name is not null from events
		where site_id = $1 and day = $2 and visitor = $3 order by occurred_at, id`, key.Site, key.Day, key.Number)
	if err != nil {
		t.Fatal(err)
	}
	events, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (storedEvent, error) {
		var e storedEvent
		err := r.Scan(&e.id, &e.session, &e.at, &e.path, &e.custom)
		e.at = e.at.UTC()
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := ListOfDay(ctx, d.Pool(), key.Site, key.Day, []int64{key.Number})
	if err != nil {
		t.Fatal(err)
	}
	var sessions []plainSession
	for _, r := range stored {
		s := r.Session
		p := plainSession{
			Started: s.Started, Last: s.Last, Pageviews: int(s.Pageviews), Events: int(s.Events),
			Entry: s.EntryPath, Exit: s.ExitPath, Source: s.Origin.Source,
		}
		for _, e := range events {
			if e.session == s.ID {
				p.Members = append(p.Members, e.id)
			}
		}
		sessions = append(sessions, p)
	}
	return events, sessions
}

// drawEvents makes events of few visitors whose gaps are around half an hour.
func drawEvents(t *rapid.T, site uuid.UUID) []Event {
	day := time.Date(2024, 5, 31, 0, 0, 0, 0, time.UTC)
	n := rapid.IntRange(1, 40).Draw(t, "events")
	events := make([]Event, n)
	for i := range events {
		at := day.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "ten minutes"))*10*time.Minute + time.Duration(rapid.IntRange(-1, 1).Draw(t, "second"))*time.Second + time.Second)
		path := fmt.Sprint("/", i)
		events[i] = Event{
			Key: Visitor{Site: site, Day: day, Number: int64(rapid.IntRange(1, 2).Draw(t, "visitor"))},
			At:  at, Path: path, Origin: Origin{Source: "source of " + path},
		}
		if rapid.IntRange(0, 3).Draw(t, "custom") == 0 {
			events[i].Name = "signup"
		}
	}
	return events
}

// split cuts events into batches.
func split(t *rapid.T, events []Event) [][]Event {
	var batches [][]Event
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(t, "batch")
		batches, events = append(batches, events[:n]), events[n:]
	}
	return batches
}

func writeBatch(d *db.DB, batch []Event) error {
	return d.InIndexTx(context.Background(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := Store{queries: dbsqlc.New(), ids: new(ids), gap: DefaultGap}.Write(ctx, tx, batch)
		return err
	})
}

func ensureMonth(t testing.TB, d *db.DB, at time.Time) {
	t.Helper()
	if _, err := d.Pool().Exec(t.Context(), `select ensure_events_month($1)`, at); err != nil {
		t.Fatal(err)
	}
}

// ensureDay gives the site a day of UTC.
func ensureDay(t rapid.TB, d *db.DB, site uuid.UUID, day time.Time) {
	t.Helper()
	_, err := d.Pool().Exec(context.Background(), `insert into site_days (site_id, day, starts_at, ends_at) values ($1, $2, $3, $4)`,
		site, day, day, day.AddDate(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
}

func checkSessions(t rapid.TB, d *db.DB, events []Event) {
	t.Helper()
	visitors := make(map[Visitor]int)
	for _, e := range events {
		visitors[e.Key]++
	}
	for key, n := range visitors {
		all, got := storedSessions(t, d, key)
		if len(all) != n {
			t.Fatalf("visitor %d: %d events stored of %d", key.Number, len(all), n)
		}
		want := countSessions(all)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("visitor %d (-naive +stored):\n%s", key.Number, diff)
		}
		var head int64
		var last time.Time
		err := d.Pool().QueryRow(context.Background(), `select session_id, last_at from session_heads where site_id = $1 and day = $2 and visitor = $3`,
			key.Site, key.Day, key.Number).Scan(&head, &last)
		if newest := all[len(all)-1]; err != nil || head != newest.session || !last.Equal(newest.at) {
			t.Fatalf("head is session %d until %v, %v; the last event: %+v", head, last, err, newest)
		}
	}
}

func TestSessionsAreExactInAnyOrderOfArrival(t *testing.T) {
	t.Parallel()
	checkArrivals(t, dbtest.New(t))
}

func TestSessionsOfShardsAreExactInAnyOrderOfArrival(t *testing.T) {
	t.Parallel()
	checkArrivals(t, dbtest.NewSharded(t))
}

func checkArrivals(t *testing.T, d *db.DB) {
	t.Helper()
	ensureMonth(t, d, time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	rapid.Check(t, func(rt *rapid.T) {
		events := drawEvents(rt, uuid.New())
		ensureDay(rt, d, events[0].Key.Site, events[0].Key.Day)
		for _, batch := range split(rt, rapid.Permutation(events).Draw(rt, "arrival")) {
			if err := writeBatch(d, batch); err != nil {
				rt.Fatal(err)
			}
		}
		checkSessions(rt, d, events)
	})
}

func TestSessionsAreExactUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	checkConcurrentWriters(t, dbtest.New(t))
}

func TestSessionsOfShardsAreExactUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	checkConcurrentWriters(t, dbtest.NewSharded(t))
}

func checkConcurrentWriters(t *testing.T, d *db.DB) {
	t.Helper()
	ensureMonth(t, d, time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	rapid.Check(t, func(rt *rapid.T) {
		events := drawEvents(rt, uuid.New())
		ensureDay(rt, d, events[0].Key.Site, events[0].Key.Day)
		batches := split(rt, rapid.Permutation(events).Draw(rt, "arrival"))
		var writers sync.WaitGroup
		failures := make(chan error, len(batches))
		for _, batch := range batches {
			writers.Go(func() { failures <- writeBatch(d, batch) })
		}
		writers.Wait()
		for range batches {
			if err := <-failures; err != nil {
				rt.Fatal(err)
			}
		}
		checkSessions(rt, d, events)
	})
}

func TestASessionEndsAfterMoreThanHalfAnHour(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	start := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	ensureMonth(t, d, start)
	for gap, want := range map[time.Duration]int{
		29*time.Minute + 59*time.Second: 1, 30 * time.Minute: 1, 30*time.Minute + time.Microsecond: 2, 30*time.Minute + time.Second: 2,
	} {
		for name, batches := range map[string][][]int{"one batch": {{0, 1}}, "in order": {{0}, {1}}, "the later one first": {{1}, {0}}} {
			key := Visitor{Site: uuid.New(), Day: start.Truncate(24 * time.Hour), Number: 1}
			ensureDay(t, d, key.Site, key.Day)
			for _, batch := range batches {
				var events []Event
				for _, i := range batch {
					events = append(events, Event{Key: key, At: start.Add(time.Duration(i) * gap), Path: "/"})
				}
				if err := writeBatch(d, events); err != nil {
					t.Fatal(err)
				}
			}
			if _, got := storedSessions(t, d, key); len(got) != want {
				t.Errorf("gap %v, %s: %d sessions, want %d", gap, name, len(got), want)
			}
		}
	}
}
