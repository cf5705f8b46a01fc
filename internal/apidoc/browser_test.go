//go:build browser

package apidoc

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/danielgtaylor/huma/v2"
)

var screenshots = flag.String("screenshots", "", "directory for pictures of the pages")

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

// tab is a page of a headless Chromium that can reach this machine only, and
// what went wrong in it.
type tab struct {
	context.Context
	t        *testing.T
	mu       sync.Mutex
	problems []string
}

func openTab(t *testing.T, target string, width, height int64) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	tb := &tab{Context: ctx, t: t}
	own, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(event any) { tb.watch(event, own.Host) }); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(target)); err != nil {
		t.Fatal(err)
	}
	return tb
}

// watch notes errors and warnings, and every request to a host that is not ours.
func (tb *tab) watch(event any, ownHost string) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, arg := range e.Args {
				tb.note("console %s: %s%s", e.Type, arg.Value, arg.Description)
			}
		}
	case *runtime.EventExceptionThrown:
		tb.note("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tb.note("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Host != ownHost {
			tb.note("request to another host: %.200s", e.Request.URL)
		}
	}
}

func (tb *tab) note(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, fmt.Sprintf(format, args...))
}

// evaluate returns what a JavaScript expression is.
func evaluate[T any](tb *tab, expression string) T {
	tb.t.Helper()
	value, err := chromedp.Run(tb, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%s: %v; problems: %q", expression, err, tb.problems)
	}
	return value
}

// await polls until a JavaScript expression is true.
func (tb *tab) await(expression string) {
	tb.t.Helper()
	if _, err := chromedp.Run(tb, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(30*time.Second))); err != nil {
		text := evaluate[string](tb, "document.body.innerText")
		tb.t.Fatalf("never true: %s: %v; problems: %q; page: %.3000s", expression, err, tb.problems, text)
	}
}

func (tb *tab) picture(name string) {
	tb.t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(tb, chromedp.CaptureScreenshot())
	if err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, strings.ReplaceAll(name, "/", "-")+".png"), png, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

// finish fails the test for anything that went wrong in the page.
func (tb *tab) finish() {
	tb.t.Helper()
	tb.picture(tb.t.Name())
	if overflow := evaluate[int](tb, "document.documentElement.scrollWidth - window.innerWidth"); overflow > 0 {
		tb.t.Errorf("the page is %d pixels wider than the window", overflow)
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		tb.t.Error(p)
	}
}

// buttons returns what the visible controls say, one line each.
const buttons = `Array.from(document.querySelectorAll("button, input, a[role=button], [contenteditable=true]"))
	.filter(e => e.checkVisibility() && e.getClientRects().length > 0)
	.map(e => e.tagName + " " + (e.innerText || e.getAttribute("aria-label") || e.placeholder || e.title || "").trim()).join("\n")`

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
				tb := openTab(t, s.URL+"/docs?ui="+kind, pixels[0], pixels[1])
				tb.await(ready)
				tb.picture(t.Name() + "/top")
				expandAll(tb, kind)
				tb.finish()
			})
		}
	}
}

func TestReadOnlyUIsHaveNoControlThatSendsOrAuthorizes(t *testing.T) {
	for kind, ready := range loaded {
		t.Run(kind, func(t *testing.T) {
			s := serveSite(t, Options{ReadOnly: true})
			tb := openTab(t, s.URL+"/docs?ui="+kind, 1280, 900)
			tb.await(ready)
			expandAll(tb, kind)
			controls := evaluate[string](tb, buttons)
			t.Logf("controls:\n%s", controls)
			for _, word := range []string{"try it", "execute", "authori", "test request", "send", "token", "password", "log in"} {
				if strings.Contains(strings.ToLower(controls), word) {
					t.Errorf("a control says %q", word)
				}
			}
			tb.finish()
		})
	}
}

// expandAll opens what a UI keeps folded.
func expandAll(tb *tab, kind string) {
	if kind == "alternate" {
		evaluate[bool](tb, `document.querySelectorAll(".opblock-summary-control").forEach(b => b.click()), true`)
		tb.await(`document.querySelectorAll(".opblock.is-open").length >= 6`)
	}
}

func TestTryItSendsARealRequestAndShowsTheAnswer(t *testing.T) {
	t.Run("alternate", func(t *testing.T) {
		s := serveSite(t, Options{})
		tb := openTab(t, s.URL+"/docs?ui=alternate#/Admin/admin-users", 1280, 900)
		tb.await(`!!document.querySelector(".opblock.is-open .try-out__btn")`)
		tb.await(clickButton("try it out"))
		tb.await(clickButton("execute"))
		tb.await(`!!document.querySelector(".live-responses-table .response-col_status") && document.querySelector(".live-responses-table").innerText.includes("0001-01-01")`)
		if !s.called("/api/admin/users") {
			t.Error("nothing arrived")
		}
		tb.finish()
	})
	t.Run("primary", func(t *testing.T) {
		s := serveSite(t, Options{})
		tb := openTab(t, s.URL+"/docs?ui=primary", 1280, 900)
		tb.await(loaded["primary"])
		tb.await(clickButton("test request"))
		tb.await(clickButton("send"))
		tb.await(`document.body.innerText.includes("0001-01-01")`) // in the answer, in no example
		if !s.called("/api/articles") {
			t.Errorf("nothing arrived: %q", s.calls)
		}
		tb.finish()
	})
}

// clickButton clicks the first visible button whose text begins with word and is
// false while there is none.
func clickButton(word string) string {
	return fmt.Sprintf(`(() => {
		const b = Array.from(document.querySelectorAll("button")).find(e => e.checkVisibility() && (e.innerText || "").trim().toLowerCase().startsWith(%q));
		if (!b) return false;
		b.scrollIntoView({block: "center"}); b.click(); return true;
	})()`, word)
}
