package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
)

// AttemptOutcome is how an attempt to handle an event ended.
type AttemptOutcome string

// The outcomes of attempts.
const (
	AttemptRunning     AttemptOutcome = "running"
	AttemptProcessed   AttemptOutcome = "processed"
	AttemptFailed      AttemptOutcome = "failed"
	AttemptInterrupted AttemptOutcome = "interrupted" // the process or its database went away
)

// Attempt is one entry of an event's ledger.
type Attempt struct {
	Number  int // from 1
	At      time.Time
	Outcome AttemptOutcome
	Error   string // "" when there is none
	Target  string // that it was made at; "" for a handler in code
	// Duration is nil for an attempt that runs, or that was interrupted.
	Duration *time.Duration
}

// Detail is an event with everything that is kept of it.
type Detail struct {
	Record   // with the whole body
	Header   http.Header
	Attempts []Attempt // oldest first; none for an event without a handler
}

// The latest attempt is in the event's row, or in that of a target; earlier ones are in
// the ledger.
const attemptsQuery = `
select row_number() over (order by at, target, number), at, outcome, error, duration_ms, target
from (select number, at, outcome, error, duration_ms, target from webhook_attempts where event_id = $1
union all
select attempts, attempt_at,
       case when status <> 'pending' then status
            when lease_id is null then 'failed'
            when lease_until < now() then 'interrupted'
            else 'running' end,
       case when status = 'failed' or status = 'pending' and lease_id is null then handler_error else '' end,
       attempt_ms, ''
from webhook_events where id = $1 and attempt_at is not null
union all
select attempts, attempt_at,
       case when status <> 'pending' then status
            when lease_id is null then 'failed'
            when due_at < now() then 'interrupted'
            else 'running' end,
       case when status = 'failed' or status = 'pending' and lease_id is null then error else '' end,
       attempt_ms, target
from webhook_forwards where event_id = $1 and attempt_at is not null) a
order by 1`

// Detail returns one event whole, or ErrEvent.
func (a *Admin) Detail(ctx context.Context, id uuid.UUID) (Detail, error) {
	var d Detail
	err := a.o.AdminDB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := records(ctx, tx, recordColumns+` where e.id = $2`, []any{MaxInlineBody, id})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrEvent
		}
		d.Record = found[0]
		var headers []byte
		if err := tx.QueryRow(ctx, `select raw, headers from webhook_events where id = $1`, id).Scan(&d.Body, &headers); err != nil {
			return err
		}
		if err := json.Unmarshal(headers, &d.Header); err != nil {
			return fmt.Errorf("webhook: headers of event %s: %w", id, err)
		}
		rows, err := tx.Query(ctx, attemptsQuery, id)
		if err != nil {
			return err
		}
		d.Attempts, err = pgx.CollectRows(rows, scanAttempt)
		return err
	})
	return d, err
}

func scanAttempt(row pgx.CollectableRow) (Attempt, error) {
	var a Attempt
	var ms *float64
	err := row.Scan(&a.Number, &a.At, &a.Outcome, &a.Error, &ms, &a.Target)
	if ms != nil {
		took := time.Duration(*ms * float64(time.Millisecond))
		a.Duration = &took
	}
	return a, err
}

// Raw returns the delivery's body exactly as it was sent, ErrEvent, or ErrEmptied.
func (a *Admin) Raw(ctx context.Context, id uuid.UUID) ([]byte, error) {
	var raw []byte
	err := a.o.AdminDB.Direct().QueryRow(ctx, `select raw from webhook_events where id = $1`, id).Scan(&raw)
	if err != nil {
		return nil, db.NotFound(err, ErrEvent)
	}
	if raw == nil {
		return nil, ErrEmptied
	}
	return raw, nil
}
