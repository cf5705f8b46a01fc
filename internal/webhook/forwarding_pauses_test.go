package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

func TestATargetThatKeepsFailingIsProbedAndSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusServiceUnavailable))
	var log logged
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{URL: s.URL, Concurrency: 2})}, change: log.into})
	for i := range 30 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
	}
	for range 5 {
		f.forward(t, r)
	}
	opened := s.got()
	if opened < 10 || opened > 14 {
		t.Errorf("%d attempts until the target was left alone", opened)
	}
	spent := f.count(t, `select sum(tries) from webhook_forwards`)
	for range 10 { // probes
		f.exec(t, `update webhook_targets set probe_at = now()`)
		if n := f.forward(t, r); n != 1 {
			t.Errorf("%d attempts at once while it is probed", n)
		}
	}
	if n := f.count(t, `select sum(tries) from webhook_forwards`); n != spent || s.got() != opened+10 {
		t.Errorf("the probes spent %d attempts", n-spent)
	}
	list, err := r.Targets(t.Context())
	if err != nil || len(list) != 1 || list[0].Condition != webhook.TargetFailing || list[0].Waiting != 30 || list[0].ProbedAt == nil {
		t.Errorf("%+v, %v", list, err)
	}
	s.answers(status(http.StatusOK))
	f.exec(t, `update webhook_targets set probe_at = now()`)
	f.forward(t, r)
	f.forward(t, r)
	if n := f.count(t, `select count(*) from webhook_events where status = 'processed'`); n != 30 {
		t.Errorf("%d of 30 processed once it answers again; the log says %s", n, strings.Join(log.lines(), "\n"))
	}
	list, err = r.Targets(t.Context())
	if err != nil || len(list) != 1 || list[0].Condition != webhook.TargetWorks || list[0].Waiting != 0 || list[0].Failures != 0 || list[0].Oldest != nil {
		t.Errorf("%+v, %v", list, err)
	}
	lines := strings.Join(log.lines(), "\n")
	if strings.Count(lines, "keeps failing") != 1 || strings.Count(lines, "answers again") != 1 {
		t.Errorf("the log says %s", lines)
	}
}

func TestAnAttemptThatFailsWhileAnotherOpensTheBreakerIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	s := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var log logged
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{URL: s.URL})}, change: log.into})
	mustReceive(t, r, signed(t, "payment", "paid", eventID(1), `{}`))
	done := make(chan error, 1)
	go func() {
		_, err := r.ForwardDue(t.Context())
		done <- err
	}()
	<-asked
	f.exec(t, `update webhook_targets set failures = 9`)
	tx, err := f.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `update webhook_targets set failures = 10, opened_at = now(), probe_at = now() + interval '5 seconds'`); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if !within(patience, func() bool {
		return f.count(t, `select count(*) from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.datname = current_database()`) > 0
	}) {
		t.Error("nobody waits for the target's row")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := f.count(t, `select count(*) from webhook_targets where failures = 11 and opened_at is not null`); n != 1 {
		t.Error("the failure is not counted")
	}
	if n := f.count(t, `select count(*) from webhook_forwards where lease_id is null and tries = 1`); n != 1 {
		t.Errorf("the attempt is not recorded; the log says %s", strings.Join(log.lines(), "\n"))
	}
}

func TestASuccessEndsARowOfFailuresOfATarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusOK))
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{URL: s.URL})}})
	for i := range 30 {
		s.answers(status([]int{http.StatusOK, http.StatusServiceUnavailable}[i%2]))
		mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
		due(t, r)
	}
	if n := f.count(t, `select failures from webhook_targets where opened_at is null`); n != 1 {
		t.Errorf("%d failures in a row", n)
	}
}

func TestAPausedTargetGetsNothingAndSpendsNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, other := newTarget(t, status(http.StatusOK)), newTarget(t, status(http.StatusOK))
	r := f.receiver(t, setup{bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{Name: "a", URL: s.URL}, webhook.ForwardTarget{Name: "b", URL: other.URL})}})
	announce(t, r)
	for range 2 {
		got, err := r.PauseTarget(t.Context(), "payment", "a")
		if err != nil || got.Condition != webhook.TargetPaused || got.PausedAt == nil || got.Here == nil || got.Here.Timeout != 15*time.Second {
			t.Errorf("%+v, %v", got, err)
		}
	}
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	for range 3 {
		f.forward(t, r)
	}
	if s.got() != 0 || other.got() != 1 || outcomes(t, r, got.ID) != "a pending 0, b processed 1" {
		t.Errorf("%d and %d requests: %s", s.got(), other.got(), outcomes(t, r, got.ID))
	}
	if got, err := r.ResumeTarget(t.Context(), "payment", "a"); err != nil || got.Condition != webhook.TargetWorks || got.Waiting != 1 || got.Due != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	due(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed {
		t.Errorf("%+v", rec)
	}
	for _, name := range []string{"c", "", "\x00", "\xff"} {
		if _, err := r.PauseTarget(t.Context(), "payment", name); !errors.Is(err, webhook.ErrTarget) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
