package httpedge_test

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/httpedge"
)

// overTCP serves a handler behind the stack, where an answer may take limit, and
// sends it a request of a client that accepts a coding.
func overTCP(t *testing.T, limit time.Duration, coding string, body io.Reader, h http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	r.Post("/", h)
	server := httptest.NewUnstartedServer(r)
	server.Config.WriteTimeout = limit
	server.Start()
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", coding)
	return server.Client().Do(req)
}

func TestACompressedAnswerCanBeGivenMoreTime(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		t.Run(coding, func(t *testing.T) {
			t.Parallel()
			const limit = 200 * time.Millisecond
			resp, err := overTCP(t, limit, coding, nil, func(w http.ResponseWriter, _ *http.Request) {
				if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(w, strings.Repeat("first ", 1000))
				time.Sleep(2 * limit)
				_, _ = io.WriteString(w, "last")
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if got := resp.Header.Get("Content-Encoding"); got != coding && coding != "identity" {
				t.Errorf("the coding is %q", got)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestABodysDeadlineHoldsForClientsThatAcceptCompression(t *testing.T) {
	t.Parallel()
	slow, end := io.Pipe()
	defer func() { _ = end.Close() }()
	var read error
	resp, err := overTCP(t, time.Minute, "gzip", slow, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Error(err)
			return
		}
		_, read = io.ReadAll(r.Body)
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if !errors.Is(read, os.ErrDeadlineExceeded) {
		t.Errorf("the body ended with %v", read)
	}
}

func TestAFlushedPieceArrivesCompressed(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	piece := strings.Repeat("piece ", 1000)
	resp, err := overTCP(t, time.Minute, "gzip", nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, piece)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		select {
		case <-arrived:
		case <-r.Context().Done():
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(piece))
	if _, err := io.ReadFull(z, got); err != nil || string(got) != piece {
		t.Errorf("%.20q, %v", got, err)
	}
	close(arrived)
}
