package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
)

// clock is a time that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

var noon = time.Date(2026, 11, 22, 12, 0, 30, 0, time.UTC)

// process is a History that a test lets run by hand.
type process struct {
	*History
	requests *Requests
	clock    *clock
}

func newProcess(t *testing.T, d *db.DB, name string, change ...func(*HistoryOptions)) process {
	t.Helper()
	p := process{requests: NewRequests(), clock: &clock{at: noon}}
	o := HistoryOptions{Areas: db.Undivided(d), Requests: p.requests, Logger: slog.New(slog.DiscardHandler), Instance: name, Now: p.clock.now}
	for _, f := range change {
		f(&o)
	}
	var err error
	if p.History, err = NewHistory(o); err != nil {
		t.Fatal(err)
	}
	return p
}

// answer lets n requests be answered, and the minute end.
func (p process) answer(t *testing.T, n, status int, took time.Duration) {
	t.Helper()
	for range n {
		p.requests.Observe(Request{At: p.clock.now(), Method: "GET", Route: "/a/{id}", Status: status, Took: took, ID: "r-" + p.o.Instance, Code: "busy"})
	}
	p.clock.pass(time.Minute)
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lastHour is what p reads.
func (p process) lastHour(t *testing.T) Summary {
	t.Helper()
	s, err := p.Read(t.Context(), Question{Since: noon.Truncate(time.Hour), Until: noon.Truncate(time.Hour).Add(time.Hour), Step: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProcessesAreSummedAndADeadOneKeepsWhatItStored(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	one, two := newProcess(t, d, "one"), newProcess(t, d, "two")
	one.answer(t, 98, 200, 2*time.Millisecond)
	two.answer(t, 2, 503, time.Second)
	two.requests.Observe(Request{Method: "GET", Route: "/a/{id}", Status: 200}) // and it is killed
	one.answer(t, 10, 404, 2*time.Millisecond)
	s := one.lastHour(t)
	want := Figures{Requests: 110, Refused: 10, Failed: 2}
	if got := (Figures{Requests: s.All.Requests, Refused: s.All.Refused, Failed: s.All.Failed}); got != want {
		t.Errorf("%+v", s.All)
	}
	if s.All.P50 > 3*time.Millisecond || s.All.P95 > 3*time.Millisecond || s.All.P99 < 800*time.Millisecond {
		t.Errorf("%+v", s.All)
	}
	if len(s.Routes) != 1 || s.Routes[0].Method != "GET" || s.Routes[0].Route != "/a/{id}" || s.Routes[0].Course[0] != 100 || s.Routes[0].Course[1] != 10 || s.Routes[0].Failing[0] != 2 || s.Points[1].Refused != 10 {
		t.Errorf("%+v", s.Routes)
	}
	failed, err := one.Failed(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour), 10)
	if err != nil || len(failed) != 2 {
		t.Fatalf("%v %+v", err, failed)
	}
	if diff := cmp.Diff(Noted{Request{At: noon, Method: "GET", Route: "/a/{id}", Status: 503, Took: time.Second, ID: "r-two", Code: "busy"}, "two"}, failed[0]); diff != "" {
		t.Error(diff)
	}
	slow, err := two.Slowest(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour), 5)
	if err != nil || len(slow) != 5 || slow[0].Took != time.Second || slow[4].Took != 2*time.Millisecond {
		t.Errorf("%v %+v", err, slow)
	}
	areas := db.Undivided(d)
	list, err := one.Instances(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour))
	if err != nil || len(list) != 2 || list[0].Name != "one" || list[0].Goroutines == 0 || list[0].Memory == 0 || len(list[0].Pools) != len(areas.All()) {
		t.Errorf("%v %+v", err, list)
	}
}

func TestMinutesWaitWhileTheDatabaseIsAwayAndAreStoredOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d, "one")
	away, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxWaiting + 5 {
		p.requests.Observe(Request{Method: "GET", Route: "/", Status: 503})
		p.clock.pass(time.Minute)
		if err := p.Flush(away); err == nil {
			t.Fatal("stored without a database")
		}
	}
	if len(p.waiting) != maxWaiting {
		t.Errorf("%d minutes wait", len(p.waiting))
	}
	// The outcome of this one is unknown: it is stored, and sent again.
	unknown := p.waiting[1]
	if err := p.queries.InsertTelemetryMinute(t.Context(), d.Direct(), unknown); err != nil {
		t.Fatal(err)
	}
	p.answer(t, 1, 200, 0)
	if len(p.waiting) != 0 {
		t.Errorf("%d minutes wait still", len(p.waiting))
	}
	s, err := p.Read(t.Context(), Question{Since: noon.Truncate(time.Minute), Until: noon.Add(3 * time.Hour).Truncate(time.Minute), Step: time.Minute})
	// The oldest made room for the last.
	if err != nil || s.All.Failed != maxWaiting-1 || s.All.Requests != maxWaiting {
		t.Errorf("%v %+v", err, s.All)
	}
	for i, f := range s.Points[6 : maxWaiting+5] {
		if f.Requests != 1 {
			t.Errorf("minute %d has %d", i, f.Requests)
		}
	}
}

func TestAClockThatIsSetBackLosesNothing(t *testing.T) {
	t.Parallel()
	p := newProcess(t, dbtest.New(t), "one")
	p.answer(t, 3, 200, 0)
	p.clock.pass(-2 * time.Minute)
	p.answer(t, 4, 200, 0)
	p.answer(t, 5, 200, 0)
	if s := p.lastHour(t); s.All.Requests != 12 {
		t.Errorf("%+v", s.All)
	}
}

// One process counted until it was killed, another while the database was away.
func TestTalliesAreSummedByTheHourAndCountedOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	counting := func(counts map[string]uint64) func(*HistoryOptions) {
		return func(o *HistoryOptions) { o.Tallies = func() map[string]uint64 { return maps.Clone(counts) } }
	}
	first, second := map[string]uint64{"mails": 2}, map[string]uint64{}
	one, two := newProcess(t, d, "one", counting(first)), newProcess(t, d, "two", counting(second))
	plain := newProcess(t, d, "of an older version")
	plain.answer(t, 1, 200, 0)
	one.answer(t, 0, 200, 0)
	first["mails"], first["jobs"] = 7, 1
	one.answer(t, 0, 200, 0)
	one.answer(t, 0, 200, 0) // nothing new
	away, cancel := context.WithCancel(t.Context())
	cancel()
	second["mails"] = 10
	two.clock.pass(time.Hour)
	if err := two.Flush(away); err == nil {
		t.Fatal("stored without a database")
	}
	two.clock.pass(time.Hour)
	second["mails"] = 30
	two.answer(t, 0, 200, 0)
	hour := noon.Truncate(time.Hour)
	q := Question{Since: hour.Add(-time.Hour), Until: hour.Add(3 * time.Hour), Step: time.Hour}
	read := func(mails ...uint64) {
		t.Helper()
		got, err := plain.Counts(t.Context(), q)
		want := map[string][]uint64{"mails": mails, "jobs": {0, 1, 0, 0}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
	read(0, 17, 0, 20)
	// A minute comes as late as it can, and is counted; what is long over is read once.
	plain.clock.at = hour.Add(time.Hour + settledAfter - time.Minute)
	read(0, 17, 0, 20)
	second["mails"] = 31
	two.clock.at = noon.Add(5 * time.Minute)
	two.began = two.clock.at
	two.answer(t, 0, 200, 0)
	read(0, 18, 0, 20)
	plain.clock.pass(2 * time.Minute)
	read(0, 18, 0, 20)
	if len(plain.counted.steps) != 2 {
		t.Errorf("%d hours are kept", len(plain.counted.steps))
	}
	read(0, 18, 0, 20)
	plain.clock.pass(25 * time.Hour)
	q.Since, q.Until = q.Since.Add(4*time.Hour), q.Until.Add(4*time.Hour)
	if got, err := plain.Counts(t.Context(), q); err != nil || len(got) != 0 || len(plain.counted.steps) != 4 {
		t.Errorf("%v %v %d", err, got, len(plain.counted.steps))
	}
}

func TestMinutesAreGoneAfterADay(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p, ahead := newProcess(t, d, "one"), newProcess(t, d, "ahead")
	ahead.clock.pass(48 * time.Hour)
	ahead.answer(t, 1, 200, 0)
	ahead.answer(t, 1, 200, 0)
	p.answer(t, 1, 200, 0)
	p.clock.pass(23*time.Hour + 58*time.Minute)
	p.answer(t, 1, 200, 0) // asleep until now
	if n, err := p.Sweep(t.Context()); err != nil || n != 2 {
		t.Errorf("of a clock that was ahead: %d %v", n, err)
	}
	p.clock.pass(5 * time.Minute)
	if n, err := p.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("of a day ago: %d %v", n, err)
	}
	var left int
	if err := d.Direct().QueryRow(t.Context(), "select count(*) from telemetry_minutes").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d left, %v", left, err)
	}
}

func TestAMinuteOfANewerVersionIsLeftOut(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d, "one")
	p.answer(t, 3, 200, 0)
	if _, err := d.Direct().Exec(t.Context(), `insert into telemetry_minutes (id, instance, minute, requests, slow, process)
		values ($1, 'newer', $2, '\x0217', '[]', '{"pools": null, "more": 1}')`, uuid.New(), noon.Truncate(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if s := p.lastHour(t); s.All.Requests != 3 {
		t.Errorf("%+v", s.All)
	}
	if list, err := p.Instances(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour)); err != nil || len(list) != 2 {
		t.Errorf("%v %v", list, err)
	}
}

func TestAStopStoresWhatWasMeasuredLast(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	p := newProcess(t, d, "one")
	p.Start()
	p.requests.Observe(Request{Method: "GET", Route: "/", Status: 200})
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.lastHour(t); s.All.Requests != 1 {
		t.Errorf("%+v", s.All)
	}
	gone := newProcess(t, d, "two")
	gone.Start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gone.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop without time: %v", err)
	}
}

// A day of eight processes that answer 60 routes each.
func BenchmarkReadADay(b *testing.B) {
	d := dbtest.New(b)
	h, err := NewHistory(HistoryOptions{Areas: db.Undivided(d), Requests: NewRequests(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	var counts []RouteCounts
	for i := range 60 {
		c := RouteCounts{Method: "GET", Route: "/api/some/longer/route/" + string(rune('a'+i)), Classes: [6]uint64{2: 900, 4: 20}}
		for j := range 18 {
			c.Durations[i+j] = uint64(200 / (j + 1))
		}
		counts = append(counts, c)
	}
	if _, err := d.Direct().Exec(b.Context(), `insert into telemetry_minutes (id, instance, minute, requests, slow, process)
		select gen_random_uuid(), 'i' || i, m, $1, '[]', '{}' from generate_series($2::timestamptz, $2::timestamptz + interval '1439 min', '1 min') m, generate_series(1, 8) i`,
		pack(counts), noon.Truncate(time.Minute)); err != nil {
		b.Fatal(err)
	}
	for _, q := range []Question{{Until: noon.Add(time.Hour), Step: time.Minute}, {Until: noon.Add(24 * time.Hour), Step: 15 * time.Minute}} {
		q.Since = noon.Truncate(time.Minute)
		q.Until = q.Until.Truncate(time.Minute)
		b.Run(q.Until.Sub(q.Since).String(), func(b *testing.B) {
			for b.Loop() {
				if s, err := h.sum(b.Context(), q); err != nil || len(s.Routes) != 60 {
					b.Fatal(err, len(s.Routes))
				}
			}
		})
	}
}

// What is kept in memory of a day's earlier steps answers as the database does.
func TestADayThatIsPartlyRememberedIsTheSameAsOneReadAnew(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	one, two := newProcess(t, d, "one"), newProcess(t, d, "two")
	for i := range 40 {
		for n := range i%7 + 1 {
			one.requests.Observe(Request{Method: "GET", Route: "/b", Status: 200 + 100*(n%4), Took: time.Duration(i*n) * time.Millisecond})
		}
		one.answer(t, i, 200, time.Duration(i)*time.Millisecond)
		two.answer(t, 2, 503, time.Second)
		one.clock.pass(6 * time.Minute)
		two.clock.pass(6 * time.Minute)
		if i%5 > 0 {
			continue
		}
		for _, q := range []Question{{Step: 15 * time.Minute}, {Step: 5 * time.Minute}, {Step: 15 * time.Minute, Method: "GET", Route: "/b"}} {
			q.Until = one.clock.now().Truncate(q.Step).Add(q.Step)
			q.Since = q.Until.Add(-4 * time.Hour)
			anew := newProcess(t, d, "three")
			anew.clock.at = one.clock.now()
			want, err := anew.Read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			one.clock.pass(2 * fresh)
			got, err := one.Read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("after %d rounds, steps of %v (-anew +remembered):\n%s", i, q.Step, diff)
			}
		}
	}
	if n := len(one.settled.steps); n < 20 || n > maxSettled {
		t.Errorf("%d steps are remembered", n)
	}
	// They are used: what is gone from the database is still answered.
	if _, err := d.Single(identity.System("test")).Exec(t.Context(), `delete from telemetry_minutes`); err != nil {
		t.Fatal(err)
	}
	q := Question{Step: 15 * time.Minute, Since: noon.Truncate(time.Hour), Until: noon.Truncate(time.Hour).Add(2 * time.Hour)}
	if s, err := one.Read(t.Context(), q); err != nil || s.All.Requests == 0 {
		t.Errorf("%+v, %v", s.All, err)
	}
}
