package truth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth/oauthtest"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/webhook"
)

// world is a whole service with one of everything, and the means to make more.
type world struct {
	url string
	// strictURL is of the same service, but for that administrators need a second
	// factor, and that one call in a minute is enough for statistics.
	strictURL string
	// hastyURL is of the same service, which gives up answers of the statistics soon.
	hastyURL string
	// narrowURL is of the same service, which takes files of 1 KiB alone, and 1 KiB of them.
	narrowURL string
	files     string            // their directory
	pictures  map[string]string // by person, the id of an image with a thumbnail
	db        *db.DB
	database  dbtest.URLs
	log       *journal
	// google and github sign in whom they are told to.
	google, github *oauthtest.Server
	people         map[string]*person
	credentials    map[string][]string
	siteKey        string
	siteID         string
	traffic        map[string]bool // by site, whether makeTraffic made it
	sites          *site.Service
	accounts       *account.Service
	held           gate
	// described is what the service says of itself.
	described *description
	serial    atomic.Int64
}

// newWorld composes the service, and makes a caller of each kind.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{log: newJournal(), pictures: map[string]string{}, google: oauthtest.NewOpenID(t, time.Now), github: oauthtest.NewGitHub(t)}
	w.db, w.database = dbtest.NewWithURL(t)
	w.files = t.TempDir()
	var err error
	// Cheap passwords: what they cost is not what is tested here.
	cheap := account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}
	if w.accounts, err = account.New(account.Options{DB: w.db, PasswordCost: cheap}); err != nil {
		t.Fatal(err)
	}
	if w.sites, err = site.New(site.Options{DB: w.db, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	w.url = w.compose(t, w.database.App, "WAYPOST_OAUTH_GOOGLE_URL="+w.google.URL)
	w.strictURL = w.compose(t, w.database.App, "WAYPOST_OAUTH_GOOGLE_URL="+w.google.URL, "WAYPOST_REQUIRE_ADMIN_2FA=true",
		"WAYPOST_KEY_RATE=1", "WAYPOST_ADDRESS_RATE=1")
	w.hastyURL = w.compose(t, w.database.App, "WAYPOST_STATS_TIMEOUT=50ms")
	w.narrowURL = w.compose(t, w.database.App, "WAYPOST_UPLOAD_LIMIT=1KiB", "WAYPOST_UPLOAD_QUOTA=1KiB")
	w.makeCallers(t)
	return w
}

// compose starts a service on a database.
func (w *world) compose(t *testing.T, databaseURL string, settings ...string) string {
	t.Helper()
	c, err := config.Read(append(settings,
		"WAYPOST_URL=https://waypost.example", "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes",
		"WAYPOST_OAUTH_GOOGLE_CLIENT_ID="+oauthtest.ClientID, "WAYPOST_OAUTH_GOOGLE_CLIENT_SECRET="+oauthtest.ClientSecret,
		"WAYPOST_OAUTH_GITHUB_CLIENT_ID="+oauthtest.ClientID, "WAYPOST_OAUTH_GITHUB_CLIENT_SECRET="+oauthtest.ClientSecret,
		"WAYPOST_OAUTH_GITHUB_URL="+w.github.URL, "WAYPOST_OAUTH_GITHUB_API_URL="+w.github.URL,
		"WAYPOST_OAUTH_RETURN_URLS="+clientURL, "WAYPOST_UPLOAD_DIR="+w.files, "WAYPOST_CONFIG="+w.modelsFile(t),
	), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: databaseURL, MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"PAYMENT_WEBHOOK_SECRET": outside.PaymentSecret, "CODEHOST_WEBHOOK_SECRET": outside.PaymentSecret, "ASKING_SECRET": outside.PaymentSecret, "ASKING_TOKEN": askingToken}
	forward, err := webhook.Forward(webhook.ForwardTarget{Provider: "payment", EventType: "forwarded", URL: "http://127.0.0.1:1/in", SecretEnv: "FORWARD_SECRET"},
		webhook.ForwardOptions{LookupSecret: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{
		Config: c, Areas: db.Undivided(d), Logger: slog.New(w.log), ShowMailLinks: true, EchoModel: true,
		LookupSecret: func(name string) string { return secrets[name] },
		Extensions: app.Extensions{Bindings: []webhook.Binding{
			forward,
			webhook.Handle("payment", "fail", func(context.Context, *webhook.Delivery) error { return errFail }),
			webhook.Handle("payment", "hold", func(ctx context.Context, d *webhook.Delivery) error {
				if d.Event.RetryCount > 0 {
					w.held.wait(ctx)
				}
				return errFail
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		d.Close()
	})
	return server.URL
}

// gate holds up replays of events of the type "hold" until it is open. It is
// closed first.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) channel() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = make(chan struct{})
	}
	return g.open
}

func (g *gate) wait(ctx context.Context) {
	select {
	case <-g.channel():
	case <-ctx.Done():
	}
}

// letThrough opens the gate for those who wait, and closes it behind them.
func (g *gate) letThrough() {
	close(g.channel())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = nil
}

var errFail = errors.New("told to fail")

func (w *world) next() string { return fmt.Sprint(w.serial.Add(1)) }

// must makes a call that is not what is tested, and must succeed.
func (w *world) must(t *testing.T, method, path string, credentials []string, body any) outside.Answer {
	t.Helper()
	text, header := "", credentials
	if body != nil {
		text, header = outside.JSON(body), slices.Concat(credentials, []string{"Content-Type", "application/json"})
	}
	a := outside.Exchange(t, browser, method, w.url+path, text, header...)
	if a.Status >= 400 {
		t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return a
}

// deliver posts a payment event and returns its id here.
func (w *world) deliver(t *testing.T, eventType string) string {
	t.Helper()
	return w.deliverAs(t, "evt_"+w.next(), eventType)
}

// deliverAs posts a payment event with an id of the provider's.
func (w *world) deliverAs(t *testing.T, externalID, eventType string) string {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":%q}`, externalID, eventType)
	var r outside.Receipt
	outside.Do(t, "POST", w.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(outside.PaymentSecret, body)).Into(t, &r)
	return r.ID
}

// forgetPayloads does what the service does once the retention of all events is
// over.
func (w *world) forgetPayloads(t *testing.T) {
	t.Helper()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	jobs, err := queue.New(logger)
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.New(webhook.Options{
		DB: w.db, Registry: registry, Logger: logger, Jobs: jobs, LookupSecret: func(string) string { return "" },
		Retention: time.Nanosecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Worker.ForgetPayloads(t.Context()); err != nil || n == 0 {
		t.Errorf("%d payloads forgotten, %v", n, err)
	}
	if err := s.Receiver.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// waitPending waits until so many events are being handled that a replay took.
func (w *world) waitPending(t *testing.T, replay string, n int) {
	t.Helper()
	deadline := time.After(outside.Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var progress struct{ Data struct{ Pending int } }
		w.must(t, "GET", "/api/admin/webhooks/replays/"+replay, w.credentials[callerAdmin], nil).Into(t, &progress)
		if progress.Data.Pending == n {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("of replay %s are %d events pending, not %d", replay, progress.Data.Pending, n)
		case <-tick.C:
		}
	}
}

// behind changes what no request can: the times of rows.
func (w *world) behind(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.database.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if tag, err := conn.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}

// startReplay begins a bulk replay and returns its id.
func (w *world) startReplay(t *testing.T, filter map[string]string) string {
	t.Helper()
	var begun struct{ Data struct{ ID string } }
	w.must(t, "POST", "/api/admin/webhooks/replay", w.credentials[callerAdmin], filter).Into(t, &begun)
	return begun.Data.ID
}

// makeUser makes an account, to be changed and deleted, and returns its address.
func (w *world) makeUser(t *testing.T) (string, map[string]string) {
	t.Helper()
	email := "user-" + w.next() + "@example.com"
	var made struct{ Data struct{ ID json.Number } }
	w.must(t, "POST", "/api/users", w.credentials[callerAdmin], map[string]string{"first_name": "New", "last_name": "User", "email": email}).Into(t, &made)
	return email, map[string]string{"id": made.Data.ID.String()}
}

// makeBlog makes a published blog.
func (w *world) makeBlog(t *testing.T) map[string]string {
	t.Helper()
	slug := "blog-" + w.next()
	w.must(t, "POST", "/api/blogs", w.credentials[callerEditor], map[string]any{"title": "A blog", "content": "Text", "slug": slug, "published": true})
	return map[string]string{"id": slug}
}

// makeSite makes a site with a key, to be changed and deleted.
func (w *world) makeSite(t *testing.T) map[string]string {
	t.Helper()
	made, err := w.sites.Create(t.Context(), "Site "+w.next(), "example.com", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := w.sites.CreateKey(t.Context(), made.ID, "key", site.ScopeRead)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"id": made.ID.String(), "kid": key.ID.String()}
}

// makeQueue makes a queue that nobody works.
func (w *world) makeQueue(t *testing.T) string {
	t.Helper()
	name := "queue-" + w.next()
	w.behind(t, `insert into river_queue (name, created_at, updated_at) values ($1, now(), now())`, name)
	return name
}

// makeJob makes a job in such a queue.
func (w *world) makeJob(t *testing.T, state string) map[string]string {
	t.Helper()
	queue := w.makeQueue(t)
	w.behind(t, `insert into river_job (state, kind, args, queue, max_attempts, attempt, attempted_at, finalized_at, errors)
		values ($1::text::river_job_state, 'test', '{}', $2, 1, 1, now(), case when $1::text = 'discarded' then now() end,
			array['{"at": "2026-01-02T15:04:05Z", "attempt": 1, "error": "no", "trace": ""}'::jsonb])`, state, queue)
	var found struct{ Data []struct{ ID json.Number } }
	w.must(t, "GET", "/api/admin/jobs?queue="+queue, w.credentials[callerAdmin], nil).Into(t, &found)
	return map[string]string{"id": found.Data[0].ID.String()}
}

// newestEntry is of the audit log. Verifying seals first, so there are entries as soon
// as there are callers.
func (w *world) newestEntry(t *testing.T) map[string]string {
	t.Helper()
	var verdict struct {
		Data struct{ Head struct{ Seq json.Number } }
	}
	w.must(t, "GET", "/api/admin/audit/verify", w.credentials[callerAdmin], nil).Into(t, &verdict)
	return map[string]string{"seq": verdict.Data.Head.Seq.String()}
}

// rotated is a site whose key was rotated.
func (w *world) rotated(t *testing.T) map[string]string {
	t.Helper()
	ids := w.makeSite(t)
	if _, _, err := w.sites.RotateKey(t.Context(), uuid.MustParse(ids["id"]), uuid.MustParse(ids["kid"]), time.Hour); err != nil {
		t.Fatal(err)
	}
	return ids
}

// fixture makes what a path's parameters name, where the example of the operation
// that creates it won't do.
func (w *world) fixture(t *testing.T, path string) (map[string]string, bool) {
	t.Helper()
	for prefix, make := range map[string]func(*testing.T) map[string]string{
		"/webhooks/{provider}":       func(*testing.T) map[string]string { return map[string]string{"provider": "payment"} },
		"/api/auth/oauth/{provider}": func(*testing.T) map[string]string { return map[string]string{"provider": "google"} },
		"/api/admin/webhooks/{id}":   func(t *testing.T) map[string]string { return map[string]string{"id": w.deliver(t, "fail")} },
		"/api/admin/webhooks/targets/": func(*testing.T) map[string]string {
			return map[string]string{"provider": "payment", "name": "forwarded"}
		},
		"/api/admin/webhooks/replays/{id}": func(t *testing.T) map[string]string {
			return map[string]string{"id": w.startReplay(t, map[string]string{"external_id": "none such " + w.next()})}
		},
		"/api/admin/audit/{seq}":       w.newestEntry,
		"/api/admin/audit/proof/{seq}": w.newestEntry,
		"/api/admin/sites/{id}":        w.makeSite,
		"/api/admin/ai/budgets/": func(t *testing.T) map[string]string {
			_, ids := w.makeUser(t)
			return map[string]string{"user_id": ids["id"]}
		},

		"/api/admin/service-accounts/{id}": w.makeServiceAccount,
		"/api/admin/mails/{id}":            func(t *testing.T) map[string]string { return w.makeMail(t, "mailed-"+w.next(), "test", "sent") },
		"/api/blogs/{id}":                  w.makeBlog,
		"/api/uploads/{id}":                func(t *testing.T) map[string]string { return w.makeUpload(t, "text/plain", "Notes on the engine.") },
		"/api/admin/jobs/{id}":             func(t *testing.T) map[string]string { return w.makeJob(t, "discarded") },
		"/api/admin/queues/{name}":         func(t *testing.T) map[string]string { return map[string]string{"name": w.makeQueue(t)} },
		"/api/admin/cron/{name}": func(*testing.T) map[string]string {
			return map[string]string{"name": "accounts.sweep"}
		},
		"/api/users/{id}": func(t *testing.T) map[string]string { _, ids := w.makeUser(t); return ids },
	} {
		if strings.HasPrefix(path, prefix) {
			return make(t), true
		}
	}
	return nil, false
}

// created makes what a path names by the example of the operation that creates it.
func (w *world) created(t *testing.T, path string) map[string]string {
	t.Helper()
	return w.createdAs(t, path, w.credentials[callerUser], w.credentials[callerAdmin])
}

// createdAs is created as the first who may.
func (w *world) createdAs(t *testing.T, path string, credentials ...[]string) map[string]string {
	t.Helper()
	collection, _, one := strings.Cut(path, "/{id}")
	create := slices.IndexFunc(w.described.operations, func(o *operation) bool { return o.method == http.MethodPost && o.path == collection })
	if !one || create < 0 {
		return map[string]string{}
	}
	body, header := w.described.operations[create].exampleBody(t)
	var a outside.Answer
	for _, c := range credentials {
		if a = outside.Do(t, http.MethodPost, w.url+collection, string(body), slices.Concat(header, c)...); a.Status != http.StatusForbidden {
			break
		}
	}
	var made struct{ Data struct{ ID json.RawMessage } }
	a.Into(t, &made)
	return map[string]string{"id": strings.Trim(string(made.Data.ID), `"`)}
}
