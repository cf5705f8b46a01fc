package apidoc

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// serveMux mounts the documentation as a router would.
func serveMux(d *Docs) *http.ServeMux {
	mux := http.NewServeMux()
	for _, e := range d.Routes() {
		pattern := e.Pattern
		if strings.HasSuffix(pattern, "/") {
			pattern += "{$}"
		}
		mux.Handle("GET "+pattern, e.Handler) // HEAD too
	}
	return mux
}

func fetch(h http.Handler, target string, header ...string) *http.Response {
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(b.String(), "\r\n\r\n")
	return text
}

func TestTheRequestOrElseTheOptionsChooseTheUI(t *testing.T) {
	t.Parallel()
	for configured, byDefault := range map[UI]string{Alternate: "swagger-ui-bundle", Primary: "standalone"} {
		mux := serveMux(newDocs(t, Options{UI: configured}))
		for query, want := range map[string]string{"": byDefault, "?ui=primary": "standalone", "?ui=alternate": "swagger-ui-bundle", "?ui=other": byDefault, "?ui=": byDefault, "?%zz": byDefault} {
			r := fetch(mux, "/docs"+query)
			page := body(t, r)
			if r.StatusCode != 200 || !strings.Contains(page, "assets/"+want+".") {
				t.Errorf("default %d, %q: %d, want %s", configured, query, r.StatusCode, want)
			}
			if !strings.Contains(page, `href="?ui=primary"`) || !strings.Contains(page, `href="?ui=alternate"`) {
				t.Error("no link between the UIs")
			}
		}
	}
}

var reference = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

func TestEverythingAPageRefersToIsServedByUs(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"/docs", "/deep/er/docs"} {
		mux := serveMux(newDocs(t, Options{Prefix: prefix}))
		for _, kind := range []string{"primary", "alternate"} {
			page := body(t, fetch(mux, prefix+"?ui="+kind))
			base, _ := url.Parse(prefix)
			assets := 0
			for _, m := range reference.FindAllStringSubmatch(page, -1) {
				if m[1] == "data:," || strings.HasPrefix(m[1], "?") {
					continue
				}
				target, err := base.Parse(m[1])
				if err != nil || target.Host != "" {
					t.Fatalf("%s refers to %s", kind, m[1])
				}
				r := fetch(mux, target.String(), "Accept-Encoding", "br")
				if r.StatusCode != 200 || r.Header.Get("ETag") == "" {
					t.Errorf("%s: %d", target, r.StatusCode)
				}
				if strings.Contains(target.Path, "/assets/") {
					assets++
					if got := r.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
						t.Errorf("%s: Cache-Control %s", target, got)
					}
				}
			}
			if assets < 3 {
				t.Errorf("%s: %d assets", kind, assets)
			}
		}
	}
}

func TestPagesRunUnderAStrictPolicy(t *testing.T) {
	t.Parallel()
	mux := serveMux(newDocs(t, Options{}))
	for kind, styles := range map[string]string{"primary": "style-src 'self' 'unsafe-inline';", "alternate": "style-src 'self';"} {
		got := fetch(mux, "/docs?ui="+kind).Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none';", "script-src 'self';", styles, "connect-src 'self' https://api.example.com;", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", kind, got, want)
			}
		}
		if strings.Contains(got, "eval") {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

func TestAReadOnlyPageCarriesTheDescriptionAndMayConnectNowhere(t *testing.T) {
	t.Parallel()
	mux := serveMux(newDocs(t, Options{ReadOnly: true, Title: "</script><script>alert(1)</script>", Description: "</script>"}))
	for _, kind := range []string{"primary", "alternate"} {
		r := fetch(mux, "/docs?ui="+kind)
		if got := r.Header.Get("Content-Security-Policy"); !strings.Contains(got, "connect-src 'none'") {
			t.Errorf("%s: %s", kind, got)
		}
		page := body(t, r)
		if !strings.Contains(page, "get-article") {
			t.Errorf("%s: the description is not in the page", kind)
		}
		if strings.Contains(page, "alert(1)</script>") || strings.Count(page, "</script>") != strings.Count(page, "<script") {
			t.Errorf("%s: text became markup", kind)
		}
	}
}

func TestTheDescriptionIsServedWithTagsAndFreshness(t *testing.T) {
	t.Parallel()
	mux := serveMux(newDocs(t, Options{}))
	for path, mediaType := range map[string]string{"/docs/openapi.json": "application/json", "/docs/openapi.yaml": "application/yaml"} {
		r := fetch(mux, path, "Accept-Encoding", "gzip")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != mediaType || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		if again := fetch(mux, path, "Accept-Encoding", "gzip", "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d for its own tag", path, again.StatusCode)
		}
	}
	if r := fetch(mux, "/docs/"); r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != "/docs" {
		t.Errorf("/docs/: %d to %s", r.StatusCode, r.Header.Get("Location"))
	}
}
