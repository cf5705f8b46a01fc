package webhook

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
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
	where := conditions{args: []any{MaxInlineBody}}
	where.filter(f)
	if after != nil {
		where.add("(e.created_at, e.id) < (?, ?)", after.CreatedAt, after.ID)
	}
	list, err := records(ctx, r.o.AdminDB.Direct(), pageOf(where, limit), where.args)
	return list, db.Translate(err)
}

// pageOf is the query of a page.
func pageOf(where conditions, limit int) string {
	return recordColumns + where.sql() + fmt.Sprintf(" order by e.created_at desc, e.id desc limit %d", limit)
}

// Count returns the number of events that match f, or List's validation fault.
func (r *Receiver) Count(ctx context.Context, f Filter) (int64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	var where conditions
	where.filter(f)
	var n int64
	err := r.o.AdminDB.Direct().QueryRow(ctx, `select count(*) from webhook_events e`+where.sql(), where.args...).Scan(&n)
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
	for _, text := range []struct{ field, value string }{
		{"provider", f.Provider}, {"event_type", f.EventType}, {"external_id", f.ExternalID}, {"status", string(f.Status)},
	} {
		if !utf8.ValidString(text.value) || strings.ContainsRune(text.value, 0) {
			return fault.Validation(map[string]string{text.field: "It holds U+0000 or is not valid UTF-8."})
		}
	}
	return nil
}

// conditions collects a WHERE clause; each "?" takes the next argument.
type conditions struct {
	clauses []string
	args    []any
}

func (c *conditions) add(clause string, args ...any) {
	for _, a := range args {
		c.args = append(c.args, a)
		clause = strings.Replace(clause, "?", fmt.Sprintf("$%d", len(c.args)), 1)
	}
	c.clauses = append(c.clauses, clause)
}

func (c *conditions) filter(f Filter) {
	for _, equal := range []struct{ column, value string }{
		{"e.provider", f.Provider},
		{"e.event_type", f.EventType},
		{"e.external_id", f.ExternalID},
		{"e.status", string(f.Status)},
	} {
		if equal.value != "" {
			c.add(equal.column+" = ?", equal.value)
		}
	}
	if !f.From.IsZero() {
		c.add("e.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		c.add("e.created_at < ?", f.To)
	}
}

func (c *conditions) sql() string {
	if len(c.clauses) == 0 {
		return ""
	}
	return " where " + strings.Join(c.clauses, " and ")
}

// before reports whether p is an older place than q.
func (p Position) before(q Position) bool {
	if c := p.CreatedAt.Compare(q.CreatedAt); c != 0 {
		return c < 0
	}
	return bytes.Compare(p.ID[:], q.ID[:]) < 0
}
