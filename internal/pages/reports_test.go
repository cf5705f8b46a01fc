package pages_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/security"
)

// taker keeps what was counted.
type taker struct {
	full    bool
	counted []string
}

func (k *taker) AdmitReport(netip.Addr) error {
	if k.full {
		return security.ErrTooManyReports
	}
	return nil
}

func (k *taker) CountViolation(v security.Violation, page string) {
	k.counted = append(k.counted, v.Directive+" "+v.Blocked+" "+page)
}

func newTaker(t *testing.T, k *taker) http.Handler {
	t.Helper()
	p, err := pages.New(pages.Reports(k, true))
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	r.Get("/admin/users/{id}", http.NotFound)
	for _, e := range p.Routes() {
		r.Method(e.Method, e.Pattern, e.Handler)
	}
	return r
}

func TestAReportIsCountedByTheRouteOfItsPage(t *testing.T) {
	t.Parallel()
	k := &taker{}
	h := newTaker(t, k)
	for name, c := range map[string]struct {
		body, mediaType string
		full            bool
		want            int
	}{
		"a report":            {body: violationOn("/admin/users/7?token=secret"), want: 204},
		"of no page of ours":  {body: violationOn("/secret"), want: 204},
		"too large":           {body: violationOn("/" + strings.Repeat("x", security.MaxReportBody)), want: 413},
		"no report":           {body: "{", want: 400},
		"another type":        {body: "{}", mediaType: "text/html", want: 415},
		"too many":            {body: violationOn("/admin/users/7"), full: true, want: 429},
		"a path of nothing":   {body: violationOn("%zz"), want: 204},
		"the reports' own":    {body: violationOn("/csp-reports"), want: 204},
		"somebody else's URL": {body: `{"csp-report":{"document-uri":"https://evil.example","effective-directive":"img-src","blocked-uri":"x"}}`, want: 204},
	} {
		r := httptest.NewRequest("POST", pages.ReportsPath, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/csp-report")
		if c.mediaType != "" {
			r.Header.Set("Content-Type", c.mediaType)
		}
		k.full = c.full
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.want)
		}
		if w.Code != 204 && !strings.Contains(w.Body.String(), `"error"`) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	named := strings.Join(k.counted, "\n")
	if strings.Contains(named, "secret") || strings.Contains(named, "/7") {
		t.Errorf("counted %s", named)
	}
	if diff := cmp.Diff(1, strings.Count(named, "img-src https://evil.example /admin/users/{id}")); diff != "" {
		t.Errorf("%s%s", named, diff)
	}
}

func violationOn(path string) string {
	return `{"csp-report":{"document-uri":"https://a.example` + path + `","effective-directive":"img-src","blocked-uri":"https://evil.example/x"}}`
}
