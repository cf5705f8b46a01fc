//go:build browser

package apidoc

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
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
	if api.OpenAPI().Components.SecuritySchemes == nil {
		api.OpenAPI().Components.SecuritySchemes = map[string]*huma.SecurityScheme{}
	}
	api.OpenAPI().Components.SecuritySchemes["siteKey"] = &huma.SecurityScheme{Type: "apiKey", In: "header", Name: "X-Key"}
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

// prefer sets the system's colours.
func prefer(t *testing.T, tb *browsertest.Tab, mode string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: mode}}}
	if _, err := chromedp.Call(tb, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
}

// brightness is that of what is behind the text of a UI, 0 to 255.
const brightness = `(() => {
	for (let e = document.querySelector("#reference :is(h1, h2)"); e; e = e.parentElement) {
		const c = getComputedStyle(e).backgroundColor.match(/[\d.]+/g).map(Number);
		if (c.length < 4 || c[3] > 0) return Math.round((c[0] + c[1] + c[2]) / 3);
	}
	return 255;
})()`

func TestBothUIsAreDarkInTheDark(t *testing.T) {
	for kind, ready := range loaded {
		t.Run(kind, func(t *testing.T) {
			s := serveSite(t, Options{})
			tb := browsertest.Open(t, s.URL+"/docs?ui="+kind, 1280, 900)
			prefer(t, tb, "light")
			tb.Await(ready)
			tb.Await(brightness + " > 200")
			prefer(t, tb, "dark")
			tb.Await(brightness + " < 60")
			tb.Finish()
		})
	}
}

func TestEveryExportIsInAMenuAtEveryWidth(t *testing.T) {
	for kind, ready := range loaded {
		for size, pixels := range sizes {
			t.Run(kind+"/"+size, func(t *testing.T) {
				s := serveSite(t, Options{})
				tb := browsertest.Open(t, s.URL+"/docs?ui="+kind, pixels[0], pixels[1])
				tb.Await(ready)
				tb.Await(browsertest.ClickButton("export"))
				tb.Await(`document.querySelector("#export:popover-open")`)
				links := browsertest.Evaluate[[]string](tb, `Array.from(document.querySelectorAll("#export a")).filter(e => {
					const r = e.getBoundingClientRect();
					return r.left >= 0 && r.right <= innerWidth && r.height >= 24 && document.elementFromPoint(r.left + 20, r.top + 10) === e;
				}).map(e => e.href)`)
				if len(links) != 8 {
					t.Errorf("%d exports can be pressed: %q", len(links), links)
				}
				for _, link := range links {
					r, err := http.Get(link)
					if err != nil {
						t.Fatal(err)
					}
					r.Body.Close()
					if r.StatusCode != http.StatusOK {
						t.Errorf("%s: %d", link, r.StatusCode)
					}
				}
				tb.Finish()
			})
		}
	}
}

func TestALinkToAnOperationEndsWithItsHeadInSight(t *testing.T) {
	s := serveSite(t, Options{})
	tb := browsertest.Open(t, s.URL+"/docs?ui=alternate#/Admin/admin-users", 390, 500)
	tb.Await(`!!document.querySelector(".opblock.is-open .try-out__btn") && scrollY > 0`)
	const ended = `(w => { if (w.at !== scrollY) { w.at = scrollY; w.since = performance.now(); } return performance.now() - w.since > 500; })(window)`
	tb.Await(ended)
	const head = `(document.querySelector(".opblock.is-open .opblock-summary").getBoundingClientRect().top - document.querySelector(".frame").getBoundingClientRect().bottom)`
	tb.Picture(t.Name())
	if at := browsertest.Evaluate[float64](tb, head); at < 0 || at > 100 {
		t.Errorf("the head of the operation is %.0f pixels below the bar", at)
	}
	tb.Finish()
}

func TestTheDialogForCredentialsBeginsWithTheFirstScheme(t *testing.T) {
	s := serveSite(t, Options{})
	tb := browsertest.Open(t, s.URL+"/docs?ui=alternate", 390, 844)
	tb.Await(loaded["alternate"])
	tb.Await(browsertest.ClickButton("authorize"))
	tb.Await(`document.querySelectorAll(".modal-ux-content .auth-container").length >= 2`)
	tb.Await(`document.querySelector(".modal-ux-content .auth-container").contains(document.activeElement) && document.querySelector(".modal-ux-content").scrollTop === 0`)
	tb.Finish()
}

func TestASignInIsKeptOverAReloadButInTheTabAlone(t *testing.T) {
	const token = "a-token-that-was-typed"
	const stored = `JSON.stringify(Object.values(%s)).includes("` + token + `")`
	session, local := strings.Replace(stored, "%s", "{...sessionStorage}", 1), strings.Replace(stored, "%s", "{...localStorage}", 1)
	focus := map[string]string{
		"primary":   `(e => e && (e.focus(), e.click(), true))(document.querySelector("#reference input[placeholder=Token], #reference input[type=password]"))`,
		"alternate": `(e => e && (e.focus(), true))(document.querySelector(".auth-container input"))`,
	}
	for kind, ready := range loaded {
		t.Run(kind, func(t *testing.T) {
			s := serveSite(t, Options{})
			tb := browsertest.Open(t, s.URL+"/docs?ui="+kind, 1280, 900)
			tb.Await(ready)
			if kind == "alternate" {
				tb.Await(browsertest.ClickButton("authorize"))
			}
			tb.Await(focus[kind])
			tb.Type(token)
			if kind == "alternate" {
				tb.Await(`(b => b && (b.click(), true))(document.querySelector(".auth-container button[type=submit]"))`)
			}
			tb.Await(session)
			browsertest.Evaluate[bool](tb, "location.reload(), true")
			tb.Await(`performance.getEntriesByType("navigation")[0].type === "reload" && ` + ready)
			if kind == "alternate" {
				tb.Await(`document.querySelector(".authorize.locked, .btn.authorize .locked, .authorization__btn.locked")`)
			} else {
				tb.Await(`Array.from(document.querySelectorAll("#reference input")).some(e => e.value === "` + token + `")`)
			}
			if browsertest.Evaluate[bool](tb, local) {
				t.Error("the token is in localStorage, where it stays")
			}
			tb.Finish()
		})
	}
}
