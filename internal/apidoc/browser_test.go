//go:build browser

package apidoc

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/browsertest"
)

// site is a documented API on a real port that notes who called it.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
}

func (s *site) called(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == path {
			return true
		}
	}
	return false
}

func serveSite(t *testing.T, o Options) *site {
	t.Helper()
	mux, api := live(t)
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls = append(s.calls, r.URL.Path)
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	api.OpenAPI().Servers = []*huma.Server{{URL: "http://" + s.Listener.Addr().String()}}
	api.OpenAPI().Paths["/api/articles/{id}"].Get.Security = []map[string][]string{{"bearer": {}}}
	o.API, o.Auth, o.Title = api.OpenAPI(), BearerJWT(), "Waypost API"
	o.Description = "A **description** with [a link](https://example.com) and `code`."
	o.Routes = []Route{{Method: "POST", Path: "/webhooks/{provider}"}}
	for _, e := range newDocs(t, o).Routes() {
		pattern := e.Pattern
		if strings.HasSuffix(pattern, "/") {
			pattern += "{$}"
		}
		mux.Handle("GET "+pattern, e.Handler)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

var sizes = map[string][2]int64{"desktop": {1280, 900}, "phone": {390, 844}}

// loaded is true once the UI shows the operations.
var loaded = map[string]string{
	"primary":   `document.body.innerText.includes("get-article") && !!document.querySelector(".frame a[aria-current]")`,
	"alternate": `document.querySelectorAll(".opblock").length >= 6`,
}

func TestBothUIsRenderOffline(t *testing.T) {
	for kind, ready := range loaded {
		for size, pixels := range sizes {
			t.Run(kind+"/"+size, func(t *testing.T) {
				s := serveSite(t, Options{})
				tb := browsertest.Open(t, s.URL+"/docs?ui="+kind, pixels[0], pixels[1])
				tb.Await(ready)
				tb.Picture(t.Name() + "/top")
				expandAll(tb, kind)
				tb.Finish()
			})
		}
	}
}

func TestReadOnlyUIsHaveNoControlThatSendsOrAuthorizes(t *testing.T) {
	for kind, ready := range loaded {
		t.Run(kind, func(t *testing.T) {
			s := serveSite(t, Options{ReadOnly: true})
			tb := browsertest.Open(t, s.URL+"/docs?ui="+kind, 1280, 900)
			tb.Await(ready)
			expandAll(tb, kind)
			controls := browsertest.Evaluate[string](tb, browsertest.Buttons)
			t.Logf("controls:\n%s", controls)
			for _, word := range []string{"try it", "execute", "authori", "test request", "send", "token", "password", "log in"} {
				if strings.Contains(strings.ToLower(controls), word) {
					t.Errorf("a control says %q", word)
				}
			}
			tb.Finish()
		})
	}
}

// expandAll opens what a UI keeps folded.
func expandAll(tb *browsertest.Tab, kind string) {
	if kind == "alternate" {
		browsertest.Evaluate[bool](tb, `document.querySelectorAll(".opblock-summary-control").forEach(b => b.click()), true`)
		tb.Await(`document.querySelectorAll(".opblock.is-open").length >= 6`)
	}
}

func TestTryItSendsARealRequestAndShowsTheAnswer(t *testing.T) {
	t.Run("alternate", func(t *testing.T) {
		s := serveSite(t, Options{})
		tb := browsertest.Open(t, s.URL+"/docs?ui=alternate#/Admin/admin-users", 1280, 900)
		tb.Await(`!!document.querySelector(".opblock.is-open .try-out__btn")`)
		tb.Await(browsertest.ClickButton("try it out"))
		tb.Await(browsertest.ClickButton("execute"))
		tb.Await(`!!document.querySelector(".live-responses-table .response-col_status") && document.querySelector(".live-responses-table").innerText.includes("0001-01-01")`)
		if !s.called("/api/admin/users") {
			t.Error("nothing arrived")
		}
		tb.Finish()
	})
	t.Run("primary", func(t *testing.T) {
		s := serveSite(t, Options{})
		tb := browsertest.Open(t, s.URL+"/docs?ui=primary", 1280, 900)
		tb.Await(loaded["primary"])
		tb.Await(browsertest.ClickButton("test request"))
		tb.Await(browsertest.ClickButton("send"))
		tb.Await(`document.body.innerText.includes("0001-01-01")`) // in the answer, in no example
		if !s.called("/api/articles") {
			t.Errorf("nothing arrived: %q", s.calls)
		}
		tb.Finish()
	})
}
