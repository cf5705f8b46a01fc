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

func TestPagesSayWhereViolationsAreReported(t *testing.T) {
	t.Parallel()
	h := fetch(serveMux(newDocs(t, Options{ReportTo: "; report-uri /reports", ReportingEndpoints: `csp="/reports"`})), "/docs").Header
	if !strings.HasSuffix(h.Get("Content-Security-Policy"), "; report-uri /reports") || h.Get("Reporting-Endpoints") != `csp="/reports"` {
		t.Errorf("%v", h)
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

func TestEveryFormIsServedWithTagsAndFreshness(t *testing.T) {
	t.Parallel()
	d := newDocs(t, Options{Description: strings.Repeat("Long enough to be compressed. ", 99)})
	mux := serveMux(d)
	for path, want := range map[string]struct {
		form                  Form
		mediaType, attachment string
	}{
		"/docs/openapi.json":              {JSON, "application/json", ""},
		"/docs/openapi.yaml":              {YAML, "application/yaml", ""},
		"/docs/openapi-3.0.json":          {JSON30, "application/json", ""},
		"/docs/llms.txt":                  {Index, "text/plain; charset=utf-8", ""},
		"/docs/llms-full.txt":             {Markdown, "text/plain; charset=utf-8", ""},
		"/llms.txt":                       {Index, "text/plain; charset=utf-8", ""},
		"/llms-full.txt":                  {Markdown, "text/plain; charset=utf-8", ""},
		"/docs/export/collection":         {Postman, "application/json", "postman_collection.json"},
		"/docs/export/workspace":          {Insomnia, "application/json", "insomnia.json"},
		"/docs/export/workspace?format=4": {Insomnia, "application/json", "insomnia.json"},
		"/docs/export/workspace?format=5": {InsomniaV5, "application/yaml", "insomnia.yaml"},
	} {
		plain := fetch(mux, path)
		bytes, err := d.Bytes(want.form)
		if err != nil || body(t, plain) != string(bytes) {
			t.Errorf("%s is not the %s form (%v)", path, want.form, err)
		}
		disposition := ""
		if want.attachment != "" {
			disposition = `attachment; filename="` + want.attachment + `"`
		}
		r := fetch(mux, path, "Accept-Encoding", "gzip")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != want.mediaType || r.Header.Get("Content-Disposition") != disposition || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		tag := r.Header.Get("ETag")
		if tag == "" || strings.HasPrefix(tag, "W/") || tag == plain.Header.Get("ETag") {
			t.Errorf("%s: ETag %s, without a coding %s", path, tag, plain.Header.Get("ETag"))
		}
		if again := fetch(mux, path, "Accept-Encoding", "gzip", "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d for its own tag", path, again.StatusCode)
		}
		head := httptest.NewRecorder()
		mux.ServeHTTP(head, httptest.NewRequest("HEAD", path, nil))
		if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != plain.Header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d, %d bytes, %v", path, head.Code, head.Body.Len(), head.Header())
		}
	}
	if _, err := d.Bytes("docx"); err == nil {
		t.Error("there is a form that nobody makes")
	}
	if r := fetch(mux, "/docs/"); r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != "/docs" {
		t.Errorf("/docs/: %d to %s", r.StatusCode, r.Header.Get("Location"))
	}
}

func TestExportHintsAreUsedAndNotServed(t *testing.T) {
	t.Parallel()
	o := Describe().ID("x").Tags("X").Extension("x-waypost-export", map[string]any{"summary": "Try it"}).Response(204, nil, "")
	mux := serveMux(newDocs(t, Options{Routes: []Route{{Method: "GET", Path: "/x", Operation: o}}}))
	for path, shown := range map[string]bool{"/docs/openapi.json": false, "/docs/openapi.yaml": false, "/docs/llms.txt": false, "/docs/export/collection": true, "/docs/export/workspace": true} {
		page := body(t, fetch(mux, path))
		if strings.Contains(page, "Try it") != shown || strings.Contains(page, "x-waypost-export") {
			t.Errorf("%s: %v is not right", path, shown)
		}
	}
}
