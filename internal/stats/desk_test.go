package stats

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/hit"
)

func sleep(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "select pg_sleep(3600)")
	return err
}

func TestAnAnswerThatTakesTooLongIsTooExpensive(t *testing.T) {
	t.Parallel()
	d, err := newDesk(dbtest.New(t), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = d.serve(t.Context(), uuid.New(), 20*time.Millisecond, sleep)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Invalid || f.Code != "query_too_expensive" {
		t.Errorf("got %v", err)
	}
	if err := d.serve(t.Context(), uuid.New(), time.Minute, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Errorf("the place was not given back: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.serve(ctx, uuid.New(), time.Minute, sleep); err == nil || errors.Is(err, ErrTooExpensive) {
		t.Errorf("who asked has left, so nobody knows what the answer costs: %v", err)
	}
}

func TestASlowSiteLeavesAPlaceToTheOthers(t *testing.T) {
	t.Parallel()
	d, err := newDesk(dbtest.New(t), 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	slow, began := uuid.New(), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.serve(ctx, slow, time.Minute, func(ctx context.Context, tx pgx.Tx) error {
			close(began)
			return sleep(ctx, tx)
		})
	}()
	<-began
	if err := d.serve(t.Context(), slow, time.Minute, sleep); !errors.Is(err, fairqueue.ErrBusy) {
		t.Errorf("the same site's next question: %v", err)
	}
	if err := d.serve(t.Context(), uuid.New(), time.Minute, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Errorf("another site's question: %v", err)
	}
	if u := d.db.Usage(); u.Refused != 1 || u.Waiting != 0 {
		t.Errorf("one was refused, and nobody waits: %+v", u)
	}
	cancel()
	<-ended
}

// An answer is the same whoever makes it, and only one that reads many events
// needs a connection of those that are kept for these.
func TestOnlyAnswersOfManyEventsNeedTheirConnections(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)
	b := newBench(t, "UTC", now)
	for n := range 40 {
		b.clock.set(now.Add(time.Duration(n-50) * time.Minute))
		if err := b.ingester.Collect(t.Context(), b.site, aHit(func(h *hit.Hit) { h.URL = fmt.Sprintf("https://example.com/%d", n%7) })); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.set(now)
	r, err := NewRollups(RollupsOptions{DB: b.db, Sites: b.sites, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.FoldBusy(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A pool of one connection on the same database.
	apart, err := db.Open(t.Context(), db.Options{URL: b.db.Pool().Config().ConnString(), MaxConns: 1, MaxWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(apart.Close)
	service := func(maxEvents int64) *Service {
		s, err := NewService(ServiceOptions{DB: b.db, EventsDB: apart, MaxEvents: maxEvents, Now: b.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	whole := Query{SiteID: b.site.ID, Zones: calendar.Always(time.UTC), Limit: 50, From: "2024-05-31", To: "2024-05-31"}
	part := whole
	part.From, part.To = "2024-05-31T11:20:30Z", "2024-05-31T11:50:00Z"
	filtered := whole
	filtered.Filters = Filters{FilterPath: {"/1"}}
	free := service(1)
	want := map[string][]Row{}
	for name, q := range map[string]Query{"whole": whole, "part": part, "filtered": filtered} {
		rows, err := free.Breakdowns(t.Context(), q, ByPage)
		if err != nil || len(rows[ByPage].Rows) == 0 {
			t.Fatalf("%s: %v, %v", name, rows, err)
		}
		want[name] = rows[ByPage].Rows
	}
	conn, err := apart.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	for _, c := range []struct {
		name      string
		maxEvents int64
		query     Query
		busy      bool
	}{
		{"whole", 1, whole, false},
		{"part", 1, part, true},
		{"part", 2000, part, false},
		{"filtered", 2000, filtered, true},
	} {
		rows, err := service(c.maxEvents).Breakdowns(t.Context(), c.query, ByPage)
		if c.busy {
			if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.CodeBusy {
				t.Errorf("%s with at most %d events: %v", c.name, c.maxEvents, err)
			}
			continue
		}
		if diff := cmp.Diff(want[c.name], rows[ByPage].Rows); diff != "" || err != nil {
			t.Errorf("%s with at most %d events: %v %s", c.name, c.maxEvents, err, diff)
		}
	}
}
