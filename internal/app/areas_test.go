package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// divided is a service whose connections are divided among its areas, as in production.
type divided struct {
	urls   dbtest.URLs
	areas  db.Areas
	server *httptest.Server
	admin  *pgx.Conn // reaches behind the service's back
}

func serveDivided(t *testing.T, conns int32, variables ...string) divided {
	t.Helper()
	d := divided{urls: dbtest.NewURL(t)}
	var err error
	if d.areas, err = db.OpenAreas(t.Context(), db.Options{URL: d.urls.App, MaxConns: conns}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.areas.Close)
	a, err := app.New(t.Context(), app.Options{
		Config: configured(t, variables...), Areas: d.areas, Logger: slog.New(slog.DiscardHandler),
		LookupSecret: func(string) string { return secret },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	d.server = httptest.NewServer(a.Handler())
	t.Cleanup(d.server.Close)
	if d.admin, err = pgx.Connect(t.Context(), d.urls.Admin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.admin.Close(t.Context()) })
	return d
}

// ask returns the status of an answer and the code of its error.
func (d divided) ask(t *testing.T, method, path, body string, header ...string) string {
	r, err := http.NewRequestWithContext(t.Context(), method, d.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := d.server.Client().Do(r)
	if err != nil {
		t.Error(err)
		return "nothing"
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	var e struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal(b, &e)
	return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", e.Error.Code))
}

// atOnce asks n times at the same time and counts the answers.
func atOnce(n int, ask func(n int) string) map[string]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	counts := map[string]int{}
	for i := range n {
		all.Go(func() {
			got := ask(i)
			mu.Lock()
			defer mu.Unlock()
			counts[got]++
		})
	}
	all.Wait()
	return counts
}

// until waits until a query over the connections of the database says so.
func (d divided) until(t *testing.T, where string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var is bool
		err := d.admin.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and `+where+`)`).Scan(&is)
		if err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no connection: %s", where)
		}
	}
}

// newSite makes a site with a key of the scope.
func (d divided) newSite(t *testing.T, scope site.Scope) (public, key string) {
	t.Helper()
	s, err := site.New(site.Options{DB: d.areas.Requests, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), identity.System("test"))
	made, err := s.Create(ctx, "a site", "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if _, key, err = s.CreateKey(ctx, made.ID, "a key", scope); err != nil {
		t.Fatal(err)
	}
	return made.Key, key
}

func TestAServerHasNoMoreConnectionsThanItMayTheListenerIncluded(t *testing.T) {
	t.Parallel()
	const conns = 16
	d := serveDivided(t, conns)
	d.until(t, `(query ilike 'listen %' or query = '-- ping')`) // the listener asks each 5 s whether it is connected
	for _, area := range d.areas.All() {
		for range area.MaxConns() {
			conn, err := area.Pool().Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
		}
	}
	var n int
	if err := d.admin.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != conns {
		t.Errorf("%d connections are open when all are in use, of %d", n, conns)
	}
}

// What readiness only tells, and the sign of life of the job runner, look at tables that
// somebody may have locked.
func TestReadinessIsShutOutByNoLock(t *testing.T) {
	t.Parallel()
	d := serveDivided(t, db.LeastConns())
	unlock := dbtest.Lock(t, d.urls.Owner, "lock table posts, mails, audit_verifications, job_runners in access exclusive mode")
	defer unlock()
	d.until(t, `wait_event_type = 'Lock' and query like '%job_runners%'`)
	if got := atOnce(20, func(int) string { return d.ask(t, "GET", "/readyz", "") }); got["200"] != 20 {
		t.Errorf("readiness: %v", got)
	}
}

// The keys of questions are looked up before anybody knows what these cost.
func TestQuestionsWhoseKeysCannotBeReadHoldUpNoHits(t *testing.T) {
	t.Parallel()
	d := serveDivided(t, db.LeastConns(), "WAYPOST_REQUEST_TIMEOUT=5s")
	public, key := d.newSite(t, site.ScopeRead)
	unlock := dbtest.Lock(t, d.urls.Owner, "lock table site_api_keys in access exclusive mode")
	defer unlock()
	var asked sync.WaitGroup
	asked.Go(func() {
		got := atOnce(40, func(int) string { return d.ask(t, "GET", "/api/stats/summary", "", "X-Analytics-API-Key", key) })
		if got["503 busy"] == 0 || got["503 busy"]+got["503 unavailable"] != 40 {
			t.Errorf("questions: %v", got)
		}
	})
	d.until(t, `wait_event_type = 'Lock' and query like '%site_api_keys%'`)
	for n := range 5 {
		got := d.ask(t, "POST", "/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n), "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		if got != "202" {
			t.Errorf("a hit: %s", got)
		}
	}
	asked.Wait()
}

// A hit whose site can't be looked up waits for a connection no longer than another.
func TestHitsWhoseSitesCannotBeReadAreRefusedEarly(t *testing.T) {
	t.Parallel()
	d := serveDivided(t, db.LeastConns(), "WAYPOST_REQUEST_TIMEOUT=5s")
	public, _ := d.newSite(t, site.ScopeRead)
	unlock := dbtest.Lock(t, d.urls.Owner, "lock table sites in access exclusive mode")
	defer unlock()
	got := atOnce(40, func(n int) string {
		return d.ask(t, "POST", "/api/collect", fmt.Sprintf(`{"site_key":%q,"url":"https://example.com/%d"}`, public, n))
	})
	if got["503 busy"] == 0 || got["503 busy"]+got["503 unavailable"] != 40 {
		t.Errorf("hits were answered %v; want busy for those that found no connection (%s)", got, slices.Sorted(maps.Keys(got)))
	}
}
