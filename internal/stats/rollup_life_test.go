package stats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// placesOf are the places of labels that folding wrote of a site's open days, which a
// version that doesn't know them leaves as they are.
func (b *bench) placesOf(siteID uuid.UUID) []dbsqlc.RollupCount {
	b.t.Helper()
	rows, err := b.db.Pool().Query(context.Background(), `select * from rollup_counts where site_id = $1 and part = $2`, siteID, placesPart)
	if err != nil {
		b.t.Fatal(err)
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.RollupCount])
	if err != nil {
		b.t.Fatal(err)
	}
	return places
}

func (b *bench) setPlaces(siteID uuid.UUID, places []dbsqlc.RollupCount) {
	b.t.Helper()
	if _, err := b.db.Pool().Exec(context.Background(), `delete from rollup_counts where site_id = $1 and part = $2`, siteID, placesPart); err != nil {
		b.t.Fatal(err)
	}
	for _, p := range places {
		if _, err := b.db.Pool().Exec(context.Background(), `insert into rollup_counts values ($1, $2, $3, $4, $5, $6)`, p.SiteID, p.Dimension, p.Part, p.Level, p.FirstDay, p.Counts); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestAnswersAreExactWhateverTheDaysGoThrough lets traffic arrive in any order
// while days are folded, sealed, made dirty and sealed again, with crashes at any step,
// and holds the rollups' answers against those of the events after each.
func TestAnswersAreExactWhateverTheDaysGoThrough(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC))
	all, _ := someTraffic(t, b.site.Zone, 21, 6, 12)
	rapid.Check(t, func(rt *rapid.T) {
		s, err := b.sites.Create(t.Context(), "Example", "example.com", "America/New_York")
		if err != nil {
			rt.Fatal(err)
		}
		hits := rapid.Permutation(all).Draw(rt, "arrival")
		labelCap := rapid.SampledFrom([]int{3, 1000}).Draw(rt, "cap")
		for range rapid.IntRange(2, 9).Draw(rt, "acts") {
			// Early, all days are open; late, all are due.
			now := rapid.SampledFrom([]time.Time{time.Date(2024, 11, 3, 12, 0, 0, 0, time.UTC), time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)}).Draw(rt, "now")
			o := RollupsOptions{LabelCap: labelCap, Now: func() time.Time { return now }}
			if rapid.Bool().Draw(rt, "crashes") {
				o.Interrupt = crashAt(rapid.IntRange(1, 8).Draw(rt, "at boundary"))
			}
			r := b.rollups(o)
			acts := []string{"arrive", "arrive", "fold", "fold by an older version", "seal", "seal again", "labels of an older version", "trim labels"}
			switch act := rapid.SampledFrom(acts).Draw(rt, "act"); act {
			case "arrive":
				n := min(len(hits), rapid.IntRange(1, 150).Draw(rt, "hits"))
				err = b.importHits(b.importer, s, hits[:n]...)
				hits = hits[n:]
			case "fold":
				_, err = r.FoldBusy(t.Context())
			case "fold by an older version":
				places := b.placesOf(s.ID)
				_, err = r.FoldBusy(t.Context())
				b.setPlaces(s.ID, places)
			case "seal":
				_, err = r.SealDue(t.Context())
			case "seal again":
				day := time.Date(2024, 10, rapid.IntRange(30, 37).Draw(rt, "day"), 0, 0, 0, 0, time.UTC)
				err = r.SealAgain(t.Context(), s.ID, day)
			case "labels of an older version":
				b.keepLabels(s.ID)
				err = b.internPaths(t.Context(), r, s.ID, all)
			case "trim labels":
				if err = b.dueForTrim(t.Context(), s.ID); err == nil {
					_, err = r.TrimLabels(t.Context())
				}
			}
			if err != nil && !errors.Is(err, errCrash) {
				rt.Fatal(err)
			}
			b.checkSnapshot(t.Context(), rt, randomWindow(rt, s.ID, s.Zone), labelCap)
		}
	})
}

func randomWindow(t *rapid.T, site uuid.UUID, zone *time.Location) Query {
	day := func(name string) string {
		return fmt.Sprintf("2024-%02d-%02d", 11, rapid.IntRange(1, 6).Draw(t, name))
	}
	q := Query{SiteID: site, Zones: calendar.Always(zone), From: "2024-10-30", To: "2024-11-08"}
	switch rapid.IntRange(0, 3).Draw(t, "window") {
	case 0:
		q.From = day("from") + "T0" + fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "hour")) + ":00:01Z"
	case 1:
		q.To = day("to") + "T13:30:00Z"
	case 2:
		q.From, q.To = "2024-11-02", "2024-11-05"
	}
	return q
}

// TestAnswersAreExactWhileEverybodyWrites has two instances collect, fold and seal
// at the same time while answers are asked for.
func TestAnswersAreExactWhileEverybodyWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t, "America/New_York", time.Date(2024, 11, 4, 12, 0, 0, 0, time.UTC))
	hits, _ := someTraffic(t, b.site.Zone, 22, 6, 40)
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
	late := func() time.Time { return time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC) }

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers, others sync.WaitGroup
	failures := make(chan error, 64)
	for part := range 4 {
		writers.Go(func() {
			// Each has a clock of its own, since hits are of the instant of their call.
			clock := &testClock{}
			own := b.ingesterAt(clock.now)
			for i := part; i < len(hits); i += 4 {
				clock.set(hits[i].At)
				if err := own.Collect(ctx, b.site, hits[i]); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for _, r := range []*Rollups{b.rollups(RollupsOptions{}), b.rollups(RollupsOptions{Now: late}), b.rollups(RollupsOptions{}), b.rollups(RollupsOptions{Now: late})} {
		others.Go(func() {
			for ctx.Err() == nil {
				_, fold := r.FoldBusy(ctx)
				_, seal := r.SealDue(ctx)
				if err := errors.Join(fold, seal); err != nil && ctx.Err() == nil {
					failures <- err
					return
				}
			}
		})
	}
	// Labels that nothing has, or nothing yet, and an instance that lets go of them.
	trimmed := 0
	others.Go(func() {
		for r := b.rollups(RollupsOptions{}); ctx.Err() == nil; {
			err := errors.Join(b.internPaths(ctx, r, b.site.ID, hits), b.dueForTrim(ctx, b.site.ID))
			n, trim := r.TrimLabels(ctx)
			trimmed += n
			if err := errors.Join(err, trim); err != nil && ctx.Err() == nil {
				failures <- err
				return
			}
		}
	})
	q := Query{SiteID: b.site.ID, Zones: calendar.Always(b.site.Zone), From: "2024-10-30", To: "2024-11-08"}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for asked := 0; ; asked++ {
		b.checkSnapshot(t.Context(), t, q, 0)
		select {
		case err := <-failures:
			t.Fatal(err)
		case <-done:
			stop()
			others.Wait()
			b.checkSnapshot(t.Context(), t, q, 0)
			if n := b.int(`select count(*) from events where site_id = $1`, b.site.ID); n == 0 || asked == 0 || trimmed == 0 {
				t.Errorf("%d events, %d answers, %d labels let go: the test shows little", n, asked, trimmed)
			}
			return
		default:
		}
	}
}
