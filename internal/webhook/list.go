package webhook

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// Filter narrows a list; zero fields don't.
type Filter struct {
	Provider   string
	EventType  string
	ExternalID string
	Status     Status
	Target     string    // the name of one that the event goes to
	Error      string    // how the event's error begins, in any case
	Repeated   bool      // only those whose body an earlier event of their provider has
	Unhandled  bool      // only those that were processed because no handler was bound when they came
	From, To   time.Time // From inclusive, To exclusive
}

// Position is a place in the list, newest first.
type Position struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// The list is written by hand: one statement for all combinations of filters
// would get one plan for all. An octet_length reads no body.
//
// A provider's earliest event with an equal body is the first entry of an index
// from there on, which no other index can be taken for: it is one step, however many
// such bodies there are. External ids need not be compared, since they are unique.
const recordColumns = `
select e.id, e.provider, e.event_type, e.external_id, e.status, e.handler_error, e.retry_count, e.processed_at, e.created_at,
       coalesce(octet_length(e.raw), 0) as size, e.raw is null as emptied, case when octet_length(e.raw) < $1 then e.raw end as raw, e.raw_sha256,
       nullif((select b.id from webhook_events b
               where (b.raw_sha256, b.provider) >= (e.raw_sha256, e.provider)
               order by b.raw_sha256, b.provider, b.id limit 1), e.id) as repeated_body_of
from webhook_events e`

// List returns up to limit events that match f, newest first, from behind after,
// or from the newest when after is nil. It returns a validation fault for a filter
// that no event can be held against.
func (a *Admin) List(ctx context.Context, f Filter, after *Position, limit int) ([]Record, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.isNone() {
		return nil, nil
	}
	if err := a.findRepeats(ctx, f); err != nil {
		return nil, err
	}
	sql, args, err := f.page(ctx, a.o.AdminDB.Direct(), after, limit)
	if err != nil {
		return nil, db.Translate(err)
	}
	list, err := records(ctx, a.o.AdminDB.Direct(), sql, args.Fresh())
	return list, db.Translate(err)
}

// Count returns the number of events that match f, or List's validation fault.
func (a *Admin) Count(ctx context.Context, f Filter) (int64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.isNone() {
		return 0, nil
	}
	if err := a.findRepeats(ctx, f); err != nil {
		return 0, err
	}
	var n int64
	matching := f.matching()
	err := a.o.AdminDB.Direct().QueryRow(ctx, `select count(*) from webhook_events e`+matching.SQL(), matching.Fresh()...).Scan(&n)
	return n, db.Translate(err)
}

// Find returns one event, or ErrEvent.
func (a *Admin) Find(ctx context.Context, id uuid.UUID) (Record, error) {
	found, err := records(ctx, a.o.AdminDB.Direct(), recordColumns+` where e.id = $2`, []any{MaxInlineBody, id})
	if err != nil {
		return Record{}, db.Translate(err)
	}
	if len(found) == 0 {
		return Record{}, ErrEvent
	}
	return found[0], nil
}

func records(ctx context.Context, q querier, sql string, args []any) ([]Record, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Record, error) {
		var rec Record
		err := row.Scan(&rec.ID, &rec.Provider, &rec.EventType, &rec.ExternalID, &rec.Status, &rec.HandlerError,
			&rec.RetryCount, &rec.ProcessedAt, &rec.CreatedAt, &rec.BodySize, &rec.Emptied, &rec.Body, &rec.BodySHA256, &rec.RepeatedBodyOf)
		return rec, err
	})
	if err != nil {
		return nil, err
	}
	return list, addTargets(ctx, q, list)
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// check refuses text that PostgreSQL can't compare with anything.
func (f Filter) check() error {
	for _, given := range []struct{ field, value string }{
		{"provider", f.Provider}, {"event_type", f.EventType}, {"external_id", f.ExternalID}, {"status", string(f.Status)}, {"target", f.Target}, {"error", f.Error},
	} {
		if !text.Storable(given.value) {
			return fault.Validation(map[string]string{given.field: "It holds U+0000 or is not valid UTF-8."})
		}
	}
	if utf8.RuneCountInString(f.Error) > maxErrorFilter {
		return fault.Validation(map[string]string{"error": fmt.Sprintf("It has more than %d characters.", maxErrorFilter)})
	}
	return nil
}

// isNone reports whether no event can match: skipped is an answer to a sender, and what was
// never handled neither failed nor waits.
func (f Filter) isNone() bool {
	return f.Status == Skipped || f.Unhandled && f.Status != "" && f.Status != Processed
}

// matching is what events, called e, must meet, for a statement that has args before.
func (f Filter) matching(args ...any) *where.Clause {
	c := where.New(args...)
	for _, one := range f.conditions() {
		one.on(c, "e")
	}
	return c
}

// before reports whether p is an older place than q.
func (p Position) before(q Position) bool {
	if c := p.CreatedAt.Compare(q.CreatedAt); c != 0 {
		return c < 0
	}
	return bytes.Compare(p.ID[:], q.ID[:]) < 0
}
