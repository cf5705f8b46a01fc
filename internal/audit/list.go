package audit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
)

// Filter narrows a list; zero fields don't.
type Filter struct {
	ActorType, ActorID, Action, Table, RowID, RequestID string
	From, To                                            time.Time // From inclusive, To exclusive
}

// index is the column whose index, which goes on with seq, leads to what matches f with the
// fewest others; "" for none.
func (f Filter) index() string {
	switch {
	case f.RequestID != "":
		return "request_id"
	case f.Table != "" && f.RowID != "":
		return ""
	case f.ActorID != "":
		return "actor_id"
	case f.Action != "":
		return "action"
	case f.Table != "":
		return "table_name"
	case f.ActorType != "":
		return "actor_type"
	}
	return ""
}

// matching is what entries must meet. That column index has a value is said so that only an
// order by it and seq is one of an index: otherwise PostgreSQL walks through the newest
// entries for what is common, though all of it may be old.
func (f Filter) matching(index string) *where.Clause {
	c := where.New()
	for _, field := range []struct{ column, value string }{
		{"actor_type", f.ActorType}, {"actor_id", f.ActorID}, {"action", f.Action}, {"table_name", f.Table}, {"row_id", f.RowID}, {"request_id", f.RequestID},
	} {
		switch {
		case field.value == "":
		case field.column == index:
			c.Add(index+" >= ? and "+index+" <= ?", field.value, field.value)
		default:
			c.Add(field.column+" = ?", field.value)
		}
	}
	if !f.From.IsZero() {
		c.Add("at >= ?", f.From)
	}
	if !f.To.IsZero() {
		c.Add("at < ?", f.To)
	}
	return c
}

// List returns up to limit entries that match f, newest first: those before the entry
// before, or the newest when that is 0. It writes the number of all that match to
// total, unless that is nil.
func (s *Service) List(ctx context.Context, f Filter, before int64, limit int, total *int64) ([]Entry, error) {
	index := f.index()
	matching := f.matching(index)
	if total != nil {
		if err := s.o.DB.Direct().QueryRow(ctx, `select count(*) from audit_log`+matching.SQL(), matching.Args()...).Scan(total); err != nil {
			return nil, fmt.Errorf("audit: count: %w", db.Translate(err))
		}
	}
	if before != 0 {
		matching.Add("seq < ?", before)
	}
	order := " order by seq desc"
	if index != "" {
		order = " order by " + index + " desc, seq desc"
	}
	rows, err := s.o.DB.Direct().Query(ctx, `select * from audit_log`+matching.SQL()+order+fmt.Sprintf(" limit %d", limit), matching.Fresh()...)
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", db.Translate(err))
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) {
		r, err := pgx.RowToStructByPos[dbsqlc.AuditLog](row)
		return entryOf(r), err
	})
	if err != nil {
		return nil, fmt.Errorf("audit: list: %w", db.Translate(err))
	}
	return list, nil
}

// Get returns one entry, or ErrEntry.
func (s *Service) Get(ctx context.Context, seq int64) (Entry, error) {
	r, err := s.queries.FindAuditEntry(ctx, s.o.DB.Direct(), seq)
	if err != nil {
		return Entry{}, db.NotFound(err, ErrEntry)
	}
	return entryOf(r), nil
}

// Checkpoints returns up to limit checkpoints, newest first: those of fewer entries
// than before, or the newest when that is 0.
func (s *Service) Checkpoints(ctx context.Context, before int64, limit int) ([]Checkpoint, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.queries.ListCheckpoints(ctx, s.o.DB.Direct(), before, int32(min(limit, math.MaxInt32)))
	if err != nil {
		return nil, fmt.Errorf("audit: list checkpoints: %w", db.Translate(err))
	}
	list := make([]Checkpoint, 0, len(rows))
	for _, row := range rows {
		list = append(list, checkpointOf(row))
	}
	return list, nil
}

// CountCheckpoints returns how many checkpoints there are.
func (s *Service) CountCheckpoints(ctx context.Context) (int64, error) {
	n, err := s.queries.CountCheckpoints(ctx, s.o.DB.Direct())
	if err != nil {
		return 0, fmt.Errorf("audit: count checkpoints: %w", db.Translate(err))
	}
	return n, nil
}
