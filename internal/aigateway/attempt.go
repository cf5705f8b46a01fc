package aigateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/aigateway/openai"
	"github.com/waypost/waypost/internal/aigateway/upstream"
)

// result is what an attempt came to.
type result struct {
	// ended says that the call is booked, and over.
	ended bool
	err   error
	// again says that the target may be asked once more, after that time.
	again bool
	wait  time.Duration
}

// attempt asks a target once. done is told what that says of it.
func (c *call) attempt(ctx context.Context, t candidate, done func(upstream.Result)) result {
	defer done(upstream.Neutral) // unless more is known
	began := c.s.o.Now()
	a, err := upstream.Do(ctx, c.transport(t), t.request)
	if err != nil {
		return c.unanswered(ctx, t, done, err)
	}
	defer func() { _ = a.Body.Close() }()
	c.reached = true
	c.s.metrics.firstByte.WithLabelValues(c.hold.model, t.upstream.Name).Observe(c.s.o.Now().Sub(began).Seconds())
	if err := c.at(Answered); err != nil {
		return result{ended: true, err: err}
	}
	switch {
	case a.Status >= 200 && a.Status < 300:
		if c.op == chat && c.r.Stream && !strings.HasPrefix(a.ContentType, "application/json") {
			return c.relay(ctx, t, a, done)
		}
		return c.answer(ctx, t, a.Body, done)
	case a.Status == http.StatusTooManyRequests:
		c.failed(ctx, t, "it has too much to do", nil)
		return result{err: ErrUpstream, again: true, wait: a.RetryAfter}
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		done(upstream.Failed)
		c.failed(ctx, t, fmt.Sprintf("it answers %d: look at its key", a.Status), nil)
		return result{err: ErrUpstream}
	case a.Status >= 400 && a.Status < 500:
		done(upstream.Succeeded)
		c.s.metrics.attempt(c.hold.model, t.upstream.Name, "refused")
		c.settle(ctx, settlement{outcome: Failed, reached: true, used: c.carried, cost: c.carriedCost, estimated: c.carried != Usage{}})
		return result{ended: true, err: ErrRefused}
	}
	done(upstream.Failed)
	c.failed(ctx, t, fmt.Sprintf("it answers %d", a.Status), nil)
	return result{err: ErrUpstream, again: a.Status >= 500, wait: a.RetryAfter}
}

func (c *call) transport(t candidate) http.RoundTripper {
	switch {
	case t.upstream.Kind == Echo:
		return c.s.echo
	case t.upstream.AllowPrivate:
		return c.s.private
	}
	return c.s.open
}

// failed tells operators of an attempt that failed, and nobody what was asked.
func (c *call) failed(ctx context.Context, t candidate, how string, err error) {
	c.s.metrics.attempt(c.hold.model, t.upstream.Name, "failed")
	attrs := []any{"upstream", t.upstream.Name, "model", c.hold.model, "how", how}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	c.s.o.Logger.WarnContext(ctx, "an AI upstream failed", attrs...)
}

// unanswered is an attempt without a first byte. If the upstream has the request, it may
// be working on it all the same, and that is paid for.
func (c *call) unanswered(ctx context.Context, t candidate, done func(upstream.Result), err error) result {
	f, _ := errors.AsType[*upstream.Failure](err)
	if f != nil && f.Sent {
		c.reached = true
		lost := Usage{Input: c.r.Size.Likely()}
		if c.op == chat {
			lost.Output = 1
		}
		c.carried = Usage{c.carried.Input + lost.Input, c.carried.Output + lost.Output}
		c.carriedCost += t.target.Price.of(lost)
	}
	if ctx.Err() != nil {
		return result{err: ErrGone}
	}
	done(upstream.Failed)
	if errors.Is(err, upstream.ErrTimeout) {
		c.failed(ctx, t, "it sent nothing in time", nil)
		return result{err: ErrUpstreamTimeout}
	}
	c.failed(ctx, t, "no answer", err)
	return result{err: ErrUpstream, again: true}
}

// maxAnswer is the largest answer that is no stream, in bytes.
const maxAnswer = 64 << 20

// answer reads a whole answer, books it and hands it on.
func (c *call) answer(ctx context.Context, t candidate, from io.Reader, done func(upstream.Result)) result {
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = openai.ErrMalformed
	}
	contents := openai.Contents{Stated: openai.Nothing()}
	if err == nil {
		body, contents, err = translate(t.upstream, body, c.s.o.Now())
	}
	if err == nil && quotes(body, t.key) {
		err = errQuotesKey
	}
	if err == nil && c.op == chat && c.r.Stream {
		err = openai.ErrMalformed // it is no stream
	}
	if err != nil {
		return c.broken(ctx, t, done, contents, 0, err)
	}
	done(upstream.Succeeded)
	c.s.metrics.attempt(c.hold.model, t.upstream.Name, "answered")
	if err := c.at(Served); err != nil {
		return result{ended: true, err: err}
	}
	c.settle(ctx, c.settlement(t, Completed, contents.Stated, contents.Text))
	if c.client.Answer(body) != nil {
		return result{ended: true, err: ErrGone}
	}
	return result{ended: true}
}

var errQuotesKey = errors.New("aigateway: the answer quotes the upstream's key")

// quotes reports whether the bytes hold the key. A key that may be a word of any text is
// none that can be kept secret.
func quotes(b []byte, key string) bool { return len(key) >= 8 && bytes.Contains(b, []byte(key)) }

// settlement is what a call used: as stated, else estimated from the prompt and from how
// many bytes of text were handed on.
func (c *call) settlement(t candidate, outcome Outcome, stated openai.Stated, text int64) settlement {
	used := Usage{stated.Input, stated.Output}
	estimated := false
	if used.Input < 0 {
		used.Input, estimated = min(c.r.Size.Likely(), worstInput), true
	}
	switch {
	case c.op == embeddings:
		used.Output = 0
	case used.Output < 0:
		used.Output, estimated = openai.TextTokens(text), true
	}
	return settlement{
		outcome: outcome, reached: true, estimated: estimated || c.carried != Usage{},
		used: Usage{c.carried.Input + used.Input, c.carried.Output + used.Output}, cost: c.carriedCost + t.target.Price.of(used),
	}
}

// broken ends a call whose answer began, and did not end as it should.
func (c *call) broken(ctx context.Context, t candidate, done func(upstream.Result), contents openai.Contents, text int64, err error) result {
	if ctx.Err() != nil || errors.Is(err, ErrGone) {
		c.s.metrics.attempt(c.hold.model, t.upstream.Name, "aborted")
		c.settle(ctx, c.settlement(t, Aborted, contents.Stated, text))
		return result{ended: true, err: ErrGone}
	}
	done(upstream.Failed)
	public, how := error(ErrUpstream), "its answer was cut"
	switch {
	case errors.Is(err, upstream.ErrTimeout):
		public, how = ErrUpstreamTimeout, "it sent nothing more in time"
	case errors.Is(err, openai.ErrMalformed):
		how = "its answer is malformed"
	case errors.Is(err, openai.ErrReported):
		how = "it reports an error instead of an answer"
	case errors.Is(err, errQuotesKey):
		how = "its answer quotes its key"
	}
	c.failed(ctx, t, how, nil)
	c.settle(ctx, c.settlement(t, Cut, contents.Stated, text))
	return result{ended: true, err: public}
}

// relay hands a stream on, piece by piece, and books it before its end is told.
func (c *call) relay(ctx context.Context, t candidate, a *upstream.Answer, done func(upstream.Result)) result {
	all := openai.Contents{Stated: openai.Nothing()}
	source := piecesOf(t.upstream, a.Body, c.r.IncludeUsage, c.s.o.Now())
	err := c.client.Begin()
	if err != nil {
		err = ErrGone
	}
	for err == nil {
		var chunk []byte
		var found openai.Contents
		chunk, found, err = source.Next()
		if err == nil && quotes(chunk, t.key) {
			err = errQuotesKey
		}
		all.Stated = all.Stated.Merge(found.Stated)
		if err == nil && chunk != nil {
			if c.client.Piece(chunk, !source.More()) != nil {
				err = ErrGone
			}
			all.Text += found.Text
		}
	}
	if !errors.Is(err, io.EOF) {
		return c.broken(ctx, t, done, all, all.Text, err)
	}
	done(upstream.Succeeded)
	c.s.metrics.attempt(c.hold.model, t.upstream.Name, "answered")
	if err := c.at(Served); err != nil {
		return result{ended: true, err: err}
	}
	c.settle(ctx, c.settlement(t, Completed, all.Stated, all.Text))
	if c.client.Piece([]byte("[DONE]"), true) != nil {
		return result{ended: true, err: ErrGone}
	}
	a.Finish()
	return result{ended: true}
}
