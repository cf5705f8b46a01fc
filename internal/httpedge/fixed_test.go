package httpedge_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/httpedge"
)

// fixed serves body behind the short stack, and panics at /panic.
func fixed(t *testing.T, log io.Writer, body string) http.Handler {
	t.Helper()
	h, err := httpedge.Fixed(httpedge.Options{Logger: slog.New(slog.NewJSONHandler(log, nil)), HTTPS: true},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic(secretText)
			}
			_, _ = io.WriteString(w, body)
		}))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAFixedAnswerHasTheHeadersAndTheLogLineOfAnyOther(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("long enough to be compressed ", 100)
	full := httptest.NewRecorder()
	router(t, io.Discard, httpedge.Options{HTTPS: true}).ServeHTTP(full, httptest.NewRequest("GET", "/who", nil))
	r := httptest.NewRequest("GET", "/file?token=hidden", nil)
	r.Header.Set("X-Request-Id", "mine-1")
	r.Header.Set("Accept-Encoding", "gzip")
	var log bytes.Buffer
	w := httptest.NewRecorder()
	fixed(t, &log, body).ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != body {
		t.Errorf("status %d, %d bytes: not as they were written", w.Code, w.Body.Len())
	}
	want := full.Header().Clone()
	want.Set("X-Request-Id", "mine-1")
	want.Del("Vary") // compression's
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("headers against those of a route: %s", diff)
	}
	var line struct {
		Msg, Method, Path string
		Status, Bytes     int
		RequestID         string `json:"request_id"`
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	if line.Msg != "request" || line.Method != "GET" || line.Path != "/file" || line.Status != 200 || line.Bytes != len(body) || line.RequestID != "mine-1" {
		t.Errorf("log: %+v", line)
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("the query string is in the log: %s", &log)
	}
}

func TestAPanicBehindTheShortStackIsABareEnvelope(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := httptest.NewRecorder()
	fixed(t, &log, "").ServeHTTP(w, httptest.NewRequest("GET", "/panic", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"internal_error"`) || strings.Contains(w.Body.String(), secretText) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), secretText) || !strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("the log lacks the cause: %s", &log)
	}
}

// The headers that answers share stay what they are when an answer changes its own.
func TestAnAnswersOwnHeaderIsNoOtherAnswers(t *testing.T) {
	t.Parallel()
	loosens := true
	h, err := httpedge.Fixed(httpedge.Options{Logger: slog.New(slog.DiscardHandler)}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if loosens {
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
			w.Header().Add("X-Frame-Options", "SAMEORIGIN")
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		want := []string{"DENY"}
		if loosens {
			want = append(want, "SAMEORIGIN")
		}
		if diff := cmp.Diff(want, w.Header()["X-Frame-Options"]); diff != "" {
			t.Error(diff)
		}
		if got := w.Header().Get("Content-Security-Policy") == "default-src 'self'"; got != loosens {
			t.Errorf("policy %q", w.Header().Get("Content-Security-Policy"))
		}
		loosens = false
	}
}
