package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail/mailtest"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/token"
)

const (
	baseURL  = "https://waypost.example"
	password = "pl4nted battery staple"
)

// people is the API over real accounts and posts; its other areas have no services.
type people struct {
	handler  http.Handler
	accounts *account.Service
	posts    *content.Service
	db       *db.DB
	ownerURL string
	mail     *mailtest.Memory
	jobs     *accountJobs
	log      *syncBuffer
	known    *[]caller
	ctx      context.Context // the test's, for property checks, which have their own t
}

// accountJobs keeps what was inserted, for tests to work.
type accountJobs struct {
	mu   sync.Mutex
	list []queue.Job
}

func (j *accountJobs) Insert(_ context.Context, _ pgx.Tx, job queue.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, job)
	return nil
}

// syncBuffer gathers what several goroutines log.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// work works what was inserted.
func (p people) work(t *testing.T) {
	t.Helper()
	p.jobs.mu.Lock()
	list := p.jobs.list
	p.jobs.list = nil
	p.jobs.mu.Unlock()
	for _, job := range list {
		var err error
		switch job := job.(type) {
		case account.LinkJob:
			err = p.accounts.MailLink(t.Context(), job)
		case account.EmailChangeJob:
			err = p.accounts.MailEmailChange(t.Context(), job)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newPeople(t *testing.T) people {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	tokens, err := token.New(t.Context(), token.Options{DB: d, Issuer: baseURL, SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey)})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := seal.New(account.SealPurpose, bytes.Repeat([]byte{'k'}, seal.MinSecretKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := people{db: d, ownerURL: urls.Owner, mail: &mailtest.Memory{}, jobs: &accountJobs{}, log: &syncBuffer{}, known: new([]caller), ctx: t.Context()}
	accounts, err := account.New(account.Options{
		DB: d, Tokens: tokens, PasswordCost: account.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1},
		Mail: p.mail, Jobs: p.jobs, URL: baseURL, TwoFactor: account.TwoFactorOptions{Sealer: sealer},
	})
	if err != nil {
		t.Fatal(err)
	}
	posts, err := content.New(content.Options{DB: d})
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{
		BaseURL: baseURL, Authenticator: accounts, SiteKeys: noSiteKeys{},
		Resources: append(unmanned(t), api.SignIn(accounts, tokens, baseURL), api.APITokens(accounts), api.Users(accounts), api.ServiceAccounts(accounts), api.Posts(posts), api.Blogs(posts)),
	}); err != nil {
		t.Fatal(err)
	}
	views, err := pages.New(pages.Account(accounts))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range views.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	p.handler, p.accounts, p.posts = r, accounts, posts
	return p
}

// noSiteKeys knows no key.
type noSiteKeys struct{}

func (noSiteKeys) AuthenticateKey(context.Context, string) (site.Site, site.Key, error) {
	return site.Site{}, site.Key{}, site.ErrAPIKey
}

// owner is a connection that may read every table.
func (p people) owner(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// id returns an account's id as text.
func (p people) id(t *testing.T, email string) string {
	t.Helper()
	u, err := p.accounts.FindByEmail(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(u.ID, 10)
}

// page returns only the status, of an answer that may be no JSON.
func (p people) page(t *testing.T, method, path string, changes ...func(*http.Request)) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, baseURL+path, nil)
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Code
}

func (p people) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := p.db.Single(identity.System("test")).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// add makes an account and returns a function that adds its access token to a request.
func (p people) add(t *testing.T, email string, role identity.Role) func(*http.Request) {
	t.Helper()
	_, err := p.accounts.Create(t.Context(), account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: email, Password: password, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.accounts.SignIn(t.Context(), email, password)
	if err != nil {
		t.Fatal(err)
	}
	return bearer(s.AccessToken)
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+token) }
}

type answer struct {
	status int
	header http.Header
	text   string
	body   struct {
		Data    json.RawMessage
		Message string
		Meta    struct {
			Limit      int
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
			Total      *int64
		}
		Error struct {
			Code    string
			Message string
			Details map[string]string
		}
	}
}

func (p people) do(t *testing.T, method, path, body string, changes ...func(*http.Request)) answer {
	t.Helper()
	a := p.send(t, method, path, body, changes...)
	// Abuse case 36, for every answer of these tests.
	for _, secret := range []string{"pl4nted", "argon2id", "password_hash"} {
		if strings.Contains(a.text, secret) {
			t.Errorf("%s %s: %q shows in %s", method, path, secret, a.text)
		}
	}
	return a
}

func (p people) send(t *testing.T, method, path, body string, changes ...func(*http.Request)) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), text: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil && w.Body.Len() > 0 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Fatalf("%s %s: %d %q: %v", method, path, w.Code, a.text, err)
	}
	return a
}

func (a answer) wants(t *testing.T, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.body.Error.Code != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.text, status, code)
	}
}

func login(email, password string) string {
	b, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		panic(err)
	}
	return string(b)
}
