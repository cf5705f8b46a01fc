package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/waypost/waypost/internal/text"
)

// Limits of what a target may be given.
const (
	defaultTargetTimeout     = 15 * time.Second
	maxTargetTimeout         = 30 * time.Second
	defaultTargetConcurrency = 16
	maxTargetConcurrency     = 256
	maxTargetName            = 100 // characters
	// catchAllTarget names the only target of a binding for all types.
	catchAllTarget = "default"
)

// ForwardTarget is a URL that events are posted to, signed. Provider, URL and SecretEnv are
// mandatory.
type ForwardTarget struct {
	// Provider and EventType say which events; with the empty type all those without a
	// binding of their own.
	Provider, EventType string
	// Name is unique among the provider's targets; default EventType, or "default".
	Name string
	URL  string
	// SecretEnv names the variable with the signing secret. While SecretEnv+"_PREVIOUS" is
	// set, that secret signs too.
	SecretEnv string
	// Attempts is how often an event is posted before it fails, at most 100; default 10,
	// over three days.
	Attempts int
	// Timeout bounds one attempt, the answer's body included; default 15 s, at most 30 s.
	Timeout time.Duration
	// Concurrency is how many attempts each instance makes at the same time; default 16, at
	// most 256.
	Concurrency int
	// Rate is how many attempts a second each instance begins; 0 is as many as there are.
	Rate float64
	// Headers are sent besides those of Waypost, which they can't replace.
	Headers map[string]string
	// PassHeaders hands on the headers that the provider sent, its signature included.
	PassHeaders bool
}

func (t ForwardTarget) withDefaults() ForwardTarget {
	t.Name = cmp.Or(t.Name, t.EventType, catchAllTarget)
	t.Timeout = cmp.Or(t.Timeout, defaultTargetTimeout)
	t.Concurrency = cmp.Or(t.Concurrency, defaultTargetConcurrency)
	return t
}

var targetName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// check leaves the provider's existence to the registry, which knows them all.
func (t ForwardTarget) check() error {
	u, err := url.Parse(t.URL)
	switch {
	case t.URL == "":
		return errors.New("forward: no url")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("forward: its url is not an absolute http(s) URL")
	case u.User != nil:
		return errors.New("forward: its url holds a user; leave it out, since deliveries are signed instead")
	case t.SecretEnv == "":
		return errors.New("forward: no secret_env, the name of the variable with the signing secret")
	case !variableName.MatchString(t.SecretEnv) || strings.HasPrefix(strings.ToLower(t.SecretEnv), "whsec_"):
		return errors.New("forward: its secret_env is not a valid name of an environment variable")
	case t.Name != "" && t.Name != t.EventType && !targetName.MatchString(t.Name):
		return errors.New("forward: a name is 1 to 100 of letters, digits, full stops, - and _")
	case utf8.RuneCountInString(t.Name) > maxTargetName || !text.Storable(t.Name):
		return fmt.Errorf("forward: a name has at most %d characters", maxTargetName)
	case t.Attempts < 0 || t.Attempts > maxAttempts:
		return fmt.Errorf("forward: attempts is 1 to %d", maxAttempts)
	case t.Timeout < 0 || t.Timeout > maxTargetTimeout || t.Timeout > 0 && t.Timeout < time.Millisecond:
		return fmt.Errorf("forward: timeout is at most %v", maxTargetTimeout)
	case t.Concurrency < 0 || t.Concurrency > maxTargetConcurrency:
		return fmt.Errorf("forward: concurrency is 1 to %d", maxTargetConcurrency)
	case t.Rate < 0:
		return errors.New("forward: rate is positive")
	}
	return t.checkHeaders()
}

// ownHeaders are those that a forward sets itself, or that belong to its connection.
var ownHeaders = []string{
	"Connection", "Content-Length", "Content-Type", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Accept-Encoding", "Expect", "Traceparent", "Tracestate",
}

func isOwnHeader(name string) bool {
	return slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Waypost-")
}

// checkHeaders shows no value: it may be a secret.
func (t ForwardTarget) checkHeaders() error {
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("forward: headers: %q is not the name of a header", name)
		case isOwnHeader(canonical) || strings.HasPrefix(canonical, "Webhook-"):
			return fmt.Errorf("forward: headers: Waypost sets %s itself", canonical)
		case !httpguts.ValidHeaderFieldValue(t.Headers[name]):
			return fmt.Errorf("forward: headers: the value of %s can't be sent", canonical)
		}
	}
	return nil
}

// passed are the provider's headers without those of its connection to Waypost.
func passed(original http.Header) http.Header {
	out := make(http.Header, len(original))
	dropped := strings.Split(strings.Join(original.Values("Connection"), ","), ",")
	for i := range dropped {
		dropped[i] = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(dropped[i]))
	}
	for name, values := range original {
		// A content type belongs to the body, which is the provider's.
		if name == "Content-Type" || !isOwnHeader(name) && !slices.Contains(dropped, name) {
			out[name] = slices.Clone(values)
		}
	}
	return out
}

// pace lets so many begin in a second, at most a second's worth at once.
type pace struct {
	rate, tokens float64
	at           time.Time
}

// allow returns how many of n may begin now.
func (p *pace) allow(n int, now time.Time) int {
	if p.rate == 0 {
		return n
	}
	most := max(1, p.rate)
	if p.at.IsZero() {
		p.tokens = most
	} else if passed := now.Sub(p.at); passed > 0 {
		p.tokens = min(most, p.tokens+p.rate*passed.Seconds())
	}
	p.at = now
	return min(n, int(p.tokens))
}

// spend takes what began.
func (p *pace) spend(n int) {
	if p.rate > 0 {
		p.tokens -= float64(n)
	}
}
