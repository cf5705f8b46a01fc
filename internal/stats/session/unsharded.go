package session

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// unsharded are the tables of one PostgreSQL: a transaction writes events of any sites.
type unsharded struct{ Store }

// copyFrom is the number of events from which COPY takes less time than INSERT.
const copyFrom = 256

func (u unsharded) lockDays(ctx context.Context, tx pgx.Tx, sites []uuid.UUID, days []time.Time) ([]dbsqlc.ShareSiteDaysRow, error) {
	return u.queries.ShareSiteDays(ctx, tx, sites, days)
}

func (u unsharded) markDirty(ctx context.Context, tx pgx.Tx, sites []uuid.UUID, days []time.Time) error {
	return u.queries.MarkSiteDaysDirty(ctx, tx, sites, days)
}

func (u unsharded) touchHeads(ctx context.Context, tx pgx.Tx, k keys, sessions []int64, lasts []time.Time, continued []int64, firsts []time.Time) (pgx.Rows, error) {
	return tx.Query(ctx, touchHeads, k.sites, k.days, k.visitors, sessions, lasts, continued, firsts, u.gap)
}

func (unsharded) listSessions(ctx context.Context, tx pgx.Tx, k keys) ([]Stored, error) {
	return list(ctx, tx, listOfVisitors, k.sites, k.days, k.visitors)
}

func (u unsharded) store(ctx context.Context, w *writer) (Receipt, error) {
	var p db.Pipeline
	if len(w.saves.ids) > 0 {
		if _, err := p.Exec(ctx, saveSessions, w.saves.arguments()...); err != nil {
			return Receipt{}, err
		}
	}
	if len(w.extends.Ids) > 0 {
		if err := u.queries.ExtendSessions(ctx, &p, w.extends); err != nil {
			return Receipt{}, err
		}
	}
	if len(w.heads.Visitors) > 0 {
		if err := u.queries.UpdateSessionHeads(ctx, &p, w.heads); err != nil {
			return Receipt{}, err
		}
	}
	gone, ids, err := w.handOver(ctx, &p)
	if err != nil {
		return Receipt{}, err
	}
	if len(ids) > 0 {
		if err := u.queries.DeleteSessions(ctx, &p, gone.sites, gone.days, ids); err != nil {
			return Receipt{}, err
		}
	}
	if len(w.batch) < copyFrom {
		if err := u.queries.InsertEvents(ctx, &p, w.columns()); err != nil {
			return Receipt{}, err
		}
		return Receipt{}, p.Send(ctx, w.tx)
	}
	if err := p.Send(ctx, w.tx); err != nil {
		return Receipt{}, err
	}
	_, err = u.queries.CopyEvents(ctx, w.tx, w.rows())
	return Receipt{}, err
}
