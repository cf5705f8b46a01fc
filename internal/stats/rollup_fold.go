package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/site"
)

// fold brings up to foldVisitors stale visitors of an open day into its rollups and
// returns how many they were.
func (r *Rollups) fold(ctx context.Context, siteID uuid.UUID, day time.Time) (int, error) {
	folded := 0
	err := r.locked(ctx, siteID, func(ctx context.Context, tx pgx.Tx, s site.Site) error {
		row, err := r.q.FindSiteDay(ctx, tx, siteID, day)
		if err != nil {
			return err
		}
		if row.State != stateOpen { // sealed in between; sealing needs the site's lock
			return nil
		}
		d := r.siteDay(s, row.Day, row.StartsAt, row.EndsAt)
		w := dayWriter{Rollups: r, tx: tx, siteID: siteID, day: d}
		folded, err = w.fold(ctx)
		if err != nil {
			return err
		}
		return r.o.Step("fold: commit")
	})
	if err != nil {
		return 0, fmt.Errorf("stats: fold %s of site %s: %w", day.Format(time.DateOnly), siteID, err)
	}
	return folded, nil
}

func (w *dayWriter) fold(ctx context.Context) (int, error) {
	if err := w.o.Step("fold: lock"); err != nil {
		return 0, err
	}
	// A visitor whose row is locked doesn't change until this transaction ends, and
	// what it did before is visible to the queries that follow.
	visitors, err := w.q.LockStaleVisitors(ctx, w.tx, w.siteID, w.day.day, foldVisitors)
	if err != nil || len(visitors) == 0 {
		return 0, err
	}
	raw, err := loadPortions(ctx, w.q, w.tx, w.siteID, w.day, visitors)
	if err != nil {
		return 0, err
	}
	dictionary := newDictionary(w.q, w.tx, w.siteID)
	var texts []labelText
	for _, of := range raw {
		texts = of.texts(texts)
	}
	if err := dictionary.intern(ctx, texts); err != nil {
		return 0, err
	}
	change := newPortion()
	former, err := w.q.ListVisitorPortions(ctx, w.tx, w.siteID, w.day.day, visitors)
	if err != nil {
		return 0, err
	}
	for _, row := range former {
		p, err := unpackPortion(row.Portion)
		if err != nil {
			return 0, err
		}
		change.add(p, -1)
	}
	saved := dbsqlc.SaveVisitorPortionsParams{SiteID: w.siteID, Day: w.day.day, Visitors: visitors}
	for _, v := range visitors {
		p := raw[v].resolve(dictionary)
		packed, err := p.pack()
		if err != nil {
			return 0, err
		}
		saved.Portions = append(saved.Portions, packed)
		change.add(p, 1)
	}
	if err := w.o.Step("fold: portions"); err != nil {
		return 0, err
	}
	if err := w.q.SaveVisitorPortions(ctx, w.tx, saved); err != nil {
		return 0, err
	}
	if err := w.o.Step("fold: rollups"); err != nil {
		return 0, err
	}
	if err := w.change(ctx, change); err != nil {
		return 0, err
	}
	if err := w.o.Step("fold: stale"); err != nil {
		return 0, err
	}
	return len(visitors), w.q.ClearStaleVisitors(ctx, w.tx, w.siteID, w.day.day, visitors)
}

// change adds a difference to the day's rollups.
func (w *dayWriter) change(ctx context.Context, difference portion) error {
	if difference.first.IsZero() {
		return nil // nobody folded has an event
	}
	sum, err := w.stored(ctx)
	if err != nil {
		return err
	}
	changed := make(map[countKey][]labelCount, len(difference.counts))
	sum.add(portion{first: difference.first, last: difference.last, traffic: difference.traffic, sessions: difference.sessions, hours: difference.hours}, 1)
	for key, counts := range difference.counts {
		changed[key] = addCounts(sum.counts[key], sortCounts(counts))
	}
	return w.save(ctx, &sum, changed)
}

// stored reads the day's rollups.
func (w *dayWriter) stored(ctx context.Context) (portion, error) {
	p := newPortion()
	rows, err := w.q.ListBlockCounts(ctx, w.tx, dbsqlc.ListBlockCountsParams{SiteID: w.siteID, FirstDay: w.day.day, LastDay: w.day.day})
	if err != nil {
		return portion{}, err
	}
	for _, row := range rows {
		counts, err := unpackCounts(row.Counts)
		if err != nil {
			return portion{}, err
		}
		p.counts[countKey{dimension: Dimension(row.Dimension), part: row.Part}] = counts
	}
	hours, err := w.q.ListRollupHours(ctx, w.tx, w.siteID, w.day.day, w.day.day)
	if err != nil {
		return portion{}, err
	}
	for _, h := range hours {
		p.hours[h.StartsAt.UnixMicro()] = Traffic{Pageviews: h.Pageviews, Visitors: h.Visitors}
	}
	days, err := w.q.ListRollupDays(ctx, w.tx, w.siteID, w.day.day, w.day.day)
	if err != nil {
		return portion{}, err
	}
	for _, d := range days {
		if d.FirstAt != nil {
			p.first, p.last = d.FirstAt.UTC(), d.LastAt.UTC()
			p.traffic, p.sessions = rollupTotals(d)
		}
	}
	return p, nil
}

func rollupTotals(d dbsqlc.ListRollupDaysRow) (Traffic, SessionTotals) {
	return Traffic{Pageviews: d.Pageviews, Visitors: d.Visitors}, SessionTotals{Sessions: d.Sessions, Bounces: d.Bounces, Micros: d.DurationUs}
}
