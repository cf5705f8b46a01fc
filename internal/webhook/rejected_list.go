package webhook

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
)

// RejectedFilter narrows the log; zero fields don't.
type RejectedFilter struct {
	Provider string
	Reason   Reason
}

// ListRejected returns up to limit refused deliveries that match f, newest first,
// from behind the entry after, or from the newest when after is nil. It returns a
// validation fault for a filter that no entry can be held against.
func (r *Receiver) ListRejected(ctx context.Context, f RejectedFilter, after *uuid.UUID, limit int) ([]Rejected, error) {
	where, err := f.conditions()
	if err != nil {
		return nil, err
	}
	if after != nil {
		where.add("id < ?", *after)
	}
	sql := `select id, provider, reason, address, headers, size, created_at from webhook_rejected` +
		where.sql() + fmt.Sprintf(" order by id desc limit %d", limit)
	rows, err := r.o.AdminDB.Direct().Query(ctx, sql, where.args...)
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
func (r *Receiver) CountRejected(ctx context.Context, f RejectedFilter) (int64, error) {
	where, err := f.conditions()
	if err != nil {
		return 0, err
	}
	var n int64
	err = r.o.AdminDB.Direct().QueryRow(ctx, `select count(*) from webhook_rejected`+where.sql(), where.args...).Scan(&n)
	return n, db.Translate(err)
}

func (f RejectedFilter) conditions() (conditions, error) {
	var where conditions
	if err := (Filter{Provider: f.Provider}).check(); err != nil {
		return where, err
	}
	if f.Provider != "" {
		where.add("provider = ?", f.Provider)
	}
	if f.Reason != "" {
		where.add("reason = ?", string(f.Reason))
	}
	return where, nil
}
