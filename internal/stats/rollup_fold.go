package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// fold brings up to foldVisitors stale visitors of an open day, in order from the
// one behind after, into its rollups. It returns the last of them and how many
// they were. They are read before the lock is taken, which so is short; when
// somebody else had the lock meanwhile, nothing is folded.
func (r *Rollups) fold(ctx context.Context, siteID uuid.UUID, day time.Time, after int64) (int64, int, error) {
	stale, err := r.readStale(ctx, siteID, day, after)
	folded := false
	if err == nil && len(stale.visitors) > 0 {
		folded, err = r.foldStale(ctx, siteID, stale)
	}
	switch {
	case err != nil:
		return after, 0, fmt.Errorf("stats: fold %s of site %s: %w", day.Format(time.DateOnly), siteID, err)
	case !folded:
		return after, 0, nil
	}
	n := len(stale.visitors)
	return stale.visitors[n-1], n, nil
}

// foldStale says whether what was read is still what there is, and so was folded.
func (r *Rollups) foldStale(ctx context.Context, siteID uuid.UUID, stale staleVisitors) (bool, error) {
	folded := false
	err := r.locked(ctx, siteID, func(ctx context.Context, tx pgx.Tx, s lockedSite) error {
		row, err := r.queries.FindSiteDay(ctx, tx, siteID, stale.day.Date)
		if err != nil || s.generation != stale.generation+1 || row.State != stateOpen {
			return err
		}
		w := dayWriter{Rollups: r, tx: tx, siteID: siteID, day: stale.day}
		if err := w.fold(ctx, stale); err != nil {
			return err
		}
		folded = true
		return r.o.Interrupt(BeforeFoldCommit)
	})
	return folded, err
}

// staleVisitors are what some visitors of a day had done at one instant.
type staleVisitors struct {
	day        siteDay
	generation int64 // of the site's lock
	visitors   []int64
	editions   map[int64]int32
	portions   map[int64]*rawPortion
}

// readStale locks nobody: whoever writes goes on, and gets an edition that the end
// of the fold leaves alone.
func (r *Rollups) readStale(ctx context.Context, siteID uuid.UUID, day time.Time, after int64) (staleVisitors, error) {
	v := staleVisitors{editions: make(map[int64]int32)}
	if err := r.o.Interrupt(BeforeFoldRead); err != nil {
		return v, err
	}
	s, err := r.o.Sites.Find(ctx, siteID)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			err = nil // nothing is left to fold
		}
		return v, err
	}
	return v, r.o.DB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planAnew); err != nil {
			return err
		}
		row, err := r.queries.FindSiteDay(ctx, tx, siteID, day)
		if err != nil {
			return err
		}
		v.day = siteDayOf(s, calendar.Day{Date: row.Day, Start: row.StartsAt, End: row.EndsAt})
		if v.generation, err = r.queries.FindRollupGeneration(ctx, tx, siteID); err != nil {
			return err
		}
		rows, err := r.queries.ListVisitorsToFold(ctx, tx, dbsqlc.ListVisitorsToFoldParams{SiteID: siteID, Day: v.day.Date, After: after, MaxRows: foldVisitors})
		if err != nil {
			return err
		}
		for _, row := range rows {
			v.visitors, v.editions[row.Visitor] = append(v.visitors, row.Visitor), row.Edition
		}
		v.portions, err = loadPortions(ctx, r.queries, tx, siteID, v.day, v.visitors)
		return err
	})
}

func (w *dayWriter) fold(ctx context.Context, stale staleVisitors) error {
	dictionary := newDictionary(w.queries, w.tx, w.siteID)
	var texts []labelText
	for _, of := range stale.portions {
		texts = of.texts(texts)
	}
	if err := dictionary.intern(ctx, texts, &w.day.Date); err != nil {
		return err
	}
	change := newPortion()
	former, err := w.queries.ListVisitorPortions(ctx, w.tx, w.siteID, w.day.Date, stale.visitors)
	if err != nil {
		return err
	}
	for _, row := range former {
		p, err := unpackPortion(row.Portion)
		if err != nil {
			return err
		}
		change.add(p, -1)
	}
	saved := dbsqlc.SaveVisitorPortionsParams{SiteID: w.siteID, Day: w.day.Date, Visitors: stale.visitors}
	for _, v := range stale.visitors {
		p := stale.portions[v].resolve(dictionary)
		packed, err := p.pack()
		if err != nil {
			return err
		}
		saved.Portions, saved.Sessions = append(saved.Portions, packed), append(saved.Sessions, stale.portions[v].packVisits(dictionary, w.day.Start))
		change.add(p, 1)
	}
	if err := w.o.Interrupt(BeforeFoldPortions); err != nil {
		return err
	}
	if err := w.queries.SaveVisitorPortions(ctx, w.tx, saved); err != nil {
		return err
	}
	if err := w.o.Interrupt(BeforeFoldRollups); err != nil {
		return err
	}
	if err := w.change(ctx, change, dictionary); err != nil {
		return err
	}
	if err := w.o.Interrupt(BeforeFoldStale); err != nil {
		return err
	}
	return w.clearStale(ctx, stale)
}

// clearStale marks those as folded who did nothing since they were read. It waits
// for nobody: who is being written just now stays stale.
func (w *dayWriter) clearStale(ctx context.Context, stale staleVisitors) error {
	held, err := w.queries.HoldVisitors(ctx, w.tx, w.siteID, w.day.Date, stale.visitors)
	if err != nil {
		return err
	}
	var folded []int64
	for _, h := range held {
		if stale.editions[h.Visitor] == h.Edition {
			folded = append(folded, h.Visitor)
		}
	}
	return w.queries.ClearStaleVisitors(ctx, w.tx, w.siteID, w.day.Date, folded)
}

// change adds a difference to the day's rollups.
func (w *dayWriter) change(ctx context.Context, difference portion, labels *dictionary) error {
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
	if err := w.save(ctx, &sum, changed); err != nil {
		return err
	}
	return w.orderLabels(ctx, changed, sum.orders, labels)
}

// stored reads the day's rollups.
func (w *dayWriter) stored(ctx context.Context) (portion, error) {
	p := newPortion()
	rows, err := w.queries.ListBlockCounts(ctx, w.tx, dbsqlc.ListBlockCountsParams{SiteID: w.siteID, FirstDay: w.day.Date, LastDay: w.day.Date})
	if err != nil {
		return portion{}, err
	}
	for _, row := range rows {
		d := Dimension(row.Dimension)
		order := p.orders[d]
		if row.Part == orderPart {
			order.texts = row.Counts
			p.orders[d] = order
			continue
		}
		counts, err := unpackCounts(row.Counts)
		if err != nil {
			return portion{}, err
		}
		if row.Part == placesPart {
			order.places = len(counts) - 1
			p.orders[d] = order
			continue
		}
		p.counts[countKey{dimension: d, part: row.Part}] = counts
	}
	hours, err := w.queries.ListRollupHours(ctx, w.tx, w.siteID, w.day.Date, w.day.Date)
	if err != nil {
		return portion{}, err
	}
	for _, h := range hours {
		p.hours[h.StartsAt.UnixMicro()] = Traffic{Pageviews: h.Pageviews, Visitors: h.Visitors}
	}
	days, err := w.queries.ListRollupDays(ctx, w.tx, w.siteID, w.day.Date, w.day.Date)
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
