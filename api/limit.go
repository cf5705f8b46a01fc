package api

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/httprate"

	"github.com/waypost/waypost/internal/fault"
)

// rateWindow is what limits are counted over; it slides.
const rateWindow = time.Minute

var errTooMany = fault.New(fault.RateLimited, fault.CodeRateLimited, "Too many requests; slow down.").After(rateWindow)

// limiter counts requests by key; nil lets everything pass.
type limiter struct {
	name   string // of the policy, as clients see it
	max    int    // requests in rateWindow
	window *httprate.RateLimiter
}

func newLimiter(name string, perMinute int) *limiter {
	if perMinute <= 0 {
		return nil
	}
	// The headers are ours.
	return &limiter{name, perMinute, httprate.NewRateLimiter(perMinute, rateWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))}
}

// take counts a request, or returns errTooMany. Either way the answer says how many are
// left.
func (l *limiter) take(w http.ResponseWriter, r *http.Request, key string) error {
	if l == nil {
		return nil
	}
	var err error
	if l.window.OnLimit(w, r, key) {
		err = errTooMany
	}
	_, used, failed := l.window.Status(key)
	if failed == nil {
		now := time.Now()
		addRate(w.Header(), l.name, l.max, l.max-int(math.Round(used)), now.Truncate(rateWindow).Add(rateWindow).Sub(now))
	}
	return err
}

// Headers of answers that are limited: draft-ietf-httpapi-ratelimit-headers-10.
const (
	rateHeader       = "RateLimit"
	ratePolicyHeader = "RateLimit-Policy"
)

// addRate says by which policy an answer is limited, to how many requests a minute, how
// many are left, and when there are more.
func addRate(h http.Header, policy string, perMinute, left int, reset time.Duration) {
	h.Add(ratePolicyHeader, fmt.Sprintf(`"%s";q=%d;w=%d`, policy, perMinute, int(rateWindow.Seconds())))
	h.Add(rateHeader, fmt.Sprintf(`"%s";r=%d;t=%d`, policy, max(left, 0), int(math.Ceil(reset.Seconds()))))
}

// describeRate documents the headers of operations that every caller's are limited of. An
// API token with a rate has them on every answer, which its scheme says.
func describeRate(_ *huma.OpenAPI, op *huma.Operation) {
	if a, ok := op.Metadata[accessKey].(Access); !ok || a.scheme != schemeSiteKey {
		return
	}
	for status, r := range op.Responses {
		if status != strconv.Itoa(http.StatusUnauthorized) && status != strconv.Itoa(http.StatusForbidden) { // nobody's, or another's
			r.Headers[rateHeader], r.Headers[ratePolicyHeader] = headerReference(rateHeader), headerReference(ratePolicyHeader)
		}
	}
}

// addressKey is what one client's addresses have in common: an IPv6 client is
// given a whole /64 (RFC 6177).
func addressKey(a netip.Addr) string {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
