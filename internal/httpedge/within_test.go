package httpedge

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/identity"
)

// A request within another is its client's, to everybody who asks: guards, limits, the audit
// log and whoever reads the log.
func TestARequestWithinAnotherIsItsClients(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	proxies := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if err := Use(r, Options{Logger: slog.New(slog.DiscardHandler), TrustedProxies: proxies}); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		principal           identity.Principal
		id, authorization   string
		host, accept, media string
		route, param, query string
		traceparent, cookie string
		body                string
	}
	var inner seen
	var outerPrincipal identity.Principal
	var outerID, routeAfterwards string
	r.Put("/things/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		inner = seen{
			identity.FromContext(r.Context()), RequestID(r.Context()), r.Header.Get("Authorization"),
			r.Host, r.Header.Get("Accept"), r.Header.Get("Content-Type"),
			chi.RouteContext(r.Context()).RoutePattern(), chi.URLParam(r, "id"), r.URL.Query().Get("q"),
			r.Header.Get("Traceparent"), r.Header.Get("Cookie"), string(body),
		}
		w.WriteHeader(http.StatusNoContent)
	})
	r.Post("/outer", func(w http.ResponseWriter, req *http.Request) {
		outerPrincipal, outerID = identity.FromContext(req.Context()), RequestID(req.Context())
		in, err := Within(req.Context(), req, http.MethodPut, "/things/a%2Fb?q=c+d", []byte("{}"))
		if err != nil {
			t.Error(err)
			return
		}
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, in)
		if answer.Code != http.StatusNoContent || answer.Header().Get("X-Request-Id") != outerID {
			t.Errorf("%d %v", answer.Code, answer.Header())
		}
		routeAfterwards = chi.RouteContext(req.Context()).RoutePattern()
	})
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/outer", nil)
	req.RemoteAddr = "192.0.2.7:1234"
	for name, value := range map[string]string{
		"X-Forwarded-For": "203.0.113.9", "Authorization": "Bearer a", "User-Agent": "an assistant", "Cookie": "a=b", "Accept": "text/event-stream",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		req.Header.Set(name, value)
	}
	r.ServeHTTP(httptest.NewRecorder(), req)
	want := seen{
		outerPrincipal, outerID, "Bearer a", "example.com", "application/json", "application/json", "/things/{id}", "a%2Fb", "c d", "", "", "{}",
	}
	if inner != want {
		t.Errorf("%+v, want %+v", inner, want)
	}
	if got := inner.principal.Address.String(); got != "203.0.113.9" || inner.principal.UserAgent != "an assistant" || outerID == "" {
		t.Errorf("the address is %s, the client %q, the id %q", got, inner.principal.UserAgent, outerID)
	}
	if routeAfterwards != "/outer" {
		t.Errorf("the outer request's route became %q", routeAfterwards)
	}
}
