// Package upstream sends requests to services of language models: over connections that
// lead to no private address, with time for each piece of the answer, and with a breaker
// that keeps requests from where nobody answers.
package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrTimeout says that nothing came for too long.
var ErrTimeout = errors.New("upstream: it sent nothing for too long")

const (
	connectTimeout = 10 * time.Second
	// readBuffer is how many bytes a connection reads at once.
	readBuffer = 16 << 10
	// maxHeader bounds the headers of an answer, in bytes.
	maxHeader = 64 << 10
	// maxWait is the longest Retry-After that is believed.
	maxWait = time.Hour
)

// NewTransport makes connections. They go straight to where they lead, by no proxy, and
// only to public addresses unless allowPrivate is set.
func NewTransport(allowPrivate bool) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout}
	if !allowPrivate {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		Proxy:                  nil, // not the environment's either
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    128,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		// What is read at once is handed on at once: with little, a fast stream costs a
		// system call for every few tokens.
		ReadBufferSize: readBuffer,
	}
}

// Request is one to an upstream.
type Request struct {
	URL    string
	Header http.Header
	Body   []byte
	// Timeout bounds the wait for the first byte of the answer's body, and between two
	// pieces of it.
	Timeout time.Duration
}

// Answer is one whose first byte is there. Its body returns ErrTimeout.
type Answer struct {
	Status      int
	ContentType string
	RetryAfter  time.Duration // 0 for none
	Body        io.ReadCloser
}

// finishTime is how long is waited for the end of an answer whose content has ended.
const finishTime = 50 * time.Millisecond

// Finish reads what may follow the content, so that the connection can be used again.
func (a *Answer) Finish() {
	if w, ok := a.Body.(*watched); ok {
		w.timeout = finishTime
		_, _ = io.CopyN(io.Discard, w, 4<<10)
	}
}

// Failure is an attempt without an answer.
type Failure struct {
	// Sent says that the upstream has the request, and may have answered it.
	Sent bool
	Err  error
}

// Error implements error. What it says holds no address and nothing of the request.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Do posts r and waits for the first byte of the answer. When ctx ends, so does the
// request. It returns a *Failure where none came. Redirects are answers like others.
func Do(ctx context.Context, transport http.RoundTripper, r Request) (*Answer, error) {
	var sent atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(r.Timeout, func() { cancel(ErrTimeout) })
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			sent.Store(true)
		}
	}})
	fail := func(err error) (*Answer, error) {
		watch.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, &Failure{Sent: sent.Load(), Err: plain(err)}
	}
	req, err := http.NewRequestWithContext(traced, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return fail(err)
	}
	req.Header = r.Header
	res, err := transport.RoundTrip(req)
	if err != nil {
		return fail(err)
	}
	body := &watched{body: res.Body, ctx: ctx, cancel: cancel, watch: watch, timeout: r.Timeout}
	if err := body.first(); err != nil {
		_ = res.Body.Close()
		return fail(err)
	}
	return &Answer{Status: res.StatusCode, ContentType: res.Header.Get("Content-Type"), RetryAfter: retryAfter(res.Header), Body: body}, nil
}

// plain drops the URL from an error: it is the operator's business.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("upstream: %s: %w", o.Op, o.Err)
	}
	return err
}

// retryAfter reads the seconds of RFC 9110, section 10.2.3, or the form of a date.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxWait)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxWait)
	}
	return 0
}

// watched is a body of which a piece must come in time.
type watched struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	watch   *time.Timer
	timeout time.Duration
	held    [1]byte // the first byte
	n       int     // 1 while that was not read
	ended   bool    // the body is empty
}

// first waits for the first byte; an empty body is none that is late.
func (w *watched) first() error {
	for {
		n, err := w.body.Read(w.held[:])
		if n == 1 {
			w.n = 1
			w.watch.Stop()
			return nil
		}
		if errors.Is(err, io.EOF) {
			w.ended = true
			w.watch.Stop()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case w.n == 1:
		p[0], w.n = w.held[0], 0
		return 1, nil
	case w.ended:
		return 0, io.EOF
	}
	w.watch.Reset(w.timeout)
	n, err := w.body.Read(p)
	w.watch.Stop() // whoever handles the piece may take longer
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(w.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

// Close ends the request, if the answer is not whole.
func (w *watched) Close() error {
	w.watch.Stop()
	w.cancel(nil)
	return w.body.Close()
}
