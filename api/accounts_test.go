package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
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
	mail     *mail.Memory
	jobs     *accountJobs
	log      *syncBuffer
	known    *[]caller
	ctx      context.Context // the test's, for property checks, which have their own t
}

// accountJobs keeps what was inserted, for tests to work.
type accountJobs struct {
	mu   sync.Mutex
	list []account.LinkRequest
}

func (j *accountJobs) Insert(_ context.Context, _ pgx.Tx, job queue.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, job.(account.LinkRequest))
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
	p := people{db: d, ownerURL: urls.Owner, mail: &mail.Memory{}, jobs: &accountJobs{}, log: &syncBuffer{}, known: new([]caller), ctx: t.Context()}
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
		BaseURL: baseURL, Authenticator: accounts, SiteKeys: noSiteKeys{}, Auth: accounts, Registrar: accounts, Sessions: accounts, Tokens: accounts,
		KeySet: tokens, TwoFactor: accounts, Users: accounts, Posts: posts,
	}); err != nil {
		t.Fatal(err)
	}
	views, err := pages.New(pages.Options{Accounts: accounts})
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
	if _, err := p.db.Pool().Exec(t.Context(), sql); err != nil {
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

func TestASignInAnswersTokensThatWork(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.Editor)
	a := p.do(t, "POST", "/api/auth/login", login("ADA@example.com", password))
	a.wants(t, "login", 200, "")
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %q", got)
	}
	var data map[string]any
	if err := json.Unmarshal(a.body.Data, &data); err != nil {
		t.Fatal(err)
	}
	user, _ := data["user"].(map[string]any)
	if data["token_type"] != "Bearer" || data["expires_in"] != 900.0 || data["refresh_token"] == "" || a.body.Message == "" {
		t.Errorf("login answers %s", a.text)
	}
	names := []string{"active", "created_at", "email", "first_name", "id", "last_name", "role", "updated_at"}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(user))); diff != "" {
		t.Errorf("user's members: %s", diff)
	}

	me := p.do(t, "GET", "/api/auth/me", "", bearer(data["access_token"].(string)))
	me.wants(t, "me", 200, "")
	var again map[string]any
	if err := json.Unmarshal(me.body.Data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(user, again); diff != "" {
		t.Errorf("me differs from the login's user: %s", diff)
	}
}

// Abuse case 13.
func TestCase13UnknownAndWrongGetTheSameAnswerToTheByte(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "ada@example.com", identity.User)
	wrong := p.do(t, "POST", "/api/auth/login", login("ada@example.com", "not the one"))
	unknown := p.do(t, "POST", "/api/auth/login", login("eve@example.com", "not the one"))
	wrong.wants(t, "wrong password", 401, "invalid_credentials")
	if wrong.status != unknown.status || wrong.text != unknown.text {
		t.Errorf("wrong: %d %s; unknown: %d %s", wrong.status, wrong.text, unknown.status, unknown.text)
	}
	for _, h := range []http.Header{wrong.header, unknown.header} {
		h.Del("X-Request-Id")
	}
	if diff := cmp.Diff(wrong.header, unknown.header); diff != "" {
		t.Errorf("headers differ: %s", diff)
	}
}

func TestBadSignInBodiesAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for name, tc := range map[string]struct {
		body  string
		field string
	}{
		"abuse 16: 1 MB password":   {login("ada@example.com", strings.Repeat("x", 1_000_000)), "body.password"},
		"abuse 32: role on the way": {`{"email":"ada@example.com","password":"x","role":"ADMIN"}`, "body.role"},
		"no password":               {`{"email":"ada@example.com"}`, "body.password"},
		"null":                      {`{"email":null,"password":"x"}`, "body.email"},
		"another type":              {`{"email":"ada@example.com","password":5}`, "body.password"},
		"another case":              {`{"Email":"ada@example.com","password":"x"}`, "body.Email"},
	} {
		t.Run(name, func(t *testing.T) {
			a := p.do(t, "POST", "/api/auth/login", tc.body)
			a.wants(t, name, 422, "validation_failed")
			if a.body.Error.Details[tc.field] == "" {
				t.Errorf("details %v", a.body.Error.Details)
			}
		})
	}
	p.do(t, "POST", "/api/auth/login", `{"email":`).wants(t, "broken JSON", 400, "invalid_json")
}

func TestOnlyOneBearerTokenInTheHeaderSignsIn(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ada := p.add(t, "ada@example.com", identity.User)
	probe := httptest.NewRequest("GET", "/", nil)
	ada(probe)
	good := strings.TrimPrefix(probe.Header.Get("Authorization"), "Bearer ")
	raw := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	for name, tc := range map[string]struct {
		path   string
		change func(*http.Request)
		code   string
	}{
		"nothing":                      {"/api/auth/me", raw(), "unauthenticated"},
		"another scheme":               {"/api/auth/me", raw("Basic " + good), "unauthenticated"},
		"no token":                     {"/api/auth/me", raw("Bearer "), "unauthenticated"},
		"abuse 11: token in the query": {"/api/auth/me?access_token=" + good + "&token=" + good, raw(), "unauthenticated"},
		"abuse 12: two headers":        {"/api/auth/me", raw("Bearer "+good, "Bearer "+good), "unauthenticated"},
		"two tokens in one":            {"/api/auth/me", raw("Bearer " + good + ", Bearer " + good), "token_invalid"},
		"abuse 12: a 100 KB token":     {"/api/auth/me", raw("Bearer " + good + strings.Repeat("A", 100<<10)), "token_invalid"},
		"garbage":                      {"/api/auth/me", raw("Bearer a.b.c"), "token_invalid"},
		"an edited signature":          {"/api/auth/me", raw("Bearer " + good[:len(good)-4] + "AAAA"), "token_invalid"},
		"for the list of posts":        {"/api/posts", raw(), "unauthenticated"},
		"for the list of users":        {"/api/users", raw(), "unauthenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			a := p.do(t, "GET", tc.path, "", tc.change)
			a.wants(t, name, 401, tc.code)
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate is %q", a.header.Get("WWW-Authenticate"))
			}
		})
	}
	p.do(t, "GET", "/api/auth/me", "", raw("bearer "+good)).wants(t, "scheme in lower case", 200, "")
}

// Abuse case 8, and demotion.
func TestCase08DeactivationLogoutAndDemotionBiteOnTheNextRequest(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin)
	ada := p.add(t, "ada@example.com", identity.Admin)
	p.do(t, "GET", "/api/users", "", ada).wants(t, "as ADMIN", 200, "")
	if _, err := p.accounts.SetRole(t.Context(), "ada@example.com", identity.Editor); err != nil {
		t.Fatal(err)
	}
	p.do(t, "GET", "/api/users", "", ada).wants(t, "after demotion", 403, "forbidden")
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "me after demotion", 200, "")

	p.exec(t, `update users set active = false where email = 'ada@example.com'`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "after deactivation", 401, "session_revoked")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", password)).wants(t, "sign-in when deactivated", 403, "account_inactive")
	p.do(t, "POST", "/api/auth/login", login("ada@example.com", "wrong")).wants(t, "guess when deactivated", 401, "invalid_credentials")

	p.exec(t, `update users set active = true`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "active again", 200, "")
	p.exec(t, `update auth_sessions set revoked_at = now()`)
	p.do(t, "GET", "/api/auth/me", "", ada).wants(t, "after logout", 401, "session_revoked")
}

func TestOnlyAdministratorsListAccounts(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, role := range identity.Roles() {
		a := p.do(t, "GET", "/api/users", "", p.add(t, strings.ToLower(string(role))+"@example.com", role))
		if role == identity.Admin {
			a.wants(t, string(role), 200, "")
		} else {
			a.wants(t, string(role), 403, "forbidden")
		}
	}
}

func TestTheListOfAccountsPagesFiltersAndSorts(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for i := range 4 {
		p.add(t, fmt.Sprintf("user%d@example.com", i), identity.User)
	}
	emails := func(a answer) []string {
		t.Helper()
		a.wants(t, "list", 200, "")
		var users []struct{ Email string }
		if err := json.Unmarshal(a.body.Data, &users); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, u := range users {
			out = append(out, u.Email)
		}
		return out
	}
	var all []string
	cursor := ""
	for {
		a := p.do(t, "GET", "/api/users?limit=2&total=true&sort=email&cursor="+url.QueryEscape(cursor), "", root)
		all = append(all, emails(a)...)
		if *a.body.Meta.Total != 5 || a.body.Meta.Limit != 2 {
			t.Errorf("meta %+v", a.body.Meta)
		}
		if cursor = a.body.Meta.NextCursor; !a.body.Meta.HasMore {
			break
		}
		p.do(t, "GET", "/api/users?sort=-email&cursor="+url.QueryEscape(cursor), "", root).wants(t, "cursor of another sort", 422, "validation_failed")
	}
	want := []string{"root@example.com", "user0@example.com", "user1@example.com", "user2@example.com", "user3@example.com"}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string][]string{
		"role=ADMIN":              {"root@example.com"},
		"q=USER3":                 {"user3@example.com"},
		"active=false":            nil,
		"active=true&limit=1":     {"user3@example.com"},
		"sort=created_at&limit=1": {"root@example.com"},
		"unknown=ignored&limit=1": {"user3@example.com"},
	} {
		a := p.do(t, "GET", "/api/users?"+query, "", root)
		if diff := cmp.Diff(want, emails(a)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
		if strings.Contains(a.text, `"data":null`) {
			t.Errorf("%s: data is null", query)
		}
	}
}

func TestBadListParametersAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for query, field := range map[string]string{
		"limit=0":                             "query.limit",
		"limit=101":                           "query.limit",
		"limit=x":                             "query.limit",
		"sort=password_hash":                  "query.sort",
		"role=ROOT":                           "query.role",
		"active=maybe":                        "query.active",
		"cursor=%25":                          "query.cursor",
		"cursor=bm8":                          "query.cursor",
		"cursor=eyJlIjoiXHUwMDAwIiwicyI6IiJ9": "query.cursor",
		"q=%00":                               "query.q",
		"q=%ff":                               "query.q",
		"q=" + strings.Repeat("x", 201):       "query.q",
	} {
		a := p.do(t, "GET", "/api/users?"+query, "", root)
		a.wants(t, query, 422, "validation_failed")
		if a.body.Error.Details[field] == "" {
			t.Errorf("%.40s: details %v", query, a.body.Error.Details)
		}
	}
	for _, query := range []string{"author_id=0", "author_id=-1", "author_id=99999999999999999999", "tag=%00", "q=%ff", "cursor=e30x", "limit=1000"} {
		p.do(t, "GET", "/api/posts?"+query, "", root).wants(t, "posts "+query, 422, "validation_failed")
	}
}
