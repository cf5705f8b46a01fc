package httpedge

import (
	"net/http"
	"time"
)

// Names of the cookie that ties a provider's answer to the browser that left for it. A
// browser takes the first over https alone, and from no other host; a service whose own
// URL is http, for development, uses the second.
const (
	browserCookie      = "__Host-waypost_oauth"
	plainBrowserCookie = "waypost_oauth"
)

func browserCookieName(https bool) string {
	if https {
		return browserCookie
	}
	return plainBrowserCookie
}

// NewBrowserCookie is the cookie with a browser's secret, for that long.
func NewBrowserCookie(https bool, secret string, lasts time.Duration) http.Cookie {
	return http.Cookie{
		Name: browserCookieName(https), Value: secret, Path: "/", MaxAge: int(lasts.Seconds()),
		HttpOnly: true, Secure: https, SameSite: http.SameSiteLaxMode,
	}
}

// BrowserSecret is the secret in the cookie of r, "" for none. The plain cookie, which
// another host may have planted, is believed over http alone.
func BrowserSecret(https bool, r *http.Request) string {
	c, err := r.Cookie(browserCookieName(https))
	if err != nil {
		return ""
	}
	return c.Value
}
