package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// BulkStatus is the state of a bulk replay.
type BulkStatus string

// The states of a bulk replay.
const (
	BulkRunning   BulkStatus = "running"
	BulkFinished  BulkStatus = "finished"
	BulkCancelled BulkStatus = "cancelled"
)

// bulkBatch is how many events of a bulk replay are handled at the same time.
const bulkBatch = 16

// Bulk is a replay of all events that match a filter.
type Bulk struct {
	ID     uuid.UUID
	Filter Filter
	Force  bool // processed events too
	Status BulkStatus
	// Matched is how many events a single replay would have taken when it was asked
	// for; Replayed how many it has taken since, and the other three what those are
	// now.
	Matched, Replayed          int64
	Processed, Failed, Pending int64
	CreatedAt                  time.Time
	FinishedAt                 *time.Time // also when it was cancelled
}

// ReplayJob is the job that carries out a bulk replay.
type ReplayJob struct {
	ReplayID uuid.UUID `json:"replay_id"`
}

// Kind names the job in the queue.
func (ReplayJob) Kind() string { return "webhooks.replay" }

// KindAliases has the job's former name: rows of an older version may have it.
func (ReplayJob) KindAliases() []string { return []string{"webhook_replay"} }

// What bulk replays answer.
var (
	ErrBulk      = fault.Missing("bulk replay")
	ErrBulkEnded = fault.New(fault.Conflict, "replay_ended", "The bulk replay has already ended.")
)

// replayable is what a single replay takes, and, where the filter asks for it, what was
// processed because it had no handler: its effect would not happen again.
const replayable = `e.raw is not null and (e.status = 'failed'
	or e.status = 'pending' and (e.lease_id is null or e.lease_until < now())
	   and (e.lease_until < 'infinity' or exists (select from webhook_forwards f
	        where f.event_id = e.id and (f.status = 'failed' or f.status = 'pending' and (f.lease_id is null or f.due_at < now()))))
	or e.status = 'processed' and ?::boolean)`

// StartBulk asks for a replay of all events that match f, which a single replay,
// with force or without, would take, and that exist now. It returns a validation
// fault for a filter that is empty or that no event can be held against.
func (a *Admin) StartBulk(ctx context.Context, f Filter, force bool) (Bulk, error) {
	if f == (Filter{}) {
		return Bulk{}, fault.Validation(map[string]string{"filter": "Give at least one filter."})
	}
	if err := f.check(); err != nil {
		return Bulk{}, err
	}
	if err := a.findRepeats(ctx, f); err != nil {
		return Bulk{}, err
	}
	id, err := a.o.NewID()
	if err != nil {
		return Bulk{}, fmt.Errorf("webhook: new id: %w", err)
	}
	filter, err := json.Marshal(storedFilter{
		Provider: f.Provider, EventType: f.EventType, ExternalID: f.ExternalID, Status: f.Status, Target: f.Target, Error: f.Error,
		Repeated: f.Repeated, Unhandled: f.Unhandled, From: f.From, To: f.To, Force: force,
	})
	if err != nil {
		return Bulk{}, fmt.Errorf("webhook: filter: %w", err)
	}
	b := Bulk{ID: id, Filter: f, Force: force, Status: BulkRunning, CreatedAt: a.o.Now().UTC().Truncate(time.Microsecond)}
	matching := f.matching()
	matching.Add(replayable, force || f.Unhandled)
	err = a.o.AdminDB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `select count(*) from webhook_events e`+matching.SQL(), matching.Fresh()...).Scan(&b.Matched); err != nil {
			return err
		}
		err := a.store.queries.InsertWebhookReplay(ctx, tx, dbsqlc.InsertWebhookReplayParams{ID: id, Filter: filter, Matched: b.Matched, CreatedAt: b.CreatedAt})
		if err != nil {
			return err
		}
		_, err = a.o.Jobs.InsertMany(ctx, tx, []queue.Entry{{Job: ReplayJob{ReplayID: id}, Lane: queue.Webhooks}})
		return err
	})
	return b, err
}

// Bulk returns a bulk replay with its progress, or ErrBulk.
func (a *Admin) Bulk(ctx context.Context, id uuid.UUID) (Bulk, error) {
	var b Bulk
	err := a.o.AdminDB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := a.store.queries.FindWebhookReplay(ctx, tx, id)
		if err != nil {
			return err
		}
		b, err = newBulk(row)
		if err != nil {
			return err
		}
		progress, err := a.store.queries.CountWebhookReplayEvents(ctx, tx, id)
		b.Replayed, b.Processed, b.Failed, b.Pending = progress.Replayed, progress.Processed, progress.Failed, progress.Pending
		return err
	})
	return b, db.NotFound(err, ErrBulk)
}

// Bulks returns up to limit bulk replays without their progress, newest first, from behind
// after, or from the newest when after is nil.
func (a *Admin) Bulks(ctx context.Context, after *uuid.UUID, limit int) ([]Bulk, error) {
	before := uuid.Max
	if after != nil {
		before = *after
	}
	rows, err := a.store.queries.ListWebhookReplays(ctx, a.o.AdminDB.Direct(), before, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]Bulk, len(rows))
	for i, row := range rows {
		if list[i], err = newBulk(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// CountBulks returns how many bulk replays are kept.
func (a *Admin) CountBulks(ctx context.Context) (int64, error) {
	n, err := a.store.queries.CountWebhookReplays(ctx, a.o.AdminDB.Direct())
	return n, db.Translate(err)
}

// CancelBulk ends a bulk replay: events that it has taken are handled, no more are
// taken. It returns ErrBulk, or ErrBulkEnded.
func (a *Admin) CancelBulk(ctx context.Context, id uuid.UUID) (Bulk, error) {
	var n int64
	err := a.o.AdminDB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = a.store.queries.EndWebhookReplay(ctx, tx, string(BulkCancelled), a.o.Now(), id)
		return err
	})
	if err != nil {
		return Bulk{}, err
	}
	b, err := a.Bulk(ctx, id)
	if err == nil && n == 0 {
		return Bulk{}, ErrBulkEnded
	}
	return b, err
}

// ContinueBulk is the work of a ReplayJob: it replays batch after batch until all are
// done, or until ctx is about to end or has ended: then it returns queue.Again. Which events were taken is recorded as they are claimed, so
// after a crash it goes on where it was, and the sweep handles what was claimed.
func (w *Worker) ContinueBulk(ctx context.Context, job ReplayJob) error {
	if !w.enter() {
		return groupcommit.ErrClosed
	}
	defer w.working.Done()
	p := identity.Step(ctx, "webhook-replay")
	for {
		if w.endsBeforeABatch(ctx) {
			return queue.Again(0)
		}
		claims, done, err := w.claimBulk(ctx, p, job.ReplayID)
		if err != nil {
			return err
		}
		w.sending.wakeAll()
		w.dispatchAll(ctx, p, claims)
		if done {
			return nil
		}
	}
}

// claimBulk claims the next batch and moves the replay on, in one transaction. The
// lock on the replay's row keeps two runs of a job, and a cancellation, apart.
func (w *Worker) claimBulk(ctx context.Context, p identity.Principal, id uuid.UUID) ([]claim, bool, error) {
	lease, err := w.store.newLease()
	if err != nil {
		return nil, false, fmt.Errorf("webhook: new lease: %w", err)
	}
	var claims []claim
	done := false
	err = w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		row, err := w.store.queries.LockRunningWebhookReplay(ctx, tx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			done = true // finished, or cancelled
			return nil
		}
		if err != nil {
			return err
		}
		b, err := newBulk(row)
		if err != nil {
			return err
		}
		var last Position
		claims, last, err = w.takeBulk(ctx, tx, b, Position{row.AfterAt, row.AfterID}, lease)
		if err != nil {
			return err
		}
		taken := len(claims)
		if claims, _, err = w.store.handOver(ctx, tx, claims, b.Force); err != nil {
			return err
		}
		if claims, err = w.store.leaveUnbound(ctx, tx, claims); err != nil {
			return err
		}
		if taken < bulkBatch {
			done = true
			_, err := w.store.queries.EndWebhookReplay(ctx, tx, string(BulkFinished), w.o.Now(), id)
			return err
		}
		return w.store.queries.AdvanceWebhookReplay(ctx, tx, last.CreatedAt, last.ID, id)
	})
	return claims, done, err
}

// bulkClaim is ClaimWebhookReplay for the next batch of those that match. A row
// that somebody else has locked is being handled, so it is passed over.
const bulkClaim = `
with target as (
    select e.* from webhook_events e%s
    order by e.created_at desc, e.id desc
    limit %d
    for no key update skip locked
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
    select id, attempts, attempt_at,
           case when status <> 'pending' then status when lease_id is null then 'failed' else 'interrupted' end,
           case when status = 'failed' or lease_id is null then handler_error else '' end, attempt_ms
    from target where attempt_at is not null
), taken as (
    insert into webhook_replay_events (replay_id, event_id) select $1, id from target
)
update webhook_events e
set status = 'pending', retry_count = least(target.retry_count, 2147483646) + 1,
    lease_id = $2, lease_until = now() + make_interval(secs => $3), job_id = null,
    attempts = target.attempts + 1, tries = 1, interrupted = 0, attempt_at = now(), attempt_ms = null
from target where e.id = target.id
returning e.id, e.provider, e.event_type, e.external_id, e.retry_count, e.tries, e.created_at, e.raw, e.headers,
          target.status = 'processed' and target.attempts = 0`

// takeBulk claims the batch behind after and returns the oldest one's place.
func (w *Worker) takeBulk(ctx context.Context, tx pgx.Tx, b Bulk, after Position, lease uuid.UUID) ([]claim, Position, error) {
	matching := b.Filter.matching(b.ID, lease, w.store.lease.Seconds())
	matching.Add("(e.created_at, e.id) < (?, ?)", after.CreatedAt, after.ID)
	matching.Add(replayable, b.Force || b.Filter.Unhandled)
	rows, err := tx.Query(ctx, fmt.Sprintf(bulkClaim, matching.SQL(), bulkBatch), matching.Fresh()...)
	if err != nil {
		return nil, after, err
	}
	taken, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.ClaimWebhookReplayRow])
	if err != nil {
		return nil, after, err
	}
	claims := make([]claim, len(taken))
	for i, t := range taken {
		if claims[i], err = newClaim(t, lease, 0); err != nil {
			return nil, after, err
		}
		if at := (Position{t.CreatedAt, t.ID}); at.before(after) {
			after = at
		}
	}
	return claims, after, nil
}

func newBulk(row dbsqlc.WebhookReplay) (Bulk, error) {
	b := Bulk{
		ID: row.ID, Status: BulkStatus(row.Status), Matched: row.Matched,
		CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
	}
	var f storedFilter
	if err := json.Unmarshal(row.Filter, &f); err != nil {
		return Bulk{}, fmt.Errorf("webhook: filter of replay %s: %w", row.ID, err)
	}
	b.Filter = Filter{
		Provider: f.Provider, EventType: f.EventType, ExternalID: f.ExternalID, Status: f.Status, Target: f.Target, Error: f.Error,
		Repeated: f.Repeated, Unhandled: f.Unhandled, From: f.From, To: f.To,
	}
	b.Force = f.Force
	return b, nil
}

// storedFilter is what a replay's row keeps of the request.
type storedFilter struct {
	Provider   string    `json:"provider,omitempty"`
	EventType  string    `json:"event_type,omitempty"`
	ExternalID string    `json:"external_id,omitempty"`
	Status     Status    `json:"status,omitempty"`
	Target     string    `json:"target,omitempty"`
	Error      string    `json:"error,omitempty"`
	Repeated   bool      `json:"repeated,omitempty"`
	Unhandled  bool      `json:"unhandled,omitempty"`
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
	Force      bool      `json:"force,omitempty"`
}
