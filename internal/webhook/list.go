package webhook

import (
	"bytes"
	"context"
	"fmt"
	"time"

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
func (r *Receiver) List(ctx context.Context, f Filter, after *Position, limit int) ([]Record, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	matching := f.matching(MaxInlineBody)
	if after != nil {
		matching.Add("(e.created_at, e.id) < (?, ?)", after.CreatedAt, after.ID)
	}
	list, err := records(ctx, r.o.AdminDB.Direct(), pageOf(matching, limit), matching.Args())
	return list, db.Translate(err)
}

// pageOf is the query of a page.
func pageOf(matching *where.Clause, limit int) string {
	return recordColumns + matching.SQL() + fmt.Sprintf(" order by e.created_at desc, e.id desc limit %d", limit)
}

// Count returns the number of events that match f, or List's validation fault.
func (r *Receiver) Count(ctx context.Context, f Filter) (int64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	var n int64
	matching := f.matching()
	err := r.o.AdminDB.Direct().QueryRow(ctx, `select count(*) from webhook_events e`+matching.SQL(), matching.Args()...).Scan(&n)
	return n, db.Translate(err)
}

// Find returns one event, or ErrEvent.
func (r *Receiver) Find(ctx context.Context, id uuid.UUID) (Record, error) {
	found, err := records(ctx, r.o.AdminDB.Direct(), recordColumns+` where e.id = $2`, []any{MaxInlineBody, id})
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
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Record, error) {
		var rec Record
		err := row.Scan(&rec.ID, &rec.Provider, &rec.EventType, &rec.ExternalID, &rec.Status, &rec.HandlerError,
			&rec.RetryCount, &rec.ProcessedAt, &rec.CreatedAt, &rec.BodySize, &rec.Emptied, &rec.Body, &rec.BodySHA256, &rec.RepeatedBodyOf)
		return rec, err
	})
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// check refuses text that PostgreSQL can't compare with anything.
func (f Filter) check() error {
	for _, given := range []struct{ field, value string }{
		{"provider", f.Provider}, {"event_type", f.EventType}, {"external_id", f.ExternalID}, {"status", string(f.Status)},
	} {
		if !text.Storable(given.value) {
			return fault.Validation(map[string]string{given.field: "It holds U+0000 or is not valid UTF-8."})
		}
	}
	return nil
}

// matching is what events, called e, must meet, for a statement that has args before.
func (f Filter) matching(args ...any) *where.Clause {
	c := where.New(args...)
	for _, equal := range []struct{ column, value string }{
		{"e.provider", f.Provider},
		{"e.event_type", f.EventType},
		{"e.external_id", f.ExternalID},
		{"e.status", string(f.Status)},
	} {
		if equal.value != "" {
			c.Add(equal.column+" = ?", equal.value)
		}
	}
	if !f.From.IsZero() {
		c.Add("e.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		c.Add("e.created_at < ?", f.To)
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
