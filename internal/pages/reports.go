package pages

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/security"
)

// ReportsPath is where browsers report what a page's policy forbade.
const ReportsPath = "/csp-reports"

// reportTimeout bounds the reading of a report.
const reportTimeout = 5 * time.Second

// ReportTaker counts reports. AdmitReport returns security.ErrTooManyReports.
type ReportTaker interface {
	AdmitReport(from netip.Addr) error
	CountViolation(v security.Violation, page string)
}

// Reporting is what a policy ends with, and the header Reporting-Endpoints that goes with
// it. Browsers that know report-to leave report-uri out, and take endpoints by https
// alone (W3C Reporting API, section 3.3).
func Reporting(https bool) (policy, endpoints string) {
	policy = "; report-uri " + ReportsPath
	if https {
		return policy + "; report-to csp", `csp="` + ReportsPath + `"`
	}
	return policy, ""
}

// Reports takes what browsers report of this service's pages, from anybody.
func Reports(s ReportTaker, https bool) Group {
	return func(p *Pages) []Endpoint {
		p.reporting, p.endpoints = Reporting(https)
		return []Endpoint{{http.MethodPost, ReportsPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := takeReports(s, w, r); err != nil {
				httpedge.WriteError(w, r, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})}}
	}
}

var (
	errReportSlow = fault.New(fault.Timeout, fault.CodeRequestTimeout, "The report did not arrive in time.")
	errReportSize = fault.New(fault.TooLarge, fault.CodePayloadTooLarge, "The report is too large.")
)

// takeReports counts what is a violation on one of the router's own pages. Of the page's
// address nothing but the route is kept: in the rest may be the secret of a mailed link.
func takeReports(s ReportTaker, w http.ResponseWriter, r *http.Request) error {
	if err := s.AdmitReport(identity.FromContext(r.Context()).Address); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(reportTimeout)) // a test's recorder has none, and no slow clients
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, security.MaxReportBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return errReportSize.Because(err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errReportSlow.Because(err)
	}
	if err != nil {
		return security.ErrReport.Because(err)
	}
	_ = control.SetReadDeadline(time.Time{})
	list, err := security.ParseReports(r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	for _, v := range list {
		s.CountViolation(v, routeOf(r.Context(), v.Path))
	}
	return nil
}

// routeOf is the pattern of the route that answers GET at a path, "" where none does.
func routeOf(ctx context.Context, path string) string {
	routes := chi.RouteContext(ctx).Routes
	found := chi.NewRouteContext()
	if path == "" || path[0] != '/' || routes == nil || !routes.Match(found, http.MethodGet, path) {
		return ""
	}
	return found.RoutePattern()
}
