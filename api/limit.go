package api

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/httprate"

	"github.com/waypost/waypost/internal/fault"
)

// rateWindow is what limits are counted over; it slides.
const rateWindow = time.Minute

var errTooMany = fault.New(fault.RateLimited, fault.CodeRateLimited, "Too many requests; slow down.").After(rateWindow)

// limiter counts requests by key; nil lets everything pass.
type limiter struct {
	window *httprate.RateLimiter
}

func newLimiter(perMinute int) *limiter {
	if perMinute <= 0 {
		return nil
	}
	// The envelope says when to return; nothing else is promised.
	return &limiter{httprate.NewRateLimiter(perMinute, rateWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))}
}

// take counts a request, or returns errTooMany.
func (l *limiter) take(w http.ResponseWriter, r *http.Request, key string) error {
	if l != nil && l.window.OnLimit(w, r, key) {
		return errTooMany
	}
	return nil
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
