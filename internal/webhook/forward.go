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
	// forwardedAttempt counts the attempts at this target, from 1.
	forwardedAttempt = "Waypost-Attempt"
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
	// Retry defaults to the ten attempts over three days of Standard Webhooks. A target's
	// own number of attempts goes before its.
	Retry Retry
	// Timeout bounds one attempt, the answer's body included, at a target that has no
	// timeout of its own; default 15 s.
	Timeout time.Duration
	// Now is the clock of the signature; default time.Now.
	Now func() time.Time
}

func (o ForwardOptions) withDefaults() ForwardOptions {
	o.Retry.Attempts = cmp.Or(o.Retry.Attempts, len(standardWaits)+1)
	if o.Retry.Backoff == nil {
		o.Retry.Backoff = func(n int) time.Duration { return standardWaits[min(n, len(standardWaits))-1] }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Forward binds events to a target: each is posted there in the background, its body as
// it was sent, signed in the form of Standard Webhooks with the event's id as webhook-id,
// the same at every attempt. An answer of 2xx makes the event processed; when the attempts
// are spent it is failed and can be replayed.
func Forward(t ForwardTarget, o ForwardOptions) (Binding, error) {
	return ForwardAll([]ForwardTarget{t}, o)
}

// ForwardAll is Forward to several targets of one provider and event type. The event is
// processed when all have it, and failed when one has not and none is left to try.
func ForwardAll(targets []ForwardTarget, o ForwardOptions) (Binding, error) {
	if len(targets) == 0 {
		return Binding{}, errors.New("webhook: forward: no target")
	}
	b := Binding{Provider: targets[0].Provider, EventType: targets[0].EventType, ByJob: true}
	for _, t := range targets {
		t.Timeout = cmp.Or(t.Timeout, o.Timeout)
		err := t.check()
		if err == nil && (t.Provider != b.Provider || t.EventType != b.EventType) {
			err = errors.New("forward: targets of one binding are of one provider and event type")
		}
		if err != nil {
			return Binding{}, fmt.Errorf("webhook: handler of provider %q, event type %q: %w", t.Provider, t.EventType, err)
		}
		if o.LookupSecret == nil {
			return Binding{}, errors.New("webhook: forward: no way to look up secrets")
		}
		b.PassHeaders = b.PassHeaders || t.PassHeaders
		b.targets = append(b.targets, newPoster(t.withDefaults(), o.withDefaults()))
	}
	return b, nil
}

// poster makes attempts at one target.
type poster struct {
	target ForwardTarget
	retry  Retry
	o      ForwardOptions
	client *http.Client
}

func newPoster(t ForwardTarget, o ForwardOptions) *poster {
	p := &poster{target: t, retry: o.Retry, o: o, client: &http.Client{
		Timeout: t.Timeout,
		// A redirect would take a signed event to where no operator sent it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: telemetry.Outgoing(&http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxIdleConnsPerHost:    t.Concurrency,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		}),
	}}
	p.retry.Attempts = cmp.Or(t.Attempts, p.retry.Attempts)
	return p
}

// post is one attempt; nil means that the target has the event.
func (p *poster) post(ctx context.Context, of *parcel) error {
	r, err := p.request(ctx, of)
	if err != nil {
		return err
	}
	res, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("forward: %w", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerText))
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil // whatever becomes of the answer's body
	}
	refusal := errors.New(strings.TrimRight(fmt.Sprintf("forward: the target answered %d: %s", res.StatusCode, strings.TrimSpace(string(text))), ": "))
	if err != nil {
		refusal = fmt.Errorf("forward: the target answered %d, and its body broke off: %w", res.StatusCode, withoutURL(err))
	}
	if wait, ok := retryAfter(res.Header, p.o.Now()); ok {
		return &RetryAfterError{Wait: wait, Err: refusal}
	}
	return refusal
}

// request is signed with the target's secret, and while that is rotated also with the one
// before. What the provider sent goes before what Waypost says in its place: a verifier
// behind Waypost then sees what it saw before.
func (p *poster) request(ctx context.Context, of *parcel) (*http.Request, error) {
	secret := []byte(p.o.LookupSecret(p.target.SecretEnv))
	var scheme signature.Standard
	if err := scheme.CheckSecret(secret); err != nil {
		return nil, fmt.Errorf("forward: the secret in %s: %w", p.target.SecretEnv, err)
	}
	secrets := [][]byte{secret}
	if previous := []byte(p.o.LookupSecret(p.target.SecretEnv + "_PREVIOUS")); scheme.CheckSecret(previous) == nil {
		secrets = append(secrets, previous)
	}
	e := of.event
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.target.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, fmt.Errorf("forward: %w", withoutURL(err))
	}
	r.Header.Set("Content-Type", mediaType(e.Body))
	r.Header.Set("User-Agent", "Waypost")
	for name, value := range p.target.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set(signature.StandardID, of.id())
	scheme.SignAll(r.Header, e.Body, p.o.Now(), secrets...)
	if p.target.PassHeaders {
		for name, values := range passed(of.original) {
			r.Header[name] = values
		}
	}
	r.Header.Set(forwardedProvider, e.Provider)
	r.Header.Set(forwardedType, url.PathEscape(e.Type))
	r.Header.Set(forwardedID, url.PathEscape(e.ExternalID))
	r.Header.Set(forwardedAttempt, strconv.Itoa(of.attempts))
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
