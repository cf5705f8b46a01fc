package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// claim is the right to handle an event until its lease ends. Each is an attempt
// in the ledger.
type claim struct {
	event Event
	lease uuid.UUID
	tries int   // attempts since the arrival or the latest replay, this one included
	job   int64 // the job that works on it; 0 for none
	// started is when its handling began, on the receiver's clock.
	started time.Time
	// swept says that a sweep took the event, which then handles it itself: a job
	// could be fetched, once more, by an instance that lacks the handler.
	swept bool
	// unhandled says that a replay took an event that was processed because it had
	// no handler.
	unhandled bool
	by        identity.Principal // whom it is handled for
	body      *body              // its memory, where it has just arrived
}

// staleness says which pending events a sweep takes.
type staleness struct {
	byJob       bool // those whose handler works by jobs, else the others
	least, most int  // how often they were interrupted in a row before
	limit       int  // how many at once
}

// claimStale takes pending events that wait for nobody and have a handler here. taken
// counts also those that it left to their targets.
func (s *store) claimStale(ctx context.Context, p identity.Principal, which staleness) (claims []claim, taken int, err error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, 0, fmt.Errorf("webhook: new lease: %w", err)
	}
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ClaimStaleWebhookEvents(ctx, tx, dbsqlc.ClaimStaleWebhookEventsParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(),
			LeastInterrupted: int32(which.least), MostInterrupted: int32(which.most), MaxRows: int32(which.limit),
			Providers: s.bound.providers, EventTypes: s.bound.eventTypes, ByJobs: s.bound.byJobs, ByJob: which.byJob,
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			c, err := newClaim(dbsqlc.ClaimWebhookReplayRow(r), lease, 0)
			if err != nil {
				return err
			}
			c.swept = true
			claims = append(claims, c)
		}
		taken = len(claims)
		claims, _, err = s.handOver(ctx, tx, claims, false)
		return err
	})
	return claims, taken, err
}

// failInterrupted ends events that have a handler here and were interrupted too
// often in a row: the one of a job, or, with job 0, all.
func (s *store) failInterrupted(ctx context.Context, p identity.Principal, most int, job int64) ([]dbsqlc.FailInterruptedWebhookEventsRow, error) {
	text := fmt.Sprintf("the handler was started %d times and none of them ended: the process or its database went away each time", most)
	var failed []dbsqlc.FailInterruptedWebhookEventsRow
	err := s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		failed, err = s.queries.FailInterruptedWebhookEvents(ctx, tx, dbsqlc.FailInterruptedWebhookEventsParams{
			HandlerError: text, MostInterrupted: int32(most), JobID: job, Providers: s.bound.providers, EventTypes: s.bound.eventTypes,
		})
		return err
	})
	return failed, err
}

// claimJob takes the event that a job owns. Without an error and with ok false it
// is not to be had: busy when another run of the job has it, else the job's no
// more. It is taken off the job when it has no handler here: a sweep of an instance
// that has one finds it, while a job that is put off would come back here as likely
// as not.
func (s *store) claimJob(ctx context.Context, p identity.Principal, id uuid.UUID, job int64) (claim, bool, bool, error) {
	lease, err := s.newLease()
	if err != nil {
		return claim{}, false, false, fmt.Errorf("webhook: new lease: %w", err)
	}
	var c claim
	ok, busy := false, false
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		r, err := s.queries.ClaimWebhookJob(ctx, tx, dbsqlc.ClaimWebhookJobParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(), ID: id, JobID: job,
			Providers: s.bound.providers, EventTypes: s.bound.eventTypes,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			released, err := s.queries.ReleaseWebhookJob(ctx, tx, dbsqlc.ReleaseWebhookJobParams{
				ID: id, JobID: job, Providers: s.bound.providers, EventTypes: s.bound.eventTypes,
			})
			if err != nil || released > 0 {
				return err
			}
			busy, err = s.queries.IsWebhookJobOwner(ctx, tx, id, job)
			return err
		}
		if err != nil {
			return err
		}
		if c, err = newClaim(dbsqlc.ClaimWebhookReplayRow(r), lease, job); err != nil {
			return err
		}
		rest, _, err := s.handOver(ctx, tx, []claim{c}, false)
		ok = len(rest) == 1
		return err
	})
	return c, ok, busy, err
}

// claimReplay takes one event for a replay and counts it; with ok false it has no
// handler here, and there is nothing more to do. It returns pgx.ErrNoRows when the
// event is not to be had, and errHeld when all that is left of it is under way.
func (s *store) claimReplay(ctx context.Context, p identity.Principal, id uuid.UUID, force bool) (claim, bool, error) {
	lease, err := s.newLease()
	if err != nil {
		return claim{}, false, fmt.Errorf("webhook: new lease: %w", err)
	}
	var c claim
	ok := false
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		r, err := s.queries.ClaimWebhookReplay(ctx, tx, dbsqlc.ClaimWebhookReplayParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(), ID: id, Force: force,
		})
		if err != nil {
			return err
		}
		if c, err = newClaim(r, lease, 0); err != nil {
			return err
		}
		rest, held, err := s.handOver(ctx, tx, []claim{c}, force)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			return errHeld
		}
		here, err := s.leaveUnbound(ctx, tx, rest)
		ok = len(here) == 1
		return err
	})
	return c, ok, err
}

// errHeld undoes a claim of which nothing is left to do.
var errHeld = errors.New("webhook: every target has the event at this moment, or gets it next")

// leaveUnbound gives the claimed events back that have no handler here, in the
// transaction that claimed them and as if they had not been, and returns the others.
// Those given back are pending, with a job that another instance may fetch, except
// for what never had a handler and has none now: that is processed as it was.
func (s *store) leaveUnbound(ctx context.Context, tx pgx.Tx, claims []claim) ([]claim, error) {
	var here []claim
	var left []outcome
	for _, c := range claims {
		if _, bound := s.registry.binding(c.event.Provider, c.event.Type); bound {
			here = append(here, c)
			continue
		}
		o := outcome{id: c.event.ID, lease: c.lease, status: Pending, at: s.now(), deferred: true}
		if c.unhandled {
			elsewhere, err := s.queries.IsWebhookBindingAnnounced(ctx, tx, c.event.Provider, c.event.Type, announcedLately.Seconds())
			if err != nil {
				return nil, err
			}
			if !elsewhere {
				o.status = Processed
			}
		}
		left = append(left, o)
	}
	if len(left) == 0 {
		return here, nil
	}
	jobs, err := s.insertJobs(ctx, tx, left)
	if err != nil {
		return nil, err
	}
	_, err = s.queries.RecordWebhookOutcomes(ctx, tx, recordParams(left, jobs))
	return here, err
}

func newClaim(r dbsqlc.ClaimWebhookReplayRow, lease uuid.UUID, job int64) (claim, error) {
	var h http.Header
	if err := json.Unmarshal(r.Headers, &h); err != nil {
		return claim{}, fmt.Errorf("webhook: headers of event %s: %w", r.ID, err)
	}
	return claim{lease: lease, tries: int(r.Tries), job: job, unhandled: r.Unhandled, event: Event{
		ID: r.ID, Provider: r.Provider, Type: r.EventType, ExternalID: r.ExternalID,
		Body: r.Raw, Header: h, RetryCount: int(r.RetryCount), CreatedAt: r.CreatedAt,
	}}, nil
}
