package aigateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/aigateway/aitest"
	"github.com/waypost/waypost/internal/identity"
)

func TestACallIsBookedAsTheUpstreamStatesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide, one("spare", "other"), one("main", aitest.NoUsage)))
	for _, stream := range []string{"", `,"stream":true`} {
		for _, model := range []string{"fine", "other"} {
			if c, err := w.ask(t, s, model, stream); err != nil {
				t.Fatal(err, c.text())
			}
		}
	}
	c := &client{}
	if err := s.Embeddings(w.as(t.Context(), 0), []byte(`{"model":"fine","input":"text"}`), c); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ask(t, s, aitest.NoUsage, ""); err != nil {
		t.Fatal(err)
	}
	// 7 tokens at 1 and 5 at 10 for a million.
	main, spare := entry{"fine", "main", 7, 5, "0.000057", "completed", false}, entry{"other", "spare", 7, 5, "0.000057", "completed", false}
	estimated := entry{aitest.NoUsage, "main", 14, 10, "0.000114", "completed", true}
	want := []entry{main, spare, main, spare, {"fine", "main", 7, 0, "0.000007", "completed", false}, estimated}
	if diff := cmp.Diff(want, w.ledger(t)); diff != "" {
		t.Error(diff)
	}
	w.balanced(t)
}

// Fifty calls at once, on two instances, with a budget for ten.
func TestCase47ABudgetHoldsHoweverManyCallAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits string
		token  bool
		want   error
	}{
		// A call costs at most what 10 tokens of output do: input is free.
		"money":         {"{rpm: 1000, tpm: 1000000, budget: 0.01, timeout: 20s}", false, aigateway.ErrBudget},
		"of a token":    {"{rpm: 1000, tpm: 1000000, budget: 0.01, timeout: 20s}", true, aigateway.ErrBudget},
		"calls":         {"{rpm: 10, tpm: 1000000, budget: 5, timeout: 20s}", false, aigateway.ErrRate},
		"calls, tokens": {"{rpm: 10, tpm: 1000000, budget: 5, timeout: 20s}", true, aigateway.ErrRate},
		"tokens":        {"{rpm: 1000, tpm: 250, budget: 5, timeout: 20s}", false, aigateway.ErrRate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.config(c.limits, "{name: held, max_output: 10, price: {output: 100}, targets: [{upstream: main, model: slow}]}")
			// No call ends before all have asked.
			var waiting sync.WaitGroup
			waiting.Add(50)
			var asked atomic.Int32
			release := func(o *aigateway.Options) {
				o.Interrupt = func(b aigateway.Boundary) error {
					if b == aigateway.Reserved {
						asked.Add(1)
						waiting.Done()
						waiting.Wait()
					}
					return nil
				}
			}
			instances := []*aigateway.Service{w.open(t, d, release), w.open(t, d, release)}
			token := int64(0)
			if c.token {
				token = w.token
			}
			var ok, refused atomic.Int32
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					err := instances[i%2].Chat(w.as(t.Context(), token), request("held", ""), &client{})
					switch {
					case err == nil:
						ok.Add(1)
					case is(err, c.want):
						refused.Add(1)
						waiting.Done()
					default:
						t.Error(err)
						waiting.Done()
					}
				})
			}
			all.Wait()
			if ok.Load() != 10 || refused.Load() != 40 {
				t.Errorf("%d were served and %d refused, not 10 and 40", ok.Load(), refused.Load())
			}
			input, output, answers := w.upstream.Served()
			var booked struct{ Input, Output, Calls int64 }
			for _, e := range w.ledger(t) {
				booked.Input, booked.Output, booked.Calls = booked.Input+e.Input, booked.Output+e.Output, booked.Calls+1
			}
			if booked.Input != input || booked.Output != output || booked.Calls != int64(answers) {
				t.Errorf("booked: %+v; served: %d, %d in %d answers", booked, input, output, answers)
			}
			w.balanced(t)
		})
	}
}

// Whatever ends where: once the leases are over, a call is booked once, and nothing is
// reserved any more.
func TestACrashAtAnyPointIsBookedOnceAtItsWorst(t *testing.T) {
	t.Parallel()
	for _, at := range []aigateway.Boundary{aigateway.Reserved, aigateway.Answered, aigateway.Served} {
		for _, stream := range []string{"", `,"stream":true`} {
			t.Run(string(at)+stream, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				crash := errors.New("crash")
				d := w.config(wide)
				s := w.open(t, d, func(o *aigateway.Options) {
					o.Interrupt = func(b aigateway.Boundary) error {
						if b == at {
							return crash
						}
						return nil
					}
				})
				if _, err := w.ask(t, s, "fine", stream); !is(err, crash) {
					t.Fatal(err)
				}
				if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
					t.Fatalf("before the lease is over: %d, %v", n, err)
				}
				w.expire(t)
				var swept atomic.Int32
				var all sync.WaitGroup
				for _, instance := range []*aigateway.Service{s, w.open(t, d), w.open(t, d)} {
					all.Go(func() {
						n, err := instance.Sweep(context.WithoutCancel(t.Context()))
						if err != nil {
							t.Error(err)
						}
						swept.Add(int32(n))
					})
				}
				all.Wait()
				// 22 bytes of text, 4 of a role, 11 of names, and 8 for the message.
				want := []entry{{"fine", "main", 45, 10, "0.000145", "lost", true}}
				if diff := cmp.Diff(want, w.ledger(t)); diff != "" || swept.Load() != 1 {
					t.Errorf("%d were swept\n%s", swept.Load(), diff)
				}
				w.balanced(t)
			})
		}
	}
}

// expire makes every call that is on look left behind.
func (w *world) expire(t *testing.T) {
	t.Helper()
	if _, err := w.db.Single(identity.System("test")).Exec(t.Context(), `update ai_reservations set lease_until = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
}

func TestTheLeaseOfACallThatIsOnIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide, one("main", aitest.Silent)), func(o *aigateway.Options) { o.Lease = 300 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Chat(w.as(ctx, 0), request(aitest.Silent, ""), &client{}) }()
	lease := func() (until time.Time) {
		_ = w.db.Direct().QueryRow(context.WithoutCancel(t.Context()), `select lease_until from ai_reservations`).Scan(&until)
		return until
	}
	eventually(t, "a reservation", func() bool { return !lease().IsZero() })
	first := lease()
	eventually(t, "a renewal", func() bool { return lease().After(first.Add(500 * time.Millisecond)) })
	cancel()
	if err := <-ended; !is(err, aigateway.ErrGone) {
		t.Error(err)
	}
	w.balanced(t)
}

// A call whose lease was lost is booked by the sweep, and not again when it ends.
func TestACallIsBookedOnceThoughItOutlivesItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var s *aigateway.Service
	s = w.open(t, w.config(wide), func(o *aigateway.Options) {
		o.Interrupt = func(b aigateway.Boundary) error {
			if b == aigateway.Served {
				w.expire(t)
				if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
			return nil
		}
	})
	if _, err := w.ask(t, s, "fine", ""); err != nil {
		t.Fatal(err)
	}
	if got := w.ledger(t); len(got) != 1 || got[0].Outcome != "lost" {
		t.Errorf("%+v", got)
	}
	w.balanced(t)
}

func TestAMinuteAndAPeriodBeginAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var now atomic.Pointer[time.Time]
	set := func(at time.Time) { now.Store(&at) }
	set(time.Date(2026, 1, 31, 23, 58, 0, 0, time.UTC))
	s := w.open(t, w.config("{rpm: 2, tpm: 1000, budget: 0.0003, timeout: 10s}"), func(o *aigateway.Options) { o.Now = func() time.Time { return *now.Load() } })
	for i, c := range []struct {
		after     time.Duration
		want      error
		remaining int32
	}{
		{0, nil, 1}, {10 * time.Second, nil, 0}, {20 * time.Second, aigateway.ErrRate, 0},
		{30 * time.Second, nil, 1}, // the minute is over
		{0, aigateway.ErrBudget, 1},
		{time.Minute, nil, 1}, // in February
	} {
		set(now.Load().Add(c.after))
		if i == 4 { // three calls cost 0.000171; 0.000145 more could pass 0.0003
			st, err := s.Budget(t.Context(), w.user)
			if err != nil || st.Spent.String() != "0.000171" || st.Remaining().String() != "0.000129" || !st.ResetsAt.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%+v, %v", st, err)
			}
		}
		got, err := w.ask(t, s, "fine", "")
		if !is(err, c.want) || c.want == nil && err != nil || got.allow.RemainingRequests != c.remaining {
			t.Errorf("call %d: %v, %+v", i, err, got.allow)
		}
	}
	st, err := s.Budget(t.Context(), w.user)
	if err != nil || st.Spent.String() != "0.000057" {
		t.Errorf("in February: %+v, %v", st, err)
	}
	usage, err := s.Usage(t.Context(), aigateway.UsageFilter{Limit: 10}, nil)
	if err != nil || len(usage) != 2 || usage[0].Requests != 1 || usage[1].Requests != 3 || usage[1].Cost.String() != "0.000171" {
		t.Errorf("%+v, %v", usage, err)
	}
}

func TestAnotherPeriodIsCountedFromTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	clock := func(o *aigateway.Options) { o.Now = func() time.Time { return at } }
	monthly, daily := w.open(t, w.config(wide), clock), w.open(t, w.config("{rpm: 1000, tpm: 1000000, period: day, timeout: 10s}"), clock)
	spent := func(s *aigateway.Service) string {
		t.Helper()
		st, err := s.Budget(t.Context(), w.user)
		if err != nil {
			t.Fatal(err)
		}
		return st.Spent.String()
	}
	for _, s := range []*aigateway.Service{monthly, daily} {
		if _, err := w.ask(t, s, "fine", ""); err != nil {
			t.Fatal(err)
		}
	}
	at = at.AddDate(0, 0, 1)
	for i, s := range []*aigateway.Service{daily, monthly, daily} {
		if _, err := w.ask(t, s, "fine", ""); err != nil {
			t.Fatal(err)
		}
		if day, month := spent(daily), spent(monthly); day != fmt.Sprintf("0.%06d", 57*(i+1)) || month != fmt.Sprintf("0.%06d", 57*(i+3)) {
			t.Errorf("after %d calls: %s in the day, %s in the month", i+1, day, month)
		}
	}
}

func TestATokenCountsForItsOwnerAndForItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config("{rpm: 3, tpm: 100000, timeout: 10s}"))
	call := func(token int64) error { return s.Chat(w.as(t.Context(), token), request("fine", ""), &client{}) }
	if err := errors.Join(call(w.token), call(0), call(w.token)); err != nil {
		t.Fatal(err)
	}
	for _, token := range []int64{0, w.token} {
		if err := call(token); !is(err, aigateway.ErrRate) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	var of, its int
	if err := w.db.Direct().QueryRow(t.Context(), `select (select requests from ai_meters where token_id = 0), (select requests from ai_meters where token_id = $1)`, w.token).Scan(&of, &its); err != nil || of != 3 || its != 2 {
		t.Errorf("%v: %d and %d", err, of, its)
	}
	w.balanced(t)
}

func TestAnAdministratorSetsABudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(t, w.config(wide))
	ctx := identity.NewContext(t.Context(), identity.System("test"))
	zero, some := aigateway.Money(0), aigateway.Money(1_000_000_000)
	for _, c := range []struct {
		budget *aigateway.Money
		want   error
	}{{&zero, aigateway.ErrBudget}, {&some, nil}, {nil, nil}} {
		if _, err := s.SetBudget(ctx, w.user, c.budget); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ask(t, s, "fine", ""); !is(err, c.want) {
			t.Errorf("%v: %v", c.budget, err)
		}
	}
	for _, b := range []*aigateway.Money{&zero, nil} {
		if _, err := s.SetBudget(ctx, 999, b); !is(err, aigateway.ErrNoUser) {
			t.Errorf("%v", err)
		}
	}
	if st, err := s.SetBudget(ctx, w.user, &zero); err != nil || st.Remaining() != 0 || !st.Own {
		t.Errorf("%+v, %v", st, err)
	}
}
