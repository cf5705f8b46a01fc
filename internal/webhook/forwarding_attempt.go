package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// forward makes one attempt and records how it ended.
func (f *forwarding) forward(l *lane, p *parcel) {
	began := f.c.o.Now()
	outcome, stopped := f.attempt(l, p, began)
	f.posted(l, f.c.o.Now().Sub(began))
	forwarded := 0
	defer func() { f.recorded(l, forwarded) }()
	if stopped {
		return
	}
	ctx := context.Background()
	held := f.record(ctx, outcome)
	if outcome.returned {
		return
	}
	s := outcome.status
	if !held {
		s = Pending
	} else if s == Processed {
		forwarded = 1
	}
	took := f.c.o.Now().Sub(began)
	f.c.metrics.handlerEnded(p.event.Provider, s, took)
	f.c.metrics.forwardEnded(p.event.Provider, p.target.name, s, took)
	_ = f.c.interrupt(AfterOutcome, p.event.ID)
}

// attempt returns how an attempt ended; stopped says that a test had it die.
func (f *forwarding) attempt(l *lane, p *parcel, began time.Time) (outcome sent, stopped bool) {
	deadline := p.until.Add(-l.target.Timeout - f.c.o.StoreTimeout)
	if time.Now().After(deadline) { // it waited for too long: the lease might end first
		return returnedUnbegun(p, began), false
	}
	if f.c.interrupt(AfterClaim, p.event.ID) != nil {
		return sent{}, true
	}
	if p.interrupted >= maxInterrupted {
		text := fmt.Sprintf("%d attempts in a row did not end: the process or its database went away each time", p.interrupted)
		return f.conclude(l, p, began, errors.New(text), true), false
	}
	release, err := f.load(l, p, deadline)
	if err != nil {
		f.c.o.Logger.Warn("webhook forward put off: its body was not read", "event", p.event.ID, "provider", p.event.Provider, "target", p.target.name, "error", err)
		back := returnedUnbegun(p, f.c.o.Now())
		back.wait = crowded
		return back, false
	}
	f.open(l, p)
	ctx, span := f.trace(l, p)
	err = l.post(ctx, p)
	if err != nil {
		span.SetStatus(codes.Error, "") // the text is the event's
	}
	span.End()
	release()
	if f.c.interrupt(AfterHandler, p.event.ID) != nil {
		return sent{}, true
	}
	return f.conclude(l, p, began, err, false), false
}

// trace goes on with the trace of the delivery.
func (f *forwarding) trace(l *lane, p *parcel) (context.Context, trace.Span) {
	ctx := identity.NewContext(context.Background(), identity.System("webhooks.forward"))
	return f.c.o.Tracer.Start(queue.ContinueTrace(ctx, []byte(p.trace)), "webhooks.forward", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("waypost.webhook.provider", p.event.Provider), attribute.String("waypost.webhook.target", l.target.Name),
		attribute.Int("waypost.webhook.attempt", p.attempts)))
}

// open decrypts the provider's own headers for a target that gets them. Where that can't be
// it goes without, rather than never.
func (f *forwarding) open(l *lane, p *parcel) {
	if !l.target.PassHeaders || p.sealed == nil {
		return
	}
	var err error
	if p.original, err = f.c.openHeaders(p.event.ID, p.sealed); err != nil {
		f.c.o.Logger.Error("webhook forward goes without the provider's headers: they can't be decrypted", "event", p.event.ID, "provider", p.event.Provider, "target", p.target.name, "error", err)
	}
}

// load fetches the body where the claim left it out, and waits for memory for it.
func (f *forwarding) load(l *lane, p *parcel, deadline time.Time) (release func(), err error) {
	if p.event.Body != nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	free, err := f.makeRoom(ctx, l, min(p.size, f.most))
	if err != nil {
		return nil, err
	}
	if p.event.Body, err = f.c.store.fetchBody(ctx, p.event.ID); err == nil && p.event.Body == nil {
		err = ErrEmptied
	}
	if err != nil {
		free()
		return nil, err
	}
	return func() { p.event.Body = nil; free() }, nil
}

// makeRoom takes memory for a large body. What all targets share may be full of the bodies
// of one that hangs, so that each lane has room for one body besides, for which its others
// queue up: nobody waits for another target.
func (f *forwarding) makeRoom(ctx context.Context, l *lane, size int64) (free func(), err error) {
	if f.large.TryAcquire(size) {
		return func() { f.large.Release(size) }, nil
	}
	select {
	case l.large <- struct{}{}:
		return func() { <-l.large }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// conclude decides what an attempt's end means: an answer of 2xx, another attempt, or none.
// A probe of an open breaker costs the event none of its attempts.
func (f *forwarding) conclude(l *lane, p *parcel, began time.Time, err error, last bool) sent {
	now := f.c.o.Now()
	o := sent{parcel: p, status: Processed, at: now, took: now.Sub(began), headersGone: l.target.PassHeaders && p.original == nil}
	if err == nil {
		return o
	}
	o.text, o.status = sanitize(err.Error()), Failed
	tries := p.tries
	if p.probe {
		o.unspent = true
		tries--
	}
	if wait, again := l.retry.again(max(tries, 1), err); (again || p.probe) && !last {
		o.status, o.wait = Pending, wait
	}
	f.c.o.Logger.Warn("webhook forward failed", "event", p.event.ID, "provider", p.event.Provider, "target", p.target.name, "event_type", p.event.Type,
		"attempt", p.attempts, "error", o.text)
	return o
}

// record makes an outcome durable and reports whether the lease held. Where it can't be,
// the lease runs out and the target gets the event again.
func (f *forwarding) record(ctx context.Context, o sent) bool {
	ctx, cancel := context.WithTimeout(ctx, f.c.o.StoreTimeout)
	defer cancel()
	held, err := f.outcomes.Submit(ctx, o)
	if err == nil && !held {
		err = errLeaseLost
	}
	if err != nil {
		f.c.o.Logger.WarnContext(ctx, "webhook outcome not recorded", "event", o.parcel.event.ID, "provider", o.parcel.event.Provider, "target", o.parcel.target.name, "error", err)
		return false
	}
	return true
}
