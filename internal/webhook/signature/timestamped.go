package signature

import (
	"net/http"
	"time"
)

// Timestamped is the scheme `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`: valid when
// any v1 is the HMAC-SHA256 of `<t as sent>.<body>` and t is within five minutes
// of now. Other schemes in the header are ignored.
type Timestamped struct {
	Header string // the header's name
}

// Scheme is the same in general terms.
func (s Timestamped) Scheme() Scheme {
	return Scheme{Header: s.Header, Separator: ",", TimestampPrefix: "t=", Prefix: "v1=", Template: "{timestamp}.{body}"}
}

// Validate returns an error when the header's name is none.
func (s Timestamped) Validate() error { return s.Scheme().Validate() }

// Headers names the headers that carry the signature.
func (s Timestamped) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors.
func (s Timestamped) Verify(secret, body []byte, h http.Header, now time.Time) error {
	return s.Scheme().Verify(secret, body, h, now)
}

// Sign sets the header as the provider would at the time now.
func (s Timestamped) Sign(secret, body []byte, h http.Header, now time.Time) {
	s.Scheme().Sign(secret, body, h, now)
}
