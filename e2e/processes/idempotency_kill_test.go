package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// repeaters create things, and send each request again with its key until it is answered,
// and once more.
type repeaters struct {
	authors
	answers map[string]map[string]bool // bodies of answers, by key
}

// attempt sends one request to some process, and reports whether it was answered.
func (r *repeaters) attempt(key, path, contentType, body string) bool {
	r.mu.Lock()
	url := ""
	if len(r.urls) > 0 {
		url = r.urls[mathrand.N(len(r.urls))]
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), outside.Patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		return false
	}
	q.Header.Set("Content-Type", contentType)
	q.Header.Set("Authorization", "Bearer "+r.token)
	q.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		<-time.After(5 * time.Millisecond)
		return false
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	inFlight := strings.Contains(string(answer), `"idempotency_key_in_flight"`)
	if err != nil || res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests || inFlight {
		<-time.After(5 * time.Millisecond)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers[key] == nil {
		r.answers[key] = map[string]bool{}
	}
	r.answers[key][fmt.Sprintf("%d %s %s", res.StatusCode, res.Header.Get("Location"), answer)] = true
	return true
}

// create makes one thing by at least two requests, some of them at once.
func (r *repeaters) create(n int) {
	key := rand.Text()
	path, contentType, body := "/api/posts", "application/json", fmt.Sprintf(`{"title":"Post %s","body":"Text."}`, key)
	if n%4 == 0 {
		form, header := outside.Form("text/plain", "Notes of "+key)
		path, contentType, body = "/api/uploads", header[1], string(form)
	}
	var atOnce sync.WaitGroup
	for range 1 + mathrand.N(3) {
		atOnce.Go(func() {
			for done := 0; done < 2; {
				if r.attempt(key, path, contentType, body) {
					done++
				}
			}
		})
	}
	atOnce.Wait()
}

func TestARequestWithAKeyIsCarriedOutOnceThoughProcessesAreKilled(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	dir := t.TempDir()
	serve := func() *process {
		return startServe(t, urls.App, "WAYPOST_DATABASE_MAX_CONNS=14", "WAYPOST_UPLOAD_DIR="+dir)
	}
	processes := []*process{serve(), serve()}
	r := &repeaters{authors: authors{token: admin(t, processes[0], urls.App)}, answers: map[string]map[string]bool{}}
	r.set(processes)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					r.create(n)
				}
			}
		})
	}
	for round := range 6 {
		<-time.After(mathrand.N(500 * time.Millisecond)) // the instant is what is random
		processes[round%2].kill()
		processes[round%2] = nil
		r.set(processes)
		processes[round%2] = serve()
		r.set(processes)
	}
	close(stop)
	running.Wait()
	for key, bodies := range r.answers {
		if len(bodies) != 1 {
			t.Errorf("%s had %d answers: %v", key, len(bodies), bodies)
		}
		for body := range bodies {
			if !strings.HasPrefix(body, "20") {
				t.Errorf("%s: %s", key, body)
			}
		}
	}
	rows := countNow(t, urls.Admin, `select (select count(*) from posts) + (select count(*) from uploads where status = 'ready')`)
	if kept := countNow(t, urls.Admin, `select count(*) from idempotency_keys`); rows != len(r.answers) || kept != rows || rows < 10 {
		t.Errorf("%d keys made %d rows; %d answers are kept", len(r.answers), rows, kept)
	}
	t.Logf("%d keys", len(r.answers))
}

func TestFiftyEqualRequestsAtOnceMakeOneRow(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	r := &repeaters{authors: authors{token: admin(t, p, urls.App)}, answers: map[string]map[string]bool{}}
	r.set([]*process{p})
	var atOnce sync.WaitGroup
	for range 50 {
		atOnce.Go(func() {
			for !r.attempt("one", "/api/blogs", "application/json", `{"title":"One","content":"Text."}`) {
			}
		})
	}
	atOnce.Wait()
	if rows := countNow(t, urls.Admin, `select count(*) from blogs`); rows != 1 || len(r.answers["one"]) != 1 {
		t.Errorf("%d rows, %v", rows, r.answers)
	}
}
