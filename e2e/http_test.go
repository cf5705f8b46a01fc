package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestEveryRefusalHasTheEnvelope(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, "PAYMENT_WEBHOOK_SECRET=s")
	big := `{"email":"` + strings.Repeat("a", 2<<20) + `"}`
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"unknown path", "GET", "/nowhere", "", nil, 404, "not_found"},
		{"unknown path below a known one", "GET", "/api/stats/nothing", "", nil, 404, "not_found"},
		{"trailing slash", "GET", "/api/posts/", "", nil, 404, "not_found"},
		{"double slash", "GET", "//api/posts", "", nil, 404, "not_found"},
		{"encoded slash", "GET", "/api%2Fposts", "", nil, 404, "not_found"},
		{"wrong method", "DELETE", "/api/posts", "", nil, 405, "method_not_allowed"},
		{"wrong method on an alias", "DELETE", "/posts", "", nil, 405, "method_not_allowed"},
		{"wrong method on the receiver", "GET", "/webhooks/payment", "", nil, 405, "method_not_allowed"},
		{"wrong method on the docs", "POST", "/docs/openapi.json", "", nil, 405, "method_not_allowed"},
		{"unknown method", "BREW", "/api/posts", "", nil, 405, "method_not_allowed"},
		{"2 MB body", "POST", "/api/auth/login", big, []string{"Content-Type", "application/json"}, 413, "payload_too_large"},
		{"2 MB delivery", "POST", "/webhooks/payment", big, nil, 413, "payload_too_large"},
		{"broken JSON", "POST", "/api/auth/login", `{"email":`, []string{"Content-Type", "application/json"}, 400, "invalid_json"},
		{"no body", "POST", "/api/auth/login", "", []string{"Content-Type", "application/json"}, 400, "invalid_json"},
		{"unknown field", "POST", "/api/auth/login", `{"email":"a@b.example","password":"x","x":1}`, nil, 422, "validation_failed"},
		{"field in another case", "POST", "/api/auth/login", `{"Email":"a@b.example","password":"x"}`, nil, 422, "validation_failed"},
		{"null", "POST", "/api/auth/login", `{"email":null,"password":"x"}`, nil, 422, "validation_failed"},
		{"NUL in a string", "POST", "/api/auth/login", `{"email":"a@b.example","password":"\u0000"}`, nil, 422, "validation_failed"},
		{"lone surrogate", "POST", "/api/auth/login", `{"email":"a@b.example","password":"\ud800"}`, nil, 422, "validation_failed"},
		{"another media type", "POST", "/api/auth/login", `<a/>`, []string{"Content-Type", "application/xml"}, 415, "unsupported_media_type"},
		{"malformed query", "GET", "/api/posts?limit=%zz", "", nil, 422, "validation_failed"},
		{"no token", "GET", "/api/posts", "", nil, 401, "unauthenticated"},
		{"a token that is none", "GET", "/api/posts", "", []string{"Authorization", "Bearer x.y.z"}, 401, "token_invalid"},
		{"two tokens", "GET", "/api/posts", "", []string{"Authorization", "Bearer a", "Authorization", "Bearer b"}, 401, "unauthenticated"},
		{"a token in the query", "GET", "/api/posts?access_token=x", "", nil, 401, "unauthenticated"},
		{"tools without a token", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, 401, "unauthenticated"},
		{"tools for another origin", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Origin", "https://evil.example"}, 403, "forbidden"},
		{"tools by GET", "GET", "/mcp", "", nil, 405, "method_not_allowed"},
		{"the end of a session of tools", "DELETE", "/mcp", "", nil, 405, "method_not_allowed"},
		{"malformed query of tools", "POST", "/mcp?tags=%zz", "{}", nil, 422, "validation_failed"},
		{"no site key", "GET", "/api/stats/summary", "", nil, 401, "invalid_api_key"},
		{"unknown site key", "POST", "/api/collect", `{"site_key":"wps_x","url":"https://a.example/"}`, nil, 401, "invalid_site_key"},
		{"unknown provider", "POST", "/webhooks/nobody", "{}", nil, 404, "provider_not_found"},
		{"unsigned delivery", "POST", "/webhooks/payment", "{}", nil, 401, "invalid_signature"},
		{"wrong password", "POST", "/api/auth/login", `{"email":"a@b.example","password":"wrong password"}`, nil, 401, "invalid_credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := outside.Do(t, c.method, p.url+c.path, c.body, c.header...)
			wantError(t, a, c.status, c.code)
			if c.status == http.StatusMethodNotAllowed && a.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
}

func TestAServiceSaysWhereThingsAreAndThatItIsReady(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	var index struct {
		Data struct {
			EntryPoints map[string]string `json:"entry_points"`
		}
	}
	a := outside.Do(t, "GET", p.url+"/", "")
	a.Into(t, &index)
	if got := index.Data.EntryPoints["docs"]; got != "https://waypost.example/docs" {
		t.Errorf("docs at %q", got)
	}
	browser := outside.Do(t, "GET", p.url+"/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if browser.Status != 200 || browser.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(string(browser.Body), `href="docs/export/collection"`) ||
		browser.Header.Get("Vary") != "Accept" || browser.Header.Get("X-Request-Id") == "" {
		t.Errorf("for a browser: %d %v %s", browser.Status, browser.Header, browser.Body)
	}
	var ready struct{ Checks map[string]string }
	outside.Do(t, "GET", p.url+"/readyz", "").Into(t, &ready)
	if diff := cmp.Diff(map[string]string{"serving": "ok", "database": "ok", "migrations": "ok", "jobs": "ok", "geoip": "not configured", "audit": "ok", "mail": "off", "search": "ok", "storage": "not configured"}, ready.Checks); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options":    "nosniff",
		"X-Frame-Options":           "DENY",
		"Strict-Transport-Security": "max-age=31536000; includeSubDomains",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAnAnswerSaysOnceThatItVariesOnTheCoding(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	for _, path := range []string{
		"/", "/docs", "/docs/openapi.json", "/docs/openapi.yaml", "/docs/export/collection", "/docs/export/workspace",
		"/docs/export/workspace?format=5", "/docs/llms.txt", "/stats.js", "/api/posts", "/nowhere",
	} {
		a := outside.Do(t, "GET", p.url+path, "", "Accept-Encoding", "gzip")
		want := []string{"Accept-Encoding"}
		if path == "/" { // a page for browsers
			want = []string{"Accept", "Accept-Encoding"}
		}
		if diff := cmp.Diff(want, a.Header.Values("Vary")); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
}

func TestAStopFinishesTheRequestInFlight(t *testing.T) {
	t.Parallel()
	p, _ := serve(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"email":"a@b.example","password":"wrong password"}`
	// The server has the request's head, and waits for its body, when it is told to stop.
	fmt.Fprintf(conn, "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	answer := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if err := conn.SetDeadline(time.Now().Add(outside.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil || !bytes.Contains(answer, []byte("100 Continue")) {
		t.Fatalf("%q, %v", answer, err)
	}
	go p.stop(t)
	p.waitFor(t, "the stop to begin", func() bool { return strings.Contains(p.stderr.String(), "finishing requests in flight") })
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(rest, []byte("HTTP/1.1 401 ")) {
		t.Errorf("%.100q, %v", rest, err)
	}
	<-p.exited
	if p.err != nil {
		t.Errorf("waypost ended with %v", p.err)
	}
}

// serve is startServe on a fresh database, with its connection string.
func serve(t *testing.T, env ...string) (*process, string) {
	t.Helper()
	url := dbtest.NewURL(t).App
	return startServe(t, url, env...), url
}
