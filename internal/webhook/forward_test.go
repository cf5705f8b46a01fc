package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

const forwardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// target is an operator's service: it answers as told and keeps what it was sent.
type target struct {
	*httptest.Server
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []*http.Request
	bodies   []string
}

func newTarget(t *testing.T, answer http.HandlerFunc) *target {
	t.Helper()
	s := &target{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *target) answers(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (f fixture) forwarding(t *testing.T, to string, secrets map[string]string, retry webhook.Retry) *faces {
	t.Helper()
	binding, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", URL: to, SecretEnv: "FORWARD_SECRET"}, webhook.ForwardOptions{
		LookupSecret: func(name string) string { return secrets[name] }, Retry: retry, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.receiver(t, setup{bindings: []webhook.Binding{binding}, change: func(o *webhook.Options) { o.Budget = patience }})
}

func TestAForwardedEventIsSignedAndProcessedOnceTheTargetAnswers2xx(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusServiceUnavailable))
	secrets := map[string]string{}
	r := f.forwarding(t, to.URL+"/in?token=hidden", secrets, webhook.Retry{})
	const data = `{"n" : 9007199254740993, "id":"evt/1\n", "type":"zahlung ü"}`
	got := mustReceive(t, r, signed(t, "payment", "zahlung ü", "evt/1\n", data))
	if got.Status != webhook.Pending {
		t.Errorf("answered %s", got.Status)
	}
	f.workJobs(t, r) // without a secret nothing leaves
	if len(to.requests) != 0 {
		t.Fatalf("%d requests without a secret", len(to.requests))
	}
	secrets["FORWARD_SECRET"] = forwardSecret
	f.workJobs(t, r)
	to.answers(status(http.StatusNoContent))
	f.workJobs(t, r)
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed || rec.HandlerError != "" {
		t.Errorf("in the end %+v", rec)
	}
	if got := attempts(t, r, got.ID); got != "failed failed processed" {
		t.Errorf("ledger: %s", got)
	}
	if len(to.requests) != 2 {
		t.Fatalf("%d requests", len(to.requests))
	}
	for i, q := range to.requests {
		if to.bodies[i] != data || q.Method != http.MethodPost || q.URL.String() != "/in?token=hidden" {
			t.Errorf("%s %s: %s", q.Method, q.URL, to.bodies[i])
		}
		if err := (signature.Standard{}).Verify([]byte(forwardSecret), []byte(to.bodies[i]), q.Header, time.Now()); err != nil {
			t.Errorf("signature: %v", err)
		}
		if q.Header.Get("Webhook-Id") != got.ID.String() || q.Header.Get("Content-Type") != "application/json" || q.Header.Get("Waypost-Provider") != "payment" {
			t.Errorf("headers %v", q.Header)
		}
		if kind, err := url.PathUnescape(q.Header.Get("Waypost-Event-Type")); err != nil || kind != "zahlung ü" {
			t.Errorf("type %q, %v", kind, err)
		}
		if id, err := url.PathUnescape(q.Header.Get("Waypost-External-Id")); err != nil || id != "evt/1\n" {
			t.Errorf("external id %q, %v", id, err)
		}
	}
}

func TestAForwardWhoseAttemptsAreSpentIsADeadLetterThatCanBeReplayed(t *testing.T) {
	t.Parallel()
	elsewhere := newTarget(t, status(http.StatusOK))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
	}{
		"refusal": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such account \xff\x00", http.StatusGone)
		}, "the target answered 410: no such account"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "the target answered 307"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for range 1 << 10 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		}, "the target answered 500: xxx"},
		"hang-up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "forward: EOF"},
		"broken body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "half")
		}, "the target answered 502, and its body broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			to := newTarget(t, c.answer)
			r := f.forwarding(t, to.URL+"/in?token=hidden", map[string]string{"FORWARD_SECRET": forwardSecret}, webhook.Retry{Attempts: 2})
			got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			f.workJobs(t, r)
			if rec := mustFind(t, r, got.ID); rec.Status != webhook.Pending {
				t.Errorf("after one attempt %s", rec.Status)
			}
			f.workJobs(t, r)
			rec := mustFind(t, r, got.ID)
			if rec.Status != webhook.Failed || !strings.Contains(rec.HandlerError, c.text) || len(rec.HandlerError) > 1000 {
				t.Errorf("dead: %s, %q", rec.Status, rec.HandlerError)
			}
			if strings.Contains(rec.HandlerError, "hidden") {
				t.Errorf("the target's URL shows in %q", rec.HandlerError)
			}
			if n := f.workJobs(t, r); n != 0 {
				t.Errorf("%d jobs of a dead letter", n)
			}
			to.answers(status(http.StatusOK))
			if rec, err := r.Replay(t.Context(), got.ID, false); err != nil || rec.Status != webhook.Pending {
				t.Errorf("replay: %+v, %v", rec, err)
			}
			f.workJobs(t, r)
			if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed || rec.RetryCount != 1 {
				t.Errorf("replayed: %+v", rec)
			}
			if got := attempts(t, r, got.ID); got != "failed failed processed" {
				t.Errorf("ledger: %s", got)
			}
		})
	}
	if len(elsewhere.requests) != 0 {
		t.Errorf("the redirect was followed")
	}
}

func TestATargetMayAskToWaitLongerThanTheBackoff(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"7200": 2 * time.Hour, "999999999": 24 * time.Hour, "soon": time.Minute, "": time.Minute, "1": time.Minute, "-5": time.Minute} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			to := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			r := f.forwarding(t, to.URL, map[string]string{"FORWARD_SECRET": forwardSecret}, webhook.Retry{
				Attempts: 2, Backoff: func(int) time.Duration { return time.Minute },
			})
			mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			f.workJobs(t, r)
			wait := f.count(t, `select extract(epoch from due_at - attempt_at)::int from webhook_forwards where status = 'pending'`)
			if off := time.Duration(wait)*time.Second - want; off < -time.Minute/2 || off > time.Minute/2 {
				t.Errorf("waits %d s, want %v", wait, want)
			}
		})
	}
}

func TestAForwardWithoutAProperTargetIsRefused(t *testing.T) {
	t.Parallel()
	lookup := func(string) string { return "" }
	for name, c := range map[string]struct {
		target webhook.ForwardTarget
		lookup func(string) string
	}{
		"no url":     {webhook.ForwardTarget{Provider: "p", SecretEnv: "S"}, lookup},
		"not http":   {webhook.ForwardTarget{Provider: "p", URL: "file:///etc/passwd", SecretEnv: "S"}, lookup},
		"no secret":  {webhook.ForwardTarget{Provider: "p", URL: "http://localhost"}, lookup},
		"no look-up": {webhook.ForwardTarget{Provider: "p", URL: "http://localhost", SecretEnv: "S"}, nil},
	} {
		if _, err := webhook.Forward(c.target, webhook.ForwardOptions{LookupSecret: c.lookup}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()}, webhook.Binding{Provider: "payment", Handler: failing, Retry: webhook.Retry{Attempts: 101}})
	if err == nil {
		t.Errorf("101 attempts are accepted: %v", registry)
	}
	f := newFixture(t)
	if registry, err = webhook.NewRegistry([]webhook.Registration{webhook.Payment()}); err != nil {
		t.Fatal(err)
	}
	_, err = newFaces(webhook.Options{DB: f.db, Registry: registry, Logger: discard, LookupSecret: lookup})
	if err == nil || errors.Is(err, webhook.ErrStorage) {
		t.Errorf("a receiver without a queue: %v", err)
	}
}

func TestAForwardIsStoredWithItsEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	binding, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", EventType: "paid", URL: to.URL, SecretEnv: "FORWARD_SECRET"},
		webhook.ForwardOptions{LookupSecret: func(string) string { return forwardSecret }})
	if err != nil {
		t.Fatal(err)
	}
	crashing := f.receiver(t, setup{bindings: []webhook.Binding{binding}, change: crashAt(webhook.AfterStore)})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	if _, err := crashing.Receive(t.Context(), in); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r := f.receiver(t, setup{bindings: []webhook.Binding{binding}})
	if n := f.workJobs(t, r); n != 1 {
		t.Errorf("%d attempts after a crash right behind the store", n)
	}
	again := mustReceive(t, r, in)
	if rec := mustFind(t, r, again.ID); again.Status != webhook.Skipped || rec.Status != webhook.Processed {
		t.Errorf("again %s, and the event is %s", again.Status, rec.Status)
	}
	if got := attempts(t, r, again.ID); got != "processed" {
		t.Errorf("ledger: %s", got)
	}
}

func TestAHundredConcurrentDuplicatesOfAForwardAreOneForward(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	r := f.forwarding(t, to.URL, map[string]string{"FORWARD_SECRET": forwardSecret}, webhook.Retry{})
	in := signed(t, "payment", "paid", "evt_1", `{}`)
	var mu sync.Mutex
	answers := map[webhook.Status]int{}
	var senders sync.WaitGroup
	for range 100 {
		senders.Go(func() {
			got, err := r.Receive(t.Context(), in)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[got.Status]++
		})
	}
	senders.Wait()
	if diff := cmp.Diff(map[webhook.Status]int{webhook.Pending: 1, webhook.Skipped: 99}, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := f.count(t, `select count(*) from webhook_forwards`); n != 1 {
		t.Errorf("%d forwards", n)
	}
	f.workJobs(t, r)
	if len(to.requests) != 1 {
		t.Errorf("%d requests to the target", len(to.requests))
	}
}

// FuzzRetryAfter checks that no answer of a target has it wait for less than nothing or for
// more than a day.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("4294967295")
	f.Add("-1")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT")
	f.Add("Mon, 01 Jan 0001 00:00:00 GMT")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if wait, ok := webhook.RetryAfter(value, now); wait < 0 || wait > 24*time.Hour || !ok && wait != 0 {
			t.Fatalf("%q: %v, %v", value, wait, ok)
		}
	})
}
