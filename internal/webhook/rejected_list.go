package webhook

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/where"
)

// RejectedFilter narrows the log; zero fields don't.
type RejectedFilter struct {
	Provider string
	Reason   Reason
}

// ListRejected returns up to limit refused deliveries that match f, newest first,
// from behind the entry after, or from the newest when after is nil. It returns a
// validation fault for a filter that no entry can be held against.
func (a *Admin) ListRejected(ctx context.Context, f RejectedFilter, after *uuid.UUID, limit int) ([]Rejected, error) {
	matching, err := f.matching()
	if err != nil {
		return nil, err
	}
	if after != nil {
		matching.Add("id < ?", *after)
	}
	sql := `select id, provider, reason, address, headers, size, created_at from webhook_rejected` +
		matching.SQL() + fmt.Sprintf(" order by id desc limit %d", limit)
	rows, err := a.o.AdminDB.Direct().Query(ctx, sql, matching.Args()...)
	if err != nil {
		return nil, db.Translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Rejected, error) {
		var e Rejected
		var address *netip.Addr
		err := row.Scan(&e.ID, &e.Provider, &e.Reason, &address, &e.Header, &e.Size, &e.At)
		if address != nil {
			e.Address = *address
		}
		return e, err
	})
	return list, db.Translate(err)
}

// CountRejected returns the number of entries that match f, or ListRejected's
// validation fault.
func (a *Admin) CountRejected(ctx context.Context, f RejectedFilter) (int64, error) {
	matching, err := f.matching()
	if err != nil {
		return 0, err
	}
	var n int64
	err = a.o.AdminDB.Direct().QueryRow(ctx, `select count(*) from webhook_rejected`+matching.SQL(), matching.Args()...).Scan(&n)
	return n, db.Translate(err)
}

func (f RejectedFilter) matching() (*where.Clause, error) {
	c := where.New()
	if err := (Filter{Provider: f.Provider}).check(); err != nil {
		return nil, err
	}
	if f.Provider != "" {
		c.Add("provider = ?", f.Provider)
	}
	if f.Reason != "" {
		c.Add("reason = ?", string(f.Reason))
	}
	return c, nil
}
