package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// Receiver takes deliveries in. It is safe for concurrent use, and for several
// instances on one database.
type Receiver struct{ *core }

// Receive reads, verifies, stores and dispatches a delivery. The receipt says that it is
// durable. Without one it returns ErrProvider, ErrTooLarge, ErrSlow, ErrSignature,
// ErrPayload with details, or ErrStorage, and the refusal is counted and logged. Once the
// body has been read, the end of ctx stops nothing: a sender that hangs up has delivered all
// the same.
func (r *Receiver) Receive(ctx context.Context, a Arrival) (Receipt, error) {
	p, err := r.o.Registry.Provider(a.Provider)
	if err != nil {
		r.refuse(ctx, p, a, a.Length, err)
		return Receipt{}, err
	}
	b, err := r.admit(ctx, p, a)
	if err != nil {
		r.refuse(ctx, p, a, a.Length, err)
		return Receipt{}, err
	}
	defer b.release()
	if err := b.read(a.Body); err != nil {
		r.refuse(ctx, p, a, a.Length, err)
		return Receipt{}, err
	}
	r.metrics.received.WithLabelValues(p.Name).Inc()
	got, err := r.accept(ctx, p, a.Header, b)
	switch {
	case err != nil:
		r.refuse(ctx, p, a, int64(len(b.bytes)), err)
	case got.Status == Skipped:
		r.metrics.duplicates.WithLabelValues(p.Name).Inc()
	}
	return got, err
}

// accept takes a delivery whose body has been read.
func (r *Receiver) accept(ctx context.Context, p Registration, h http.Header, b *body) (Receipt, error) {
	if !r.enter() {
		return Receipt{}, ErrStorage.Because(groupcommit.ErrClosed)
	}
	defer r.working.Done()
	ctx = context.WithoutCancel(ctx)

	now := r.o.Now()
	if err := r.verify(p, h, b.bytes, now); err != nil {
		r.o.Logger.WarnContext(ctx, "webhook refused", "provider", p.Name, "reason", err)
		return Receipt{}, ErrSignature.Because(err)
	}
	if value := p.Challenge.asked(b.bytes); value != "" {
		r.o.Logger.InfoContext(ctx, "webhook challenge answered", "provider", p.Name)
		return Receipt{Challenge: value}, nil
	}
	event, err := r.extract(p, h, b.bytes, now)
	if err != nil {
		return Receipt{}, err
	}
	binding, bound := r.o.Registry.binding(event.Provider, event.Type)
	principal := identity.FromContext(ctx)
	principal.Kind, principal.ID = identity.KindProvider, p.Name
	stored, err := r.persist(ctx, principal, event, h, binding, bound)
	if err != nil {
		if !errors.Is(err, groupcommit.ErrFull) {
			r.o.Logger.ErrorContext(ctx, "webhook not stored", "provider", p.Name, "error", err)
		}
		return Receipt{}, ErrStorage.Because(err)
	}
	receipt := Receipt{Status: Processed, ID: stored.id, EventType: event.Type, ExternalID: event.ExternalID}
	if bound && !stored.duplicate {
		if err := r.interrupt(AfterStore, event.ID); err != nil {
			return Receipt{}, err
		}
	}
	switch {
	case stored.duplicate:
		receipt.Status = Skipped
		r.reportConflict(ctx, p, stored)
	case bound && binding.ByJob:
		receipt.Status = Pending
		r.sending.wake(binding.targetKeys())
	case bound:
		receipt.Status = r.dispatch(ctx, principal, claim{event: event, lease: stored.lease, tries: 1, body: b})
	}
	if err := r.interrupt(AfterOutcome, event.ID); err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

// reportConflict tells of a duplicate whose body is not the stored one.
func (r *Receiver) reportConflict(ctx context.Context, p Registration, stored arrival) {
	if stored.differs {
		r.metrics.conflicts.WithLabelValues(p.Name).Inc()
		r.o.Logger.WarnContext(ctx, "webhook skipped as a duplicate, but its body differs from the stored one", "provider", p.Name, "event", stored.id)
	}
}

// Close refuses new work and waits for the handlers that run, at most until ctx
// ends. What is not finished then stays pending, for the sweep of a later start.
func (r *Receiver) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		r.working.Wait()
		close(idle)
	}()
	err := r.sending.stop(ctx)
	select {
	case <-idle:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("webhook: handlers still running: %w", ctx.Err()))
	}
	return errors.Join(err, r.arrivals.Close(ctx), r.forJobs.Close(ctx), r.forwards.Close(ctx), r.outcomes.Close(ctx), r.rejected.close(ctx))
}

// verify tries the provider's secret and the one it replaced.
func (r *Receiver) verify(p Registration, h http.Header, body []byte, now time.Time) error {
	secret := r.o.LookupSecret(p.SecretEnv)
	if strings.TrimSpace(secret) == "" {
		return signature.ErrNoSecret
	}
	err := p.Verifier.Verify([]byte(secret), body, h, now)
	if previous := r.o.LookupSecret(p.SecretEnv + "_PREVIOUS"); err != nil && strings.TrimSpace(previous) != "" {
		return p.Verifier.Verify([]byte(previous), body, h, now)
	}
	return err
}

// extract makes the delivery an event. It returns ErrPayload with details.
func (r *Receiver) extract(p Registration, h http.Header, body []byte, now time.Time) (Event, error) {
	id, err := r.o.NewID()
	if err != nil {
		return Event{}, fmt.Errorf("webhook: new id: %w", err)
	}
	if err := r.interrupt(AfterVerify, id); err != nil {
		return Event{}, err
	}
	e := Event{ID: id, Provider: p.Name, Body: body, Header: redact(h, p.Verifier.Headers()), CreatedAt: now.UTC().Truncate(time.Microsecond)}
	e.Type, e.ExternalID, err = extract(p, body, h)
	if err != nil {
		details := map[string]string{"body": "Its event type and id cannot be extracted."}
		if f, ok := errors.AsType[*FieldError](err); ok {
			details = map[string]string{f.Field: f.Reason}
		}
		return Event{}, ErrPayload.Because(err).With(details)
	}
	return e, r.interrupt(AfterExtract, id)
}

// persist makes the event durable: as processed when there is no handler, as
// pending under a lease when one will run, as pending with a forward to each target
// where it goes to targets, and as pending with its first job when that is a job's work.
// Jobs take a transaction of several statements, so they hold up nobody else's.
func (r *Receiver) persist(ctx context.Context, by identity.Principal, e Event, own http.Header, b Binding, bound bool) (arrival, error) {
	headers, err := json.Marshal(e.Header)
	if err != nil {
		return arrival{}, fmt.Errorf("webhook: headers: %w", err)
	}
	var sealed []byte
	if b.PassHeaders {
		if sealed, err = r.sealHeaders(e.ID, own); err != nil {
			return arrival{}, err
		}
	}
	group := r.arrivals
	switch {
	case b.forwards():
		group = r.forwards
	case b.ByJob:
		group = r.forJobs
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.StoreTimeout)
	defer cancel()
	stored, err := group.Submit(ctx, row{event: e, headers: string(headers), sealed: sealed, sha256: sha256.Sum256(e.Body), dispatch: bound, targets: b.targets, by: by, trace: queue.TraceOf(ctx)})
	if err != nil {
		return arrival{}, err
	}
	return stored, stored.err
}
