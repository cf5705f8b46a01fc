package webhook_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// storeAt stores n events of payment that came at a time.
func (f fixture) storeAt(t *testing.T, at time.Time, n int, status string, attempts int) {
	t.Helper()
	_, err := f.db.Single(identity.System("test")).Exec(t.Context(), `
		insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at, raw, raw_sha256, headers, attempts)
		select gen_random_uuid(), 'payment', 'paid', '', $1, $2, $2::timestamptz + i * interval '1 ms', '{}', sha256('{}'), '{}', $4
		from generate_series(1, $3::int) i`, status, at, n, attempts)
	if err != nil {
		t.Fatal(err)
	}
}

func TestAProvidersTotalsStayRightWhileEventsComeAndTimePasses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.Now = func() time.Time { return now } }})
	look := func() [4]int64 {
		t.Helper()
		list, err := r.ProviderStates(t.Context(), "codehost", 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return [4]int64{list[0].Processed, list[0].Failed, list[0].Pending, list[0].FailureStreak}
	}
	for i, step := range []struct {
		passed time.Duration
		older  time.Duration // how long ago the events came
		n      int
		status string
		want   [4]int64
	}{
		{0, 0, 0, "processed", [4]int64{}},
		{0, 3 * time.Hour, 40, "processed", [4]int64{}}, // by a clock that was far behind: not before they are counted anew
		{25 * time.Hour, 0, 3, "failed", [4]int64{40, 3, 0, 3}},
		{30 * time.Minute, 0, 2, "processed", [4]int64{42, 3, 0, 0}},
		{0, 45 * time.Minute, 1, "processed", [4]int64{43, 3, 0, 0}}, // late, but within the hour
		{2 * time.Hour, 0, 1, "failed", [4]int64{43, 4, 0, 1}},
		{2 * time.Hour, 0, 0, "processed", [4]int64{43, 4, 0, 1}},
		{2 * time.Hour, time.Minute, 5, "processed", [4]int64{48, 4, 0, 0}},
		{30 * time.Hour, 0, 0, "processed", [4]int64{48, 4, 0, 0}},
	} {
		now = now.Add(step.passed)
		f.storeAt(t, now.Add(-step.older), step.n, step.status, 1)
		if diff := cmp.Diff(step.want, look()); diff != "" {
			t.Errorf("step %d: processed, failed, pending, streak (-want +got):\n%s", i, diff)
		}
	}
}

func TestAStreakIsLookedForAmongAProvidersNewestEventsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	streak := func() string {
		t.Helper()
		list, err := r.ProviderStates(t.Context(), "codehost", 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return fmt.Sprint(list[0].FailureStreak)
	}
	begin := time.Now().Add(-time.Hour)
	f.storeAt(t, begin, 1, "processed", 1)
	f.storeAt(t, begin.Add(time.Minute), 7, "failed", 1)
	// Its handler was taken away: these are kept without one, and say nothing.
	f.storeAt(t, begin.Add(2*time.Minute), 1_000, "processed", 0)
	if got := streak(); got != "7" {
		t.Errorf("among the newest 2,000: %s", got)
	}
	f.storeAt(t, begin.Add(3*time.Minute), 995, "processed", 0)
	if got := streak(); got != "5" {
		t.Errorf("when 5 failures are among the newest 2,000: %s", got)
	}
	f.storeAt(t, begin.Add(4*time.Minute), 5, "processed", 0)
	if got := streak(); got != "0" {
		t.Errorf("when none is: %s", got)
	}
	f.storeAt(t, begin.Add(5*time.Minute), 1, "failed", 1)
	if got := streak(); got != "1" {
		t.Errorf("a new failure: %s", got)
	}
}
