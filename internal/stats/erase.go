package stats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
)

const (
	// eraseBatch is how many rows of a table one transaction of an erasure takes.
	eraseBatch = 5000
	// eraseBudget is how long one call of Erase works, well within a job's time.
	eraseBudget = 20 * time.Second
	// settleTime is how long after its deletion a site may still be written to, by
	// requests that had begun and processes that remember it for a moment.
	settleTime = 2 * time.Minute
)

// EraseJob is the job that erases a deleted site.
type EraseJob struct {
	SiteID uuid.UUID `json:"site_id"`
}

// Kind implements queue.Job.
func (EraseJob) Kind() string { return "sites.erase" }

// KindAliases has the job's former name: rows of an older version may have it.
func (EraseJob) KindAliases() []string { return []string{"site.erase"} }

// JobQueue inserts a job into a transaction.
type JobQueue interface {
	Insert(ctx context.Context, tx pgx.Tx, job queue.Job) error
}

// EraserOptions configure NewEraser.
type EraserOptions struct {
	DB    *db.DB   // mandatory
	Queue JobQueue // mandatory
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Eraser deletes sites with everything that was counted of them.
type Eraser struct {
	o       EraserOptions
	queries *dbsqlc.Queries
}

// NewEraser makes an Eraser, or says what its options lack.
func NewEraser(o EraserOptions) (*Eraser, error) {
	if o.DB == nil || o.Queue == nil {
		return nil, errors.New("stats: EraserOptions need DB and Queue")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Eraser{o: o, queries: dbsqlc.New()}, nil
}

// DeleteSite makes a site disappear at once, its keys with it, and queues the
// job that erases its data. It returns site.ErrNoSite.
func (e *Eraser) DeleteSite(ctx context.Context, id uuid.UUID) error {
	return e.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		now := e.o.Now()
		if _, err := e.queries.MarkSiteDeleted(ctx, tx, &now, id); err != nil {
			return db.NotFound(err, site.ErrNoSite)
		}
		return e.o.Queue.Insert(ctx, tx, EraseJob{SiteID: id})
	})
}

// Erase works on the erasure of a deleted site for a while. It returns 0 when
// nothing is left, else how long to wait before it is called again. It may be
// broken off at any instant and repeated at will; a site that is not deleted is
// left alone.
func (e *Eraser) Erase(ctx context.Context, id uuid.UUID) (time.Duration, error) {
	deadline := e.o.Now().Add(eraseBudget)
	deletedAt, err := e.queries.FindSiteDeletion(ctx, e.o.DB.Direct(), id)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && deletedAt == nil {
		return 0, nil
	}
	if err != nil {
		return 0, db.Translate(err)
	}
	// An import under way would go on for hours: it stops when a newer one begins.
	err = e.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := e.queries.BeginSiteImport(ctx, tx, id)
		return err
	})
	if err != nil {
		return 0, err
	}
	tables, err := e.tables(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range tables {
		for rows := int64(eraseBatch); rows == eraseBatch; {
			if e.o.Now().After(deadline) {
				return time.Second, nil
			}
			if rows, err = e.eraseSome(ctx, t, id); err != nil {
				return 0, err
			}
		}
	}
	if wait := deletedAt.Add(settleTime).Sub(e.o.Now()); wait > 0 {
		return wait, nil
	}
	if left, err := e.anyLeft(ctx, tables, id); err != nil || left {
		return time.Second, err
	}
	return 0, e.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := e.queries.DeleteSiteKeys(ctx, tx, id); err != nil {
			return err
		}
		if err := e.queries.DeleteSiteZones(ctx, tx, id); err != nil {
			return err
		}
		_, err := e.queries.DeleteSite(ctx, tx, id)
		return err
	})
}

// Work carries out an EraseJob. It returns queue.Again until nothing is left.
func (e *Eraser) Work(ctx context.Context, j EraseJob) error {
	wait, err := e.Erase(ctx, j.SiteID)
	if err == nil && wait > 0 {
		return queue.Again(wait)
	}
	return err
}

// Sweep goes on with the erasure of sites whose job was lost, and returns how
// many it finished.
func (e *Eraser) Sweep(ctx context.Context) (int, error) {
	const many = 100
	overdue := e.o.Now().Add(-2 * settleTime)
	ids, err := e.queries.ListDeletedSites(ctx, e.o.DB.Direct(), &overdue, many)
	if err != nil {
		return 0, db.Translate(err)
	}
	done := 0
	for _, id := range ids {
		wait, err := e.Erase(ctx, id)
		if err != nil || wait > 0 {
			return done, err
		}
		done++
	}
	return done, nil
}

// siteTable is a table whose rows belong to sites.
type siteTable struct {
	name string
	keys []string // its primary key's columns
}

// tables lists every table with a site_id, from the catalogue, so that none can
// be forgotten. Those of the site itself go last, and not from here.
func (e *Eraser) tables(ctx context.Context) ([]siteTable, error) {
	const catalogue = `
select c.oid::regclass::text, array(
    select quote_ident(a.attname)
    from pg_index i
    cross join unnest(i.indkey) with ordinality k (attnum, position)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    where i.indrelid = c.oid and i.indisprimary
    order by k.position)
from pg_class c
join pg_attribute s on s.attrelid = c.oid and s.attname = 'site_id' and not s.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and c.relname not in ('site_api_keys', 'site_zones')
order by c.relname`
	rows, err := e.o.DB.Direct().Query(ctx, catalogue)
	if err != nil {
		return nil, db.Translate(err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (siteTable, error) {
		var t siteTable
		err := row.Scan(&t.name, &t.keys)
		return t, err
	})
	if err != nil {
		return nil, db.Translate(err)
	}
	for _, t := range tables {
		if len(t.keys) == 0 || t.keys[0] != "site_id" {
			return nil, fmt.Errorf("stats: the primary key of %s does not lead with site_id", t.name)
		}
	}
	return tables, nil
}

// anyLeft reports whether the site still has rows. Of two erasures at once each passes
// by the rows that the other is deleting, and so may believe that a table is empty.
func (e *Eraser) anyLeft(ctx context.Context, tables []siteTable, id uuid.UUID) (bool, error) {
	for _, t := range tables {
		var left bool
		if err := e.o.DB.Direct().QueryRow(ctx, "select exists (select from "+t.name+" where site_id = $1)", id).Scan(&left); err != nil || left {
			return left, db.Translate(err)
		}
	}
	return false, nil
}

// eraseSome deletes up to eraseBatch rows of a site and returns how many.
func (e *Eraser) eraseSome(ctx context.Context, t siteTable, id uuid.UUID) (int64, error) {
	var deleted int64
	// Whatever the statistics say of a table that empties: by its primary key.
	err := e.o.DB.InIndexTx(ctx, identity.Step(ctx, "erase"), func(ctx context.Context, tx pgx.Tx) error {
		keys := strings.Join(t.keys, ", ")
		tag, err := tx.Exec(ctx, fmt.Sprintf("delete from %[1]s where site_id = $1 and (%[2]s) in (select %[2]s from %[1]s where site_id = $1 order by %[2]s limit %[3]d)", t.name, keys, eraseBatch), id)
		deleted = tag.RowsAffected()
		return err
	})
	return deleted, err
}

func (e *Eraser) inTx(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return e.o.DB.InTx(ctx, identity.Step(ctx, "erase"), fn)
}
