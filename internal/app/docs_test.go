package app_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/config"
)

// configured reads a configuration from variables, as a command does.
func configured(t *testing.T, variables ...string) config.Config {
	t.Helper()
	c, err := config.Read(append([]string{"WAYPOST_URL=https://waypost.example", "WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes"}, variables...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newApp(t *testing.T, c config.Config) (*app.App, error) {
	t.Helper()
	a, err := app.New(t.Context(), app.Options{
		Config: c, Areas: db.Undivided(dbtest.New(t)), Logger: slog.New(slog.DiscardHandler),
		LookupSecret: func(string) string { return "" },
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, nil
}

// page is an answer of the service to a GET.
func page(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

type description struct {
	Info        struct{ Title, Version, Description string }
	Paths       map[string]any
	Permissions []struct{ Path string } `json:"x-permissions"`
}

func describedAt(t *testing.T, h http.Handler, target string) description {
	t.Helper()
	w := page(h, target)
	var d description
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("%s: status %d: %v", target, w.Code, err)
	}
	return d
}

const (
	scalar  = "assets/scalar."
	swagger = "assets/swagger."
	// connects is in the policy of a page that may send requests.
	connects = "connect-src 'self'"
)

func TestTheDocumentationFollowsItsVariables(t *testing.T) {
	t.Parallel()
	a, err := newApp(t, configured(t,
		"WAYPOST_DOCS_PREFIX=/internal/reference",
		"WAYPOST_DOCS_TITLE=The Shop's API",
		"WAYPOST_DOCS_VERSION=7.8.9",
		"WAYPOST_DOCS_DESCRIPTION=All that the *shop* answers.",
		"WAYPOST_DOCS_UI=alternate",
		"WAYPOST_DOCS_THEME=saturn",
		"WAYPOST_DOCS_READ_ONLY=true",
		"WAYPOST_DOCS_EXCLUDE_ROUTES=/api/users/*,/api/stats/**",
		"WAYPOST_DOCS_EXCLUDE_PREFIXES=/api/admin,/webhooks",
	))
	if err != nil {
		t.Fatal(err)
	}
	h := a.Handler()
	if w := page(h, "/docs"); w.Code != http.StatusNotFound {
		t.Errorf("/docs is still there: %d", w.Code)
	}
	d := describedAt(t, h, "/internal/reference/openapi.json")
	if d.Info.Title != "The Shop's API" || d.Info.Version != "7.8.9" || d.Info.Description != "All that the *shop* answers." {
		t.Errorf("info: %+v", d.Info)
	}
	wantExcluded(t, d)
	for target, part := range map[string]string{"": swagger, "?ui=alternate": swagger, "?ui=primary": scalar} {
		w := page(h, "/internal/reference"+target)
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%q is not the page of %s", target, part)
		}
		if policy := w.Header().Get("Content-Security-Policy"); policy == "" || strings.Contains(policy, connects) {
			t.Errorf("%q is read only and may connect: %s", target, policy)
		}
	}
	if !strings.Contains(page(h, "/internal/reference?ui=primary").Body.String(), "saturn") {
		t.Error("the primary page has another theme")
	}
	for _, export := range []string{"collection", "workspace"} {
		body := page(h, "/internal/reference/export/"+export).Body.String()
		if !strings.Contains(body, "/api/posts") || strings.Contains(body, "/api/admin") || strings.Contains(body, "/webhooks/") {
			t.Errorf("the %s has not the description's operations", export)
		}
	}
}

// wantExcluded: a glob's single star leaves what is above and below it.
func wantExcluded(t *testing.T, d description) {
	t.Helper()
	for path := range d.Paths {
		for _, prefix := range []string{"/api/admin", "/webhooks", "/api/stats/"} {
			if strings.HasPrefix(path, prefix) {
				t.Errorf("%s is not left out", path)
			}
		}
	}
	for _, p := range d.Permissions {
		if d.Paths[p.Path] == nil {
			t.Errorf("%s is left out, and its permissions are not", p.Path)
		}
	}
	if d.Paths["/api/users"] == nil || d.Paths["/api/users/{id}"] != nil {
		t.Error("/api/users/* is to leave out what is below /api/users, and that alone")
	}
}

// What is left out of the paths is not told elsewhere: not in the text, not in an
// export.
func TestWhatIsLeftOutIsNamedNowhere(t *testing.T) {
	t.Parallel()
	docs, err := app.Describe(configured(t, "WAYPOST_DOCS_EXCLUDE_PREFIXES=/api/admin,/webhooks"), app.Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range apidoc.Forms() {
		b, err := docs.Bytes(form)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "/api/posts") {
			t.Errorf("%s has nothing", form)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "/api/admin") || strings.Contains(line, "/webhooks/") {
				t.Errorf("%s: %.200s", form, line)
			}
		}
	}
}

func TestWithoutVariablesTheDocumentationIsTheAPIsOwn(t *testing.T) {
	t.Parallel()
	a, err := newApp(t, configured(t))
	if err != nil {
		t.Fatal(err)
	}
	h := a.Handler()
	d := describedAt(t, h, "/docs/openapi.json")
	if d.Info.Title != "Waypost API" || d.Paths["/api/admin/webhooks"] == nil || d.Paths["/api/users/{id}"] == nil {
		t.Errorf("%+v", d.Info)
	}
	w := page(h, "/docs")
	if body := w.Body.String(); !strings.Contains(body, scalar) || !strings.Contains(body, "kepler") {
		t.Errorf("the default page is not the primary one in kepler")
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, connects) {
		t.Errorf("nothing can be sent: %s", policy)
	}
}

// What DevMode makes anew is the same for the same routes, so that it is told by
// the work: a served edition allocates next to nothing.
func TestDevModeMakesTheDocumentationAnewForEachRequest(t *testing.T) {
	allocations := func(variables ...string) float64 {
		a, err := newApp(t, configured(t, variables...))
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() { page(a.Handler(), "/docs/openapi.json") })
	}
	once, anew := allocations(), allocations("WAYPOST_DOCS_DEV_MODE=true")
	if anew < 100*once {
		t.Errorf("%.0f allocations for a request in DevMode, %.0f without", anew, once)
	}
}

func TestADocumentationThatHidesAPathFailsTheStart(t *testing.T) {
	t.Parallel()
	for prefix, hidden := range map[string]string{
		"/api/posts":       "GET /api/posts",
		"/api/users/docs":  "GET /api/users/{id}",
		"/api/auth/login":  "POST /api/auth/login",
		"/healthz":         "GET /healthz",
		"/webhooks/manual": "POST /webhooks/{provider}",
	} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			_, err := newApp(t, configured(t, "WAYPOST_DOCS_PREFIX="+prefix))
			if err == nil || !strings.Contains(err.Error(), "WAYPOST_DOCS_PREFIX") || !strings.Contains(err.Error(), hidden) {
				t.Errorf("want a refusal that names WAYPOST_DOCS_PREFIX and %s; got %v", hidden, err)
			}
		})
	}
}

// The description is answered ahead of the router, which keeps the rest of its path.
func TestTheDescriptionAnswersAsAnyRouteDoes(t *testing.T) {
	t.Parallel()
	a, err := newApp(t, configured(t))
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405, "OPTIONS": 405} {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(method, "/docs/openapi.json", nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", method, w.Code, want)
		}
		if w.Header().Get("X-Request-Id") == "" || w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: headers %v", method, w.Header())
		}
		if allow := w.Header().Get("Allow"); want == 405 && allow != "GET, HEAD" {
			t.Errorf("%s: Allow %q", method, allow)
		}
		if (w.Body.Len() > 0) != (method != "HEAD") {
			t.Errorf("%s: %d bytes", method, w.Body.Len())
		}
	}
}

func TestADocumentationSettingThatMakesNoSenseFailsTheStart(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"WAYPOST_DOCS_PREFIX=docs", "WAYPOST_DOCS_PREFIX=/docs/", "WAYPOST_DOCS_THEME=plaid", "WAYPOST_DOCS_EXCLUDE_ROUTES=posts"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			if _, err := app.Describe(configured(t, variable), app.Extensions{}); err == nil || !strings.Contains(err.Error(), "WAYPOST_DOCS_") {
				t.Errorf("want a refusal that names the variable; got %v", err)
			}
		})
	}
}
