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
	// release, when set, is called when the handling is over.
	release func()
}

// claimStale takes up to limit pending events whose lease ran out, and which were
// interrupted least to most times in a row before.
func (s *store) claimStale(ctx context.Context, p identity.Principal, least, most, limit int) ([]claim, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	var claims []claim
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ClaimStaleWebhookEvents(ctx, tx, dbsqlc.ClaimStaleWebhookEventsParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(),
			LeastInterrupted: int32(least), MostInterrupted: int32(most), MaxRows: int32(limit),
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			c, err := newClaim(dbsqlc.ClaimWebhookReplayRow(r), lease, 0)
			if err != nil {
				return err
			}
			claims = append(claims, c)
		}
		return nil
	})
	return claims, err
}

// failInterrupted ends events that were interrupted too often in a row: the one of
// a job, or, with job 0, stale ones that belong to none.
func (s *store) failInterrupted(ctx context.Context, p identity.Principal, most int, job int64) ([]dbsqlc.FailInterruptedWebhookEventsRow, error) {
	text := fmt.Sprintf("the handler was started %d times and none of them ended: the process or its database went away each time", most)
	var failed []dbsqlc.FailInterruptedWebhookEventsRow
	err := s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		failed, err = s.queries.FailInterruptedWebhookEvents(ctx, tx, text, int32(most), job)
		return err
	})
	return failed, err
}

// claimJob takes the event that a job owns. Without an error and with ok false it
// is not to be had: busy when another run of the job has it, else the job's no more.
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
		})
		if errors.Is(err, pgx.ErrNoRows) {
			busy, err = s.queries.IsWebhookJobOwner(ctx, tx, id, job)
			return err
		}
		if err != nil {
			return err
		}
		ok = true
		c, err = newClaim(dbsqlc.ClaimWebhookReplayRow(r), lease, job)
		return err
	})
	return c, ok, busy, err
}

// claimReplay takes one event for a replay and counts it. It returns
// pgx.ErrNoRows when the event is not to be had.
func (s *store) claimReplay(ctx context.Context, p identity.Principal, id uuid.UUID, force bool) (claim, error) {
	lease, err := s.newLease()
	if err != nil {
		return claim{}, fmt.Errorf("webhook: new lease: %w", err)
	}
	var c claim
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		r, err := s.queries.ClaimWebhookReplay(ctx, tx, dbsqlc.ClaimWebhookReplayParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(), ID: id, Force: force,
		})
		if err != nil {
			return err
		}
		c, err = newClaim(r, lease, 0)
		return err
	})
	return c, err
}

func newClaim(r dbsqlc.ClaimWebhookReplayRow, lease uuid.UUID, job int64) (claim, error) {
	var h http.Header
	if err := json.Unmarshal(r.Headers, &h); err != nil {
		return claim{}, fmt.Errorf("webhook: headers of event %s: %w", r.ID, err)
	}
	return claim{lease: lease, tries: int(r.Tries), job: job, event: Event{
		ID: r.ID, Provider: r.Provider, Type: r.EventType, ExternalID: r.ExternalID,
		Body: r.Raw, Header: h, RetryCount: int(r.RetryCount), CreatedAt: r.CreatedAt,
	}}, nil
}
