package stats

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waypost/waypost/internal/stats/calendar"
)

// Breakdowns is that of Reader, at once.
func (r *rollupReader) Breakdowns(ctx context.Context, spans []calendar.Span, dimensions []Dimension, limit int) (map[Dimension]List[Row], error) {
	whole, rest, err := r.split(ctx, spans)
	if err != nil {
		return nil, err
	}
	events := pick(spans, rest)
	reader, err := r.events(events)
	if err != nil {
		return nil, err
	}
	if len(whole) == 0 {
		return reader.Breakdowns(ctx, events, dimensions, limit)
	}
	sums, crowded, err := r.tallies(ctx, pick(spans, whole), dimensions, 0, limit)
	if err != nil {
		return nil, err
	}
	raw, err := reader.Breakdowns(ctx, events, dimensions, allRows)
	if err != nil {
		return nil, err
	}
	for d, of := range crowded {
		if reader, err = r.events(of); err != nil {
			return nil, err
		}
		more, err := reader.Breakdowns(ctx, of, []Dimension{d}, allRows)
		if err != nil {
			return nil, err
		}
		raw[d] = List[Row]{Rows: append(raw[d].Rows, more[d].Rows...)}
	}
	out := make(map[Dimension]List[Row], len(dimensions))
	for _, d := range dimensions {
		ranked, err := r.rank(ctx, d, sums[d], rowTexts(raw[d].Rows), limit)
		if err != nil {
			return nil, err
		}
		rows := make([]Row, len(ranked.Rows))
		for i, c := range ranked.Rows {
			rows[i] = Row{Label: r.labels.texts[c.label].label, Visitors: c.visitors, Pageviews: c.pageviews}
			if c.label == otherID {
				rows[i].Label = other
			}
		}
		out[d] = List[Row]{rows, ranked.Total}
	}
	return out, nil
}

// CustomEvents is that of Reader, at once.
func (r *rollupReader) CustomEvents(ctx context.Context, spans []calendar.Span, limit int) (List[EventCount], error) {
	whole, rest, err := r.split(ctx, spans)
	if err != nil {
		return List[EventCount]{}, err
	}
	reader, err := r.events(pick(spans, rest))
	if err != nil {
		return List[EventCount]{}, err
	}
	if len(whole) == 0 {
		return reader.CustomEvents(ctx, pick(spans, rest), limit)
	}
	sums, crowded, err := r.tallies(ctx, pick(spans, whole), []Dimension{byEvent}, 0, limit)
	if err != nil {
		return List[EventCount]{}, err
	}
	if reader, err = r.events(crowded[byEvent]); err != nil {
		return List[EventCount]{}, err
	}
	events, err := reader.CustomEvents(ctx, append(pick(spans, rest), crowded[byEvent]...), allRows)
	if err != nil {
		return List[EventCount]{}, err
	}
	raw := make([]textCount, len(events.Rows))
	for i, e := range events.Rows {
		raw[i] = textCount{labelText: labelText{label: e.Name}, visitors: e.Visitors, pageviews: e.Count}
	}
	ranked, err := r.rank(ctx, byEvent, sums[byEvent], raw, limit)
	out := List[EventCount]{make([]EventCount, len(ranked.Rows)), ranked.Total}
	for i, c := range ranked.Rows {
		out.Rows[i] = EventCount{Name: r.labels.texts[c.label].label, Count: c.pageviews, Visitors: c.visitors}
		if c.label == otherID {
			out.Rows[i].Name = other
		}
	}
	return out, err
}

// Props is that of Reader, at once.
func (r *rollupReader) Props(ctx context.Context, spans []calendar.Span, name string, limit int) (List[PropCount], error) {
	whole, rest, err := r.split(ctx, spans)
	if err != nil {
		return List[PropCount]{}, err
	}
	reader, err := r.events(pick(spans, rest))
	if err != nil {
		return List[PropCount]{}, err
	}
	if len(whole) == 0 {
		return reader.Props(ctx, pick(spans, rest), name, limit)
	}
	event := labelText{label: name}
	if err := r.labels.find(ctx, []labelText{event}); err != nil {
		return List[PropCount]{}, err
	}
	sums, _, err := r.tallies(ctx, pick(spans, whole), []Dimension{byProp}, r.labels.ids[event], limit)
	if err != nil {
		return List[PropCount]{}, err
	}
	props, err := reader.Props(ctx, pick(spans, rest), name, allRows)
	if err != nil {
		return List[PropCount]{}, err
	}
	raw := make([]textCount, len(props.Rows))
	for i, p := range props.Rows {
		raw[i] = textCount{labelText: labelText{label: p.Key, value: p.Value}, pageviews: p.Count}
	}
	ranked, err := r.rank(ctx, byProp, sums[byProp], raw, limit)
	out := List[PropCount]{make([]PropCount, len(ranked.Rows)), ranked.Total}
	for i, c := range ranked.Rows {
		t := r.labels.texts[c.label]
		out.Rows[i] = PropCount{Key: t.label, Value: t.value, Count: c.pageviews}
	}
	return out, err
}

// tallies adds up the counts of whole days for each dimension, for a list of limit rows.
// Open days with more labels than the cap, where (other) would be among the rows, are
// returned apart, to be read from events: who has a label beyond the cap changes with
// every event.
func (r *rollupReader) tallies(ctx context.Context, spans []calendar.Span, dimensions []Dimension, part int64, limit int) (map[Dimension]*tally, map[Dimension][]calendar.Span, error) {
	sums, ofOpen := make(map[Dimension]*tally, len(dimensions)), make(map[openList][]byte)
	for _, d := range dimensions {
		sums[d] = &tally{}
	}
	if err := r.readCounts(ctx, spans, part, sums, ofOpen); err != nil {
		return nil, nil, err
	}
	crowded := make(map[Dimension][]calendar.Span)
	var stored []labelCount // of one list after another
	for _, s := range spans {
		day := r.days[s.Day]
		if day.open == nil {
			continue
		}
		if err := r.resolve(ctx, day.open); err != nil {
			return nil, nil, err
		}
		for _, d := range dimensions {
			var err error
			if stored, err = unpackInto(stored, ofOpen[openList{day: s.Day, dimension: d}]); err != nil {
				return nil, nil, err
			}
			counts := addCounts(stored, day.open.counts[countKey{dimension: d, part: part}])
			if d == byProp && len(counts) > min(r.caps.Keys, r.caps.Values) {
				if counts, err = r.labels.capProps(ctx, counts, r.caps); err != nil {
					return nil, nil, err
				}
			}
			if labelCap := r.capOf(d); hasCap(d) && beyondCap(counts, labelCap) {
				if limit > labelCap {
					crowded[d] = append(crowded[d], s)
					continue
				}
				if counts, err = r.keepFirst(ctx, s.Day, d, counts); err != nil {
					return nil, nil, err
				}
				sums[d].addList(counts)
				continue
			}
			for _, c := range counts {
				sums[d].add(c)
			}
		}
	}
	return sums, crowded, nil
}

// openList names the counts of an open day.
type openList struct {
	day       time.Time
	dimension Dimension
}

// readCounts adds the counts of spans' sealed days to sums and keeps those of
// open days apart.
func (r *rollupReader) readCounts(ctx context.Context, spans []calendar.Span, part int64, sums map[Dimension]*tally, ofOpen map[openList][]byte) error {
	blocks, err := r.blocks(ctx, spans)
	if err != nil {
		return err
	}
	var dimensions []string
	for d := range sums {
		dimensions = append(dimensions, string(d))
	}
	levels, firsts := make([]int16, len(blocks)), make([]time.Time, len(blocks))
	for i, b := range blocks {
		levels[i], firsts[i] = b.level, b.first
	}
	// By hand, since sqlc would copy every list out of the driver's buffer.
	const listCounts = `
select c.dimension, c.level, c.first_day, c.counts
from (select unnest($2::text[]) as dimension) d
cross join (select unnest($3::smallint[]) as level, unnest($4::date[]) as first_day) b
join rollup_counts c on c.site_id = $1 and c.dimension = d.dimension and c.part = $5
    and c.level = b.level and c.first_day = b.first_day`
	rows, err := r.tx.Query(ctx, listCounts, r.siteID, dimensions, levels, firsts, part)
	if err != nil {
		return err
	}
	var dimension Dimension
	var level int16
	var first time.Time
	var packed pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&dimension, &level, &first, &packed}, func() error {
		if day := first.UTC(); level == 0 && r.days[day].open != nil {
			ofOpen[openList{day: day, dimension: dimension}] = bytes.Clone(packed)
			return nil
		}
		return sums[dimension].addPacked(packed)
	})
	return err
}

// capOf is how many labels of d keep their name on a day.
func (r eventReader) capOf(d Dimension) int {
	if d == byEvent {
		return r.caps.Names
	}
	return r.labelCap
}

func beyondCap(counts []labelCount, labelCap int) bool {
	n := len(counts)
	return n > labelCap+1 || n == labelCap+1 && !slices.ContainsFunc(counts, func(c labelCount) bool { return c.label == otherID })
}

// resolve gives the labels of an open day's stale visitors their ids.
func (r *rollupReader) resolve(ctx context.Context, o *openDay) error {
	if o.counts != nil {
		return nil
	}
	var texts []labelText
	for _, raw := range o.raw {
		texts = raw.texts(texts)
	}
	if err := r.labels.find(ctx, texts); err != nil {
		return err
	}
	change := newPortion()
	for _, p := range o.former {
		change.add(portion{counts: p.counts}, -1)
	}
	for _, raw := range o.raw {
		change.add(portion{counts: raw.resolve(r.labels).counts}, 1)
	}
	o.counts = change.counts
	for key, counts := range o.counts {
		o.counts[key] = sortCounts(counts)
	}
	return nil
}

// blocks covers the days of spans: sealed ones with blocks as large as there are,
// open ones with themselves.
func (r *rollupReader) blocks(ctx context.Context, spans []calendar.Span) ([]block, error) {
	first, last := spans[0].Day, spans[len(spans)-1].Day
	wanted := make(map[time.Time]bool, len(spans))
	for _, s := range spans {
		wanted[s.Day] = true
	}
	// A block that holds any other stored day would count too much.
	var unwanted []time.Time
	for day, d := range r.days {
		if !wanted[day] || d.state != stateSealed {
			unwanted = append(unwanted, day)
		}
	}
	slices.SortFunc(unwanted, time.Time.Compare)
	rows, err := r.queries.ListRollupBlocks(ctx, r.tx, r.siteID, first, last)
	if err != nil {
		return nil, err
	}
	there := make(map[block]bool, len(rows))
	for _, row := range rows {
		b := block{level: row.Level, first: row.FirstDay.UTC()}
		i, holds := slices.BinarySearchFunc(unwanted, b.first, time.Time.Compare)
		there[b] = !holds && !b.last().After(last) && (i == len(unwanted) || unwanted[i].After(b.last()))
	}
	var out []block
	for day := first; !day.After(last); {
		b := block{first: day}
		for level := int16(maxLevel); level > 0; level-- {
			if there[block{level: level, first: day}] {
				b.level = level
				break
			}
		}
		if b.level > 0 || wanted[day] {
			out = append(out, b)
		}
		day = day.AddDate(0, 0, b.days())
	}
	return out, nil
}

// textCount is a count of a label that has no id yet.
type textCount struct {
	labelText
	visitors, pageviews int64
}

func rowTexts(rows []Row) []textCount {
	out := make([]textCount, len(rows))
	for i, row := range rows {
		out[i] = textCount{labelText: labelText{label: row.Label}, visitors: row.Visitors, pageviews: row.Pageviews}
	}
	return out
}

// rank adds raw to sum and returns the first limit labels of dimension d, whose
// texts it makes known.
func (r *rollupReader) rank(ctx context.Context, d Dimension, sum *tally, raw []textCount, limit int) (List[labelCount], error) {
	texts := make([]labelText, len(raw))
	for i, t := range raw {
		texts[i] = t.labelText
	}
	if err := r.labels.find(ctx, texts); err != nil {
		return List[labelCount]{}, err
	}
	for _, t := range raw {
		c := labelCount{label: r.labels.ids[t.labelText], visitors: t.visitors, pageviews: t.pageviews}
		if hasCap(d) && t.label == other {
			c.label = otherID
		}
		sum.add(c)
	}
	rank := newRanking(d, limit)
	sum.each(rank.add)
	found := rank.candidates()
	ids := make([]int64, len(found))
	for i, c := range found {
		ids[i] = c.label
	}
	if err := r.labels.name(ctx, ids); err != nil {
		return List[labelCount]{}, err
	}
	return List[labelCount]{rank.cut(r.labels.texts), rank.total}, nil
}
