package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// receiving is a target that knows which events it has taken.
type receiving struct {
	*target
	mu   sync.Mutex
	took map[string]int
}

// newReceiving refuses what refuses says.
func newReceiving(t *testing.T, refuses func() bool) *receiving {
	s := &receiving{took: map[string]int{}}
	s.target = newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if refuses() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.took[r.Header.Get("Webhook-Id")]++
	})
	return s
}

func (s *receiving) has(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took[event] > 0
}

func TestEachOfManyTargetsGetsEveryEventWhateverIsKilledAndWhicheverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var down atomic.Bool
	down.Store(true)
	targets := map[string]*receiving{
		"steady": newReceiving(t, func() bool { return false }),
		"shaky":  newReceiving(t, func() bool { return rand.N(4) == 0 }),
		"down":   newReceiving(t, down.Load),
	}
	var list []string
	for name, s := range targets {
		list = append(list, name+"="+s.URL)
	}
	start := func() *process { return w.start(t, envTargets+"="+strings.Join(list, ",")) }
	instances := []*process{start(), start()}
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					w.deliver(t, kindMany, fmt.Sprintf("%s-%d-%d", kindMany, s, i))
				}
			}
		})
	}
	for range 10 {
		<-time.After(rand.N(300 * time.Millisecond)) // the instant is what is random
		i := rand.N(len(instances))
		w.gone(instances[i])
		instances[i].kill()
		instances[i] = start()
	}
	close(stop)
	senders.Wait()

	waiting := func(target string) int {
		return w.f.count(t, `select count(*) from webhook_forwards where target = $1 and status <> 'processed'`, target)
	}
	if !within(4*patience, func() bool { return waiting("steady")+waiting("shaky") == 0 }) {
		t.Fatalf("%d wait for the steady target, %d for the shaky one", waiting("steady"), waiting("shaky"))
	}
	// One that fails all the time has changed nothing of the others, and lost nothing.
	if n := w.f.count(t, `select count(*) from webhook_targets where name in ('steady', 'shaky') and (opened_at is not null or paused_at is not null)`); n != 0 {
		t.Errorf("%d targets are left alone beside the one that fails", n)
	}
	if n := w.f.count(t, `select (select count(*) from webhook_forwards where target = 'steady' and error <> '') + (select count(*) from webhook_attempts where target = 'steady' and outcome = 'failed')`); n != 0 {
		t.Errorf("%d attempts at the steady target have failed", n)
	}
	if n, all := waiting("down"), len(w.acknowledged); n < all {
		t.Errorf("%d of at least %d events wait for the target that is down, or have failed there", n, all)
	}
	if n := w.f.count(t, `select count(*) from webhook_events where status = 'processed'`); n != 0 {
		t.Errorf("%d events are processed that a target has not", n)
	}
	down.Store(false)
	again := func(sql string) {
		t.Helper()
		var err error
		if !within(patience, func() bool { _, err = w.f.admin.Exec(t.Context(), sql); return err == nil }) { // claims lock the same rows in an order of their own
			t.Fatal(err)
		}
	}
	again(`update webhook_targets set failures = 0, opened_at = null, probe_at = null, probes = 0 where name = 'down'`)
	again(`update webhook_forwards set status = 'pending', due_at = now(), settled_at = null where target = 'down' and status = 'failed'`)
	again(`update webhook_forwards set due_at = now() where status = 'pending' and lease_id is null`)
	again(`update webhook_events set status = 'pending', lease_until = 'infinity', processed_at = null where status = 'failed'`)
	if !within(4*patience, func() bool {
		return w.f.count(t, `select count(*) from webhook_events where status <> 'processed'`) == 0
	}) {
		t.Fatalf("%d events wait for the target that was down", waiting("down"))
	}
	for name, s := range targets {
		for id, event := range w.acknowledged {
			if !s.has(event.String()) {
				t.Errorf("%s was acknowledged and never reached %s", id, name)
			}
		}
	}
	t.Logf("%d events acknowledged; attempts made in all: %d", len(w.acknowledged), w.f.count(t, `select sum(attempts) from webhook_forwards`))
}
