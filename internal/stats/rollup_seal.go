package stats

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// States of a site day.
const (
	stateOpen   = calendar.StateOpen
	stateSealed = calendar.StateSealed
)

// allRows asks for the whole of a list.
const allRows = math.MaxInt32

// seal counts a day anew from its events and seals it, unless it is sealed and not to be
// made again. A day whose events are not all there any more is left as it is.
func (r *Rollups) seal(ctx context.Context, siteID uuid.UUID, day time.Time, again bool) error {
	sealed := false
	err := r.locked(ctx, siteID, func(ctx context.Context, tx pgx.Tx, s lockedSite) error {
		// Whoever writes into the day has committed once this lock is had, and the
		// queries that follow see it.
		row, err := r.queries.LockSiteDay(ctx, tx, siteID, day)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && (row.Trimmed || row.State == stateSealed && row.Packed && !again) {
			return nil
		}
		if err != nil {
			return err
		}
		d := siteDayOf(s.Site, calendar.Day{Date: row.Day, Start: row.StartsAt, End: row.EndsAt})
		w := dayWriter{Rollups: r, tx: tx, siteID: siteID, day: d}
		if row.State == stateSealed && !again {
			return w.packSealed(ctx)
		}
		for _, step := range []struct {
			before Boundary
			do     func(context.Context) error
		}{
			{BeforeSealClear, w.clear}, {BeforeSealCount, w.count}, {BeforeSealColumns, w.pack}, {BeforeSealState, w.setSealed},
			{BeforeSealBlocks, w.rebuildBlocks}, {BeforeSealCommit, nil},
		} {
			if err := r.o.Interrupt(step.before); err != nil {
				return err
			}
			if step.do == nil {
				continue
			}
			if err := step.do(ctx); err != nil {
				return err
			}
		}
		sealed = true
		return nil
	})
	if err != nil || !sealed {
		return err
	}
	return r.dropOpenLabels(ctx, siteID)
}

// dayWriter writes the rollups of a day whose site is locked.
type dayWriter struct {
	*Rollups
	tx     pgx.Tx
	siteID uuid.UUID
	day    siteDay
}

// clear removes everything that was made of the day before.
func (w *dayWriter) clear(ctx context.Context) error {
	levels, firsts := blocksOver(w.day.Date)
	levels, firsts = append(levels, 0), append(firsts, w.day.Date)
	if err := w.queries.DeleteRollupBlocks(ctx, w.tx, levels, firsts, w.siteID); err != nil {
		return err
	}
	if err := w.queries.DeleteRollupCounts(ctx, w.tx, levels, firsts, w.siteID); err != nil {
		return err
	}
	for _, remove := range []func(context.Context, dbsqlc.DBTX, uuid.UUID, time.Time) error{
		w.queries.DeleteRollupDay, w.queries.DeleteRollupHours, w.queries.DeleteRollupVisitors,
	} {
		if err := remove(ctx, w.tx, w.siteID, w.day.Date); err != nil {
			return err
		}
	}
	return nil
}

// count makes the day's rollups from its events and sessions.
func (w *dayWriter) count(ctx context.Context) error {
	extent, err := w.queries.FindDayExtent(ctx, w.tx, w.siteID, w.day.Start, w.day.End)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	p := newPortion()
	p.first, p.last = extent.FirstAt.UTC(), extent.LastAt.UTC()
	if err := w.countTotals(ctx, &p); err != nil {
		return err
	}
	if err := w.countLabels(ctx, &p); err != nil {
		return err
	}
	return w.save(ctx, &p, p.counts)
}

func (w *dayWriter) events() eventReader {
	return eventReader{queries: w.queries, tx: w.tx, siteID: w.siteID, labelCap: w.o.LabelCap, caps: w.o.EventCaps}
}

func (w *dayWriter) spans() []calendar.Span {
	return []calendar.Span{{Day: w.day.Date, From: w.day.Start, To: w.day.End, Whole: true}}
}

func (w *dayWriter) countTotals(ctx context.Context, p *portion) error {
	spans := w.spans()
	hours := w.day.Day.Hours(w.day.zone)
	for i, from := range hours {
		to := w.day.End
		if i+1 < len(hours) {
			to = hours[i+1]
		}
		spans = append(spans, calendar.Span{Day: w.day.Date, From: from, To: to})
	}
	traffic, err := w.events().Traffic(ctx, spans)
	if err != nil {
		return err
	}
	p.traffic = traffic[0]
	for i, t := range traffic[1:] {
		if t.Visitors > 0 {
			p.hours[hours[i].UnixMicro()] = t
		}
	}
	sessions, err := w.events().Sessions(ctx, w.spans())
	if err != nil {
		return err
	}
	p.sessions = sessions[0]
	return nil
}

// countLabels fills p.counts, with the labels beyond the cap as one.
func (w *dayWriter) countLabels(ctx context.Context, p *portion) error {
	rows, err := w.events().Breakdowns(ctx, w.spans(), rankedDimensions(), allRows)
	if err != nil {
		return err
	}
	events, err := w.events().CustomEvents(ctx, w.spans(), allRows)
	if err != nil {
		return err
	}
	var names []string // those with properties of their own
	for _, e := range events.Rows {
		if e.Name != other {
			names = append(names, e.Name)
		}
	}
	props, err := w.queries.ListDayProps(ctx, w.tx, dbsqlc.ListDayPropsParams{
		SiteID: w.siteID, StartsAt: w.day.Start, EndsAt: w.day.End, Names: names,
		KeyCap: int32(w.o.EventCaps.Keys), ValueCap: int32(w.o.EventCaps.Values),
	})
	if err != nil {
		return err
	}
	d := newDictionary(w.queries, w.tx, w.siteID)
	if err := d.intern(ctx, namedTexts(rows, names, props), nil); err != nil {
		return err
	}
	add := func(key countKey, c labelCount) { p.counts[key] = append(p.counts[key], c) }
	for dimension, of := range rows {
		for _, row := range of.Rows {
			c := labelCount{label: otherID, visitors: row.Visitors, pageviews: row.Pageviews}
			if row.Label != other {
				c.label = d.ids[labelText{label: row.Label}]
			}
			add(countKey{dimension: dimension}, c)
		}
	}
	for _, e := range events.Rows {
		c := labelCount{label: otherID, visitors: e.Visitors, pageviews: e.Count}
		if e.Name != other {
			c.label = d.ids[labelText{label: e.Name}]
		}
		add(countKey{dimension: byEvent}, c)
	}
	for _, prop := range props {
		add(countKey{dimension: byProp, part: d.ids[labelText{label: prop.Name}]},
			labelCount{label: d.ids[labelText{label: prop.Key, value: prop.Value}], pageviews: prop.Count})
	}
	return nil
}

// namedTexts are the labels of a day that keep their text.
func namedTexts(rows map[Dimension]List[Row], names []string, props []dbsqlc.ListDayPropsRow) []labelText {
	var texts []labelText
	for _, of := range rows {
		for _, row := range of.Rows {
			if row.Label != other {
				texts = append(texts, labelText{label: row.Label})
			}
		}
	}
	for _, name := range names {
		texts = append(texts, labelText{label: name})
	}
	for _, prop := range props {
		texts = append(texts, labelText{label: prop.Key, value: prop.Value})
	}
	return texts
}

// save writes the day's totals and hours of p, and counts, which need no order.
func (w *dayWriter) save(ctx context.Context, p *portion, counts map[countKey][]labelCount) error {
	err := w.queries.SaveRollupDay(ctx, w.tx, dbsqlc.SaveRollupDayParams{
		SiteID: w.siteID, Day: w.day.Date, FirstAt: p.first, LastAt: p.last,
		Pageviews: p.traffic.Pageviews, Visitors: p.traffic.Visitors,
		Sessions: p.sessions.Sessions, Bounces: p.sessions.Bounces, DurationUs: p.sessions.Micros,
	})
	if err != nil {
		return err
	}
	hours := dbsqlc.SaveRollupHoursParams{SiteID: w.siteID, Day: w.day.Date}
	for _, start := range w.day.Day.Hours(w.day.zone) {
		t := p.hours[start.UnixMicro()]
		hours.Starts = append(hours.Starts, start)
		hours.Pageviews, hours.Visitors = append(hours.Pageviews, t.Pageviews), append(hours.Visitors, t.Visitors)
	}
	if err := w.queries.SaveRollupHours(ctx, w.tx, hours); err != nil {
		return err
	}
	return saveCounts(ctx, w.queries, w.tx, w.siteID, block{first: w.day.Date}, counts)
}

func saveCounts(ctx context.Context, queries *dbsqlc.Queries, tx pgx.Tx, siteID uuid.UUID, b block, counts map[countKey][]labelCount) error {
	p := dbsqlc.SaveRollupCountsParams{SiteID: siteID, Level: b.level, FirstDay: b.first}
	for key, of := range counts {
		packed, err := packCounts(sortCounts(slices.Clone(of)))
		if err != nil {
			return err
		}
		p.Dimensions, p.Parts = append(p.Dimensions, string(key.dimension)), append(p.Parts, key.part)
		p.Counts = append(p.Counts, packed)
	}
	return queries.SaveRollupCounts(ctx, tx, p)
}

func (w *dayWriter) setSealed(ctx context.Context) error {
	if err := w.queries.ClearStaleDay(ctx, w.tx, w.siteID, w.day.Date); err != nil {
		return err
	}
	now := w.o.Now()
	return w.queries.SetSiteDaySealed(ctx, w.tx, &now, w.siteID, w.day.Date)
}
