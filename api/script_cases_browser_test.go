//go:build browser

package api_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// scriptCase is a page with the script, and what somebody does on it.
type scriptCase struct {
	// tag has the script's address and attributes, with COUNTER and OWN for the ports.
	tag    string
	before string // a script before it
	path   string // of the page; /missing is answered 404
	act    string // a script
	want   map[string]int
}

var scriptCases = map[string]scriptCase{
	"typing in a search box is one view": {
		path: "/search", act: `for (const q of ["h", "he", "hel", "hell", "hello"]) history.replaceState({}, "", "?q=" + q)`,
		want: map[string]int{"/search": 1},
	},
	"a fragment is no page": {
		path: "/app", act: `location.hash = "#/about"`, want: map[string]int{"/app": 1},
	},
	"with data-hash it is": {
		tag: `src="http://counter.example:COUNTER/stats.js" data-hash`, path: "/app/",
		act:  `location.hash = "#/about"; history.pushState({}, "", "#/team")`,
		want: map[string]int{"/app/": 1, "/app/about": 1, "/app/team": 1},
	},
	"a page that comes back from the cache counts again": {
		path: "/a", act: `dispatchEvent(new PageTransitionEvent("pageshow", {persisted: true})); dispatchEvent(new PageTransitionEvent("pageshow", {persisted: false}))`,
		want: map[string]int{"/a": 2},
	},
	"a renamed script behind a proxy": {
		tag: `src="/js/s.js" data-api="/js/hit"`, path: "/a", want: map[string]int{"/a": 1},
	},
	"a renamed script reports to its host": {
		tag: `src="http://shop.example:OWN/js/s.js"`, path: "/a", want: map[string]int{"/a": 1},
	},
	"a property that is no scalar costs only itself": {
		path: "/a", act: `waypost.track("buy", {plan: "pro", coupon: null, none: undefined, tags: ["a"], who: {id: 1}, sum: NaN, f: () => 1})`,
		want: map[string]int{"/a": 1, `buy /a {"plan": "pro"}`: 1},
	},
	"who asks to be ignored is": {
		before: `localStorage.waypost_ignore = "true"`, path: "/a", act: `waypost.track("buy"); delete localStorage.waypost_ignore`,
		want: map[string]int{},
	},
	"links that lead away and files": {
		tag: `src="http://counter.example:COUNTER/stats.js" data-auto="outbound,download"`, path: "/a",
		act: `for (const href of ["http://other.example/x?secret=1", "/files/a.pdf?key=2", "/b"]) {
	const a = document.createElement("a"); a.href = href; a.onclick = e => e.preventDefault(); document.body.append(a); a.click() }`,
		want: map[string]int{"/a": 1, `outbound /a {"url": "http://other.example/x"}`: 1, `download /a {"url": "http://shop.example:PORT/files/a.pdf"}`: 1},
	},
	"nothing of that unless it is asked for": {
		path: "/missing", act: `const a = document.createElement("a"); a.href = "http://other.example/"; a.onclick = e => e.preventDefault(); document.body.append(a); a.click()`,
		want: map[string]int{"/missing": 1},
	},
	"a page that is not there": {
		tag: `src="http://counter.example:COUNTER/stats.js" data-auto="404"`, path: "/missing",
		want: map[string]int{"/missing": 1, `404 /missing {"path": "/missing"}`: 1},
	},
}

func TestTheScriptCountsPagesAsPeopleSeeThem(t *testing.T) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"), chromedp.UserAgent(browser))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	for name, c := range scriptCases {
		t.Run(name, func(t *testing.T) {
			s := newSiteAPI(t, limits{})
			made := s.create(t, `{"name":"Shop","domain":"shop.example"}`)
			counter := httptest.NewServer(s.handler)
			t.Cleanup(counter.Close)
			shop := httptest.NewServer(c.shop(t, counter, made.SiteKey))
			t.Cleanup(shop.Close)
			ctx, closeTab := chromedp.NewContext(allocator)
			t.Cleanup(closeTab)
			if err := chromedp.Do(ctx, chromedp.Navigate("http://shop.example:"+port(t, shop)+c.path)); err != nil {
				t.Fatal(err)
			}
			if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](c.act+"; waypost.track('end'), true")); err != nil {
				t.Fatal(err)
			}
			n := 1
			for _, count := range c.want {
				n += count
			}
			s.awaitEvents(t, n)
			time.Sleep(200 * time.Millisecond) // for what must not come
			if diff := cmp.Diff(c.want, s.told(t, port(t, shop))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// shop serves any path, and the script and its reports under other names.
func (c scriptCase) shop(t *testing.T, counter *httptest.Server, siteKey string) http.Handler {
	t.Helper()
	to, err := url.Parse(counter.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := func(path string) http.Handler {
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.URL.Path = path }}
	}
	mux := http.NewServeMux()
	mux.Handle("/js/s.js", proxy("/stats.js"))
	mux.Handle("/js/hit", proxy("/api/collect"))
	mux.Handle("/api/collect", proxy("/api/collect"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		tag := c.tag
		if tag == "" {
			tag = `src="http://counter.example:COUNTER/stats.js"`
		}
		_, own, _ := net.SplitHostPort(r.Host)
		tag = strings.NewReplacer("COUNTER", port(t, counter), "OWN", own).Replace(tag)
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Shop</title><body><script>%s</script><script %s data-site-key="%s"></script>`, c.before, tag, siteKey)
	})
	return mux
}

// told is what arrived: a view by its path, an event by name, path and properties.
func (s siteAPI) told(t *testing.T, shop string) map[string]int {
	t.Helper()
	rows, err := s.db.Pool().Query(t.Context(), `select case when name is null then path else concat_ws(' ', name, path, props::text) end from events where name is distinct from 'end'`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, of := range list {
		count[strings.ReplaceAll(of, ":"+shop, ":PORT")]++
	}
	return count
}
