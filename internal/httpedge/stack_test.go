package httpedge_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
)

const secretText = "pq: password authentication failed for user root"

// router serves one path per way in which a request can end.
func router(t testing.TB, log io.Writer, o httpedge.Options) http.Handler {
	t.Helper()
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	r := chi.NewRouter()
	if err := httpedge.Use(r, o); err != nil {
		t.Fatal(err)
	}
	fails := func(err error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { httpedge.WriteError(w, r, err) }
	}
	r.Get("/plain", fails(errors.New(secretText)))
	r.Get("/busy", fails(fault.New(fault.RateLimited, fault.CodeRateLimited, "Slower, please.").After(1500*time.Millisecond)))
	r.Get("/wrapped", fails(fmt.Errorf("find: %w", fault.Missing("post").Because(errors.New(secretText)))))
	r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic(secretText) })
	r.Get("/half", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 4096))
		panic(secretText)
	})
	r.Get("/who", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, identity.FromContext(r.Context()).Address.String())
	})
	r.Get("/big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"`+strings.Repeat("a", 5000)+`"`)
	})
	r.Get("/slow", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		httpedge.WriteError(w, r, r.Context().Err())
	})
	r.Post("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	r.Delete("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	r.With(httpedge.CheckQuery).Get("/query", func(http.ResponseWriter, *http.Request) {})
	return r
}

func TestEveryFailureIsAnEnvelopeThatSaysNothingInternal(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, httpedge.Options{Timeout: 20 * time.Millisecond})
	for _, c := range []struct {
		method, path string
		status       int
		code         string
		header       map[string]string
	}{
		{"GET", "/nowhere", 404, "not_found", nil},
		{"GET", "/items/1/", 404, "not_found", nil},
		{"BREW", "/nowhere", 404, "not_found", nil},
		{"PUT", "/items/1", 405, "method_not_allowed", map[string]string{"Allow": "POST, DELETE"}},
		{"BREW", "/items/1", 405, "method_not_allowed", map[string]string{"Allow": "POST, DELETE"}},
		{"POST", "/big", 405, "method_not_allowed", map[string]string{"Allow": "GET, HEAD"}},
		{"GET", "/plain", 500, "internal_error", nil},
		{"GET", "/panic", 500, "internal_error", nil},
		{"GET", "/wrapped", 404, "not_found", nil},
		{"GET", "/busy", 429, "rate_limited", map[string]string{"Retry-After": "2"}},
		{"GET", "/slow", 503, "unavailable", map[string]string{"Retry-After": "1"}},
		{"GET", "/query?a=%zz", 422, "validation_failed", nil},
		{"GET", "/query?a;b", 422, "validation_failed", nil},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			var body struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("not an envelope: %v: %q", err, w.Body)
			}
			if w.Code != c.status || body.Error.Code != c.code || body.Error.Message == "" {
				t.Errorf("got %d %+v, want %d %s", w.Code, body.Error, c.status, c.code)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			for name, want := range c.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if strings.Contains(w.Body.String(), "password") {
				t.Errorf("the body leaks: %s", w.Body)
			}
		})
	}
}

func TestTheCauseReachesTheLogWithTheRequestID(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := router(t, &log, httpedge.Options{})
	r := httptest.NewRequest("GET", "/plain?token=hunter2", nil)
	r.Header.Set("X-Request-Id", "abc-123")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("X-Request-Id"); got != "abc-123" {
		t.Errorf("X-Request-Id %q", got)
	}
	for _, want := range []string{secretText, "abc-123", `"route":"/plain"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, &log)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has the query string: %s", &log)
	}
}

func TestAnInsaneRequestIDIsReplaced(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, httpedge.Options{NewRequestID: func() string { return "made" }})
	for _, sent := range []string{"", "a b", "a\nb", strings.Repeat("a", 129), `"><script>`} {
		r := httptest.NewRequest("GET", "/who", nil)
		r.Header["X-Request-Id"] = []string{sent}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("X-Request-Id"); got != "made" {
			t.Errorf("%q became %q", sent, got)
		}
	}
}

func TestAProxyHeaderCountsOnlyFromATrustedPeer(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, httpedge.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, c := range []struct{ peer, forwarded, want string }{
		{"10.0.0.1:80", "203.0.113.7", "203.0.113.7"},
		{"10.0.0.1:80", "1.1.1.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"},
		{"198.51.100.9:80", "203.0.113.7", "198.51.100.9"},
		{"10.0.0.1:80", "nonsense", "10.0.0.1"},
		{"[::ffff:198.51.100.9]:80", "", "198.51.100.9"},
	} {
		r := httptest.NewRequest("GET", "/who", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if diff := cmp.Diff(c.want, w.Body.String()); diff != "" {
			t.Errorf("peer %s, header %q: %s", c.peer, c.forwarded, diff)
		}
	}
}

func TestLargeAnswersAreCompressedAsAccepted(t *testing.T) {
	t.Parallel()
	h := router(t, io.Discard, httpedge.Options{})
	for accept, want := range map[string]string{"": "", "gzip": "gzip", "br": "br", "zstd": "zstd", "deflate": "", "gzip;q=0": ""} {
		r := httptest.NewRequest("GET", "/big", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q got %q, want %q", accept, got, want)
		}
		if want != "gzip" {
			continue
		}
		zr, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(zr); err != nil || len(b) != 5002 {
			t.Errorf("%d bytes (%v), want 5002", len(b), err)
		}
	}
	r := httptest.NewRequest("GET", "/who", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Encoding"); got != "" {
		t.Errorf("a small answer is %s", got)
	}
}

func TestAPanicAfterBytesHaveLeftCutsTheConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(router(t, io.Discard, httpedge.Options{}))
	t.Cleanup(server.Close)
	res, err := server.Client().Get(server.URL + "/half")
	if err != nil {
		return // cut before the headers: as good
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("a half answer looks whole")
	}
}
