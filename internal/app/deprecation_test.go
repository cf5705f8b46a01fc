package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/config"
)

func TestADeprecatedOperationSaysSoInEachAnswer(t *testing.T) {
	t.Parallel()
	c, err := config.Read(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := resources(c, new(Services), nil, api.Condition{}, Extensions{})
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	r := chi.NewRouter()
	docs, _, err := mount(r, c.Docs, api.Options{BaseURL: baseURL(c), Resources: list}, Extensions{Overrides: func(o *apidoc.Overrides) {
		o.Operation(http.MethodGet, "/api/posts/{id}").Deprecated(since)
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	h := deprecating(r, docs)
	for target, want := range map[string]string{
		"GET /api/posts/7": fmt.Sprintf("@%d", since.Unix()), "PATCH /api/posts/7": "", "GET /healthz": "", "GET /api/nothing": "",
	} {
		var method, path string
		if _, err := fmt.Sscan(target, &method, &path); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		// Without its services an operation can't answer; it says so before.
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		}()
		if got := w.Header().Get("Deprecation"); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
