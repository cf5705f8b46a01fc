package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

// failing serves operations that end in every way but well.
func failing(t *testing.T) http.Handler {
	t.Helper()
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	config := huma.DefaultConfig("test", "1")
	config.CreateHooks = nil
	a := humachi.New(r, config)
	a.UseMiddleware(guard(nil, nil, nil), readJSON)
	operation := func(path string, declared bool, fn func() error) {
		op := huma.Operation{OperationID: path, Method: http.MethodGet, Path: path}
		if declared {
			op = access(op, public())
		}
		huma.Register(a, op, func(context.Context, *struct{}) (*struct{ Body string }, error) { return nil, fn() })
	}
	operation("/plain", true, func() error { return errors.New("pq: secret text") })
	operation("/fault", true, func() error { return fault.Missing("thing").Because(errors.New("secret text")) })
	operation("/panic", true, func() error { panic("secret text") })
	operation("/undeclared", false, func() error { return nil })
	return r
}

func TestAnOperationsFailureNeverShowsItsText(t *testing.T) {
	t.Parallel()
	h := failing(t)
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/plain":      {500, "internal_error"},
		"/fault":      {404, "not_found"},
		"/panic":      {500, "internal_error"},
		"/undeclared": {403, "forbidden"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body := w.Body.String()
		if w.Code != want.status || !strings.Contains(body, `"code":"`+want.code+`"`) || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type %q", path, got)
		}
	}
}

func TestAnOperationWithoutDeclaredAccessStopsTheStart(t *testing.T) {
	t.Parallel()
	a := humachi.New(chi.NewRouter(), huma.DefaultConfig("test", "1"))
	huma.Register(a, huma.Operation{OperationID: "open", Method: http.MethodGet, Path: "/open"},
		func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	if err := checkAccess(a); err == nil || !strings.Contains(err.Error(), "/open") {
		t.Errorf("checkAccess: %v", err)
	}
}
