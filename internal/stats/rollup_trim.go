package stats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/stats/columns"
)

// A label that something sealed has is there for good, and nobody counts how often. So what
// sealed days have is looked through from time to time, without a lock: labels that are not
// found there are labels of open days again, and go with these if they aren't sealed with
// them. Only sealing gives a sealed day a label. When a day was sealed meanwhile, nothing
// is let go.

const (
	// labelsEvery is how often a site's labels are looked through.
	labelsEvery = 30 * 24 * time.Hour
	// labelBatch is how many labels one transaction changes or deletes.
	labelBatch = 5000
	// sitesPerTrim is how many sites one call of TrimLabels takes on.
	sitesPerTrim = 1000
)

// errSealedMeanwhile says that a day was sealed while labels were looked through.
var errSealedMeanwhile = errors.New("stats: a day was sealed meanwhile")

// TrimLabels lets go of the labels that nothing has any more, of the sites whose labels were
// not looked through for 30 days, and returns how many. They are deleted as soon as all
// days that go on now are sealed. A site one of whose days is sealed meanwhile is left for
// the next call, and so is one of which a newer version has stored what this one can't read.
func (r *Rollups) TrimLabels(ctx context.Context) (int, error) {
	before := r.o.Now().Add(-labelsEvery)
	sites, err := r.queries.ListSitesToTrimLabels(ctx, r.o.DB.Direct(), &before, sitesPerTrim)
	if err != nil {
		return 0, db.Translate(err)
	}
	total := 0
	for _, id := range sites {
		n, err := r.trimLabels(ctx, id)
		total += n
		if err != nil && !errors.Is(err, errSealedMeanwhile) && !errors.Is(err, columns.ErrUnknownPart) {
			return total, fmt.Errorf("stats: labels of site %s: %w", id, err)
		}
	}
	return total, nil
}

func (r *Rollups) trimLabels(ctx context.Context, siteID uuid.UUID) (int, error) {
	seen, err := r.seeLabels(ctx, siteID)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // erased
	}
	if err != nil {
		return 0, err
	}
	if err := r.o.Interrupt(BeforeLabelsGo); err != nil {
		return 0, err
	}
	total := 0
	for after := int64(0); after < seen.last; {
		ids, err := r.queries.ListKeptLabels(ctx, r.o.DB.Direct(), dbsqlc.ListKeptLabelsParams{SiteID: siteID, After: after, LastID: seen.last, MaxRows: labelBatch})
		if err != nil {
			return total, db.Translate(err)
		}
		if len(ids) == 0 {
			break
		}
		after = ids[len(ids)-1]
		if ids = slices.DeleteFunc(ids, seen.used.has); len(ids) == 0 {
			continue
		}
		if err := r.letGo(ctx, siteID, seen, ids); err != nil {
			return total, err
		}
		total += len(ids)
	}
	if err := r.dropOpenLabels(ctx, siteID); err != nil {
		return total, err
	}
	now := r.o.Now()
	return total, r.o.DB.InTx(ctx, identity.System("rollups"), func(ctx context.Context, tx pgx.Tx) error {
		return r.queries.SetLabelsTrimmed(ctx, tx, &now, siteID)
	})
}

// seenLabels are the labels that a site's rollups and columns have at one instant.
type seenLabels struct {
	used   idSet
	last   int64 // the last label that there is
	sealed map[time.Time]dbsqlc.ListSealedDaysRow
}

// seeLabels locks nobody. What days have that go on, or that are to be sealed again, is
// counted as well: that does no harm, and may keep a label until the next time.
func (r *Rollups) seeLabels(ctx context.Context, siteID uuid.UUID) (seenLabels, error) {
	seen := seenLabels{sealed: make(map[time.Time]dbsqlc.ListSealedDaysRow)}
	err := r.o.DB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := r.queries.ListSealedDays(ctx, tx, siteID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			seen.sealed[row.Day.UTC()] = row
		}
		if seen.last, err = r.queries.FindLastRollupLabel(ctx, tx, siteID); err != nil {
			return err
		}
		seen.used = make(idSet, seen.last/64+1)
		if err := seen.addCounts(ctx, tx, siteID); err != nil {
			return err
		}
		parts, err := r.queries.ListColumnParts(ctx, tx, siteID)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if err := seen.addColumn(ctx, tx, siteID, part); err != nil {
				return fmt.Errorf("%s: %w", part, err)
			}
		}
		return nil
	})
	return seen, err
}

func (s *seenLabels) addCounts(ctx context.Context, tx pgx.Tx, siteID uuid.UUID) error {
	// By hand, as listColumns. Orders and places are of days that go on.
	rows, err := tx.Query(ctx, `select part, counts from rollup_counts where site_id = $1 and part >= 0`, siteID)
	if err != nil {
		return err
	}
	var part int64
	var packed pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&part, &packed}, func() error {
		s.used.add(part)
		return eachPacked(packed, func(c labelCount) { s.used.add(c.label) })
	})
	return err
}

func (s *seenLabels) addColumn(ctx context.Context, tx pgx.Tx, siteID uuid.UUID, part string) error {
	labelled, err := columns.HasTexts(part)
	if err != nil || !labelled {
		return err
	}
	rows, err := tx.Query(ctx, `select packed from rollup_columns where site_id = $1 and part = $2`, siteID, part)
	if err != nil {
		return err
	}
	var packed pgtype.DriverBytes
	var ids []int64
	_, err = pgx.ForEachRow(rows, []any{&packed}, func() error {
		var err error
		if ids, err = columns.IDs(ids[:0], packed); err != nil {
			return err
		}
		for _, id := range ids {
			s.used.add(id)
		}
		return nil
	})
	return err
}

// letGo makes labels that were not seen labels of the days that go on.
func (r *Rollups) letGo(ctx context.Context, siteID uuid.UUID, seen seenLabels, ids []int64) error {
	return r.holding(ctx, siteID, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := r.queries.ListSealedDays(ctx, tx, siteID)
		if err != nil {
			return err
		}
		for _, now := range rows {
			then, there := seen.sealed[now.Day.UTC()]
			if !there || then.Packed != now.Packed || !sameInstant(then.SealedAt, now.SealedAt) {
				return errSealedMeanwhile
			}
		}
		unsealed, err := r.queries.FindUnsealedDays(ctx, tx, siteID)
		if err != nil {
			return err
		}
		return r.queries.SetLabelsOpenDay(ctx, tx, &unsealed.LastDay, siteID, ids)
	})
}

func sameInstant(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// dropOpenLabels deletes the labels that came with days that are sealed by now, and that
// nothing sealed has.
func (r *Rollups) dropOpenLabels(ctx context.Context, siteID uuid.UUID) error {
	for rows := int64(labelBatch); rows == labelBatch; {
		err := r.holding(ctx, siteID, func(ctx context.Context, tx pgx.Tx) error {
			unsealed, err := r.queries.FindUnsealedDays(ctx, tx, siteID)
			if err != nil {
				return err
			}
			rows, err = r.queries.DeleteOpenLabels(ctx, tx, siteID, &unsealed.FirstDay, labelBatch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// holding runs f while nobody folds or seals days of the site. Unlike locked it changes
// nothing that a fold under way has read, which so goes on. A site that is gone, or was
// never counted, has nothing to do.
func (r *Rollups) holding(ctx context.Context, siteID uuid.UUID, f func(ctx context.Context, tx pgx.Tx) error) error {
	return r.o.DB.InTx(ctx, identity.System("rollups"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := r.queries.HoldRollupSite(ctx, tx, siteID); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		}
		return f(ctx, tx)
	})
}

// idSet is a set of label ids, a bit for each.
type idSet []uint64

// add takes no id beyond those that there were when s was made: none is asked for.
func (s idSet) add(id int64) {
	if id >= 0 && id/64 < int64(len(s)) {
		s[id/64] |= 1 << (id % 64)
	}
}

func (s idSet) has(id int64) bool { return s[id/64]&(1<<(id%64)) != 0 }
