package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// Headers that tell a forward's target what the delivery's own can't: values are
// percent-encoded as in a URL's path, since a type may be any text.
const (
	forwardedProvider = "Waypost-Provider"
	forwardedType     = "Waypost-Event-Type"
	forwardedID       = "Waypost-External-Id"
)

const (
	// maxAnswerText bounds in bytes what the ledger keeps of a target's refusal.
	maxAnswerText = 512
	// maxRetryAfter bounds what a target may ask to wait.
	maxRetryAfter = 24 * time.Hour
)

// standardWaits are the pauses between attempts that the Standard Webhooks
// specification proposes ("Deliverability and reliability"): the tenth and last
// attempt comes some three days after the first.
var standardWaits = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// ForwardOptions configure Forward. LookupSecret is mandatory.
type ForwardOptions struct {
	// LookupSecret returns an environment variable at the moment of an attempt, ""
	// when it is unset.
	LookupSecret func(name string) string
	// Retry defaults to the ten attempts over three days of Standard Webhooks.
	Retry Retry
	// Timeout bounds one attempt, the answer's body included; default 8 s. The
	// receiver's time budget for handlers bounds it too.
	Timeout time.Duration
	// Now is the clock of the signature; default time.Now.
	Now func() time.Time
}

func (o ForwardOptions) withDefaults() ForwardOptions {
	o.Retry.Attempts = cmp.Or(o.Retry.Attempts, len(standardWaits)+1)
	if o.Retry.Backoff == nil {
		o.Retry.Backoff = func(n int) time.Duration { return standardWaits[min(n, len(standardWaits))-1] }
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), 8*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Forward binds events to a target: each is posted there by a job, its body as it
// was sent, signed in the form of Standard Webhooks with the event's id as
// webhook-id, the same at every attempt. An answer of 2xx makes the event
// processed; when the attempts are spent it is failed and can be replayed.
func Forward(t ForwardTarget, o ForwardOptions) (Binding, error) {
	if err := t.check(); err != nil {
		return Binding{}, fmt.Errorf("webhook: handler of provider %q, event type %q: %w", t.Provider, t.EventType, err)
	}
	if o.LookupSecret == nil {
		return Binding{}, errors.New("webhook: forward: no way to look up secrets")
	}
	o = o.withDefaults()
	f := forwarder{target: t, o: o, client: &http.Client{
		Timeout: o.Timeout,
		// A redirect would take a signed event to where no operator sent it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: telemetry.Outgoing(&http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		}),
	}}
	return Binding{Provider: t.Provider, EventType: t.EventType, Handler: f.handle, Retry: o.Retry, ByJob: true}, nil
}

type forwarder struct {
	target ForwardTarget
	o      ForwardOptions
	client *http.Client
}

// handle is the Handler: one attempt.
func (f forwarder) handle(ctx context.Context, d *Delivery) error {
	r, err := f.request(ctx, d.Event)
	if err != nil {
		return err
	}
	res, err := f.client.Do(r)
	if err != nil {
		return fmt.Errorf("forward: %w", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerText))
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil // whatever becomes of the answer's body
	}
	refusal := fmt.Errorf("forward: the target answered %d: %s", res.StatusCode, strings.TrimSpace(string(text)))
	if err != nil {
		refusal = fmt.Errorf("forward: the target answered %d, and its body broke off: %w", res.StatusCode, withoutURL(err))
	}
	if wait, ok := retryAfter(res.Header, f.o.Now()); ok {
		return &RetryAfterError{Wait: wait, Err: refusal}
	}
	return refusal
}

func (f forwarder) request(ctx context.Context, e Event) (*http.Request, error) {
	secret := []byte(f.o.LookupSecret(f.target.SecretEnv))
	var scheme signature.Standard
	if err := scheme.CheckSecret(secret); err != nil {
		return nil, fmt.Errorf("forward: the secret in %s: %w", f.target.SecretEnv, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, fmt.Errorf("forward: %w", withoutURL(err))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Waypost")
	r.Header.Set(forwardedProvider, e.Provider)
	r.Header.Set(forwardedType, url.PathEscape(e.Type))
	r.Header.Set(forwardedID, url.PathEscape(e.ExternalID))
	r.Header.Set(signature.StandardID, e.ID.String())
	scheme.Sign(secret, e.Body, r.Header, f.o.Now())
	return r, nil
}

// withoutURL drops the target's URL from an error: it may hold a token.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// retryAfter reads the header of RFC 9110, section 10.2.3, in both its forms.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter), true
	}
	return 0, false
}
