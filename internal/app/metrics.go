package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
)

var errMetricsToken = fault.New(fault.Unauthenticated, fault.CodeUnauthenticated, "Send `Authorization: Bearer <WAYPOST_METRICS_TOKEN>`.")

// requireToken lets pass who presents the token (RFC 6750, section 2.1). Sums of
// equal length are compared, so that time tells nothing of the token.
func requireToken(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(presented))
		if len(r.Header.Values("Authorization")) != 1 || !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			httpedge.WriteError(w, r, errMetricsToken)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
