package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/text"
)

// Facts are what there is to know of a site itself.
type Facts struct {
	FirstEvent time.Time // zero without any
	Now        time.Time
}

// Questions asks several questions at once.
type Questions struct {
	Query
	Summary, Timeseries, Events, Realtime bool
	Granularity                           calendar.Granularity // of the timeseries; "" chooses
	EventName                             string               // as CustomEvents has it
	Dimensions                            []Dimension
}

// Answers has an answer to each question; the others are zero.
type Answers struct {
	Summary    Summary
	Timeseries Timeseries
	Breakdowns map[Dimension]List[Row]
	Events     CustomEvents
	Realtime   int64
}

// Report answers several questions from one snapshot, as their own methods would.
func (s *Service) Report(ctx context.Context, q Questions) (Answers, error) {
	var out Answers
	if err := checkEventName(q.EventName); err != nil {
		return out, err
	}
	p, err := q.period(s.o.Now())
	if err != nil {
		return out, err
	}
	var folds []fold
	if q.Summary {
		folds = append(folds, q.summary(&out.Summary))
	}
	if q.Timeseries {
		folds = append(folds, q.timeseries(q.Granularity, &out.Timeseries))
	}
	if len(q.Dimensions) > 0 {
		folds = append(folds, q.breakdowns(q.Dimensions, &out.Breakdowns))
	}
	if q.Events {
		folds = append(folds, q.customEvents(q.EventName, &out.Events))
	}
	// Also without any: a range that can't be answered is refused all the same.
	questions := []question{{p, func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		for _, f := range folds {
			if err := f(ctx, r, c, w); err != nil {
				return err
			}
		}
		return nil
	}}}
	if q.Realtime {
		questions = append(questions, s.realtime(&out.Realtime))
	}
	err = s.snapshot(ctx, q.Query, questions...)
	return out, err
}

func (q Query) summary(out *Summary) fold {
	return func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		var err error
		if out.Metrics, err = metrics(ctx, r, c.Plan(w).Spans); err != nil || !q.Compare {
			return err
		}
		before, err := metrics(ctx, r, c.Plan(w.Previous(c)).Spans)
		out.Previous, out.Change = &before, newChange(out.Metrics, before)
		return err
	}
}

func metrics(ctx context.Context, r Reader, spans []calendar.Span) (Metrics, error) {
	if filtered, ok := r.(*columnReader); ok {
		traffic, sessions, err := filtered.Totals(ctx, spans)
		return newMetrics(traffic, sessions), err
	}
	traffic, err := r.Traffic(ctx, spans)
	if err != nil {
		return Metrics{}, err
	}
	sessions, err := r.Sessions(ctx, spans)
	return newMetrics(traffic, sessions), err
}

func (q Query) timeseries(g calendar.Granularity, out *Timeseries) fold {
	return func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		out.Granularity = cmp.Or(g, w.Granularity())
		p, err := c.Series(w, out.Granularity)
		if err != nil {
			return err
		}
		if out.Buckets, err = q.buckets(ctx, r, c, p); err != nil || !q.Compare {
			return err
		}
		if p, err = c.Series(w.Previous(c), out.Granularity); err != nil {
			return err
		}
		out.Previous, err = q.buckets(ctx, r, c, p)
		return err
	}
}

func (q Query) buckets(ctx context.Context, r Reader, c calendar.Calendar, p calendar.Plan) ([]Bucket, error) {
	traffic, err := r.Traffic(ctx, p.Spans)
	if err != nil {
		return nil, err
	}
	var sessions []SessionTotals
	if q.Visits {
		if sessions, err = r.Sessions(ctx, p.Spans); err != nil {
			return nil, err
		}
	}
	out := make([]Bucket, len(p.Buckets))
	for i, b := range p.Buckets {
		out[i].Start = b.Start.In(c.ZoneOf(b.Start))
		for _, t := range traffic[b.First:b.End] {
			out[i].Pageviews += t.Pageviews
			out[i].Visitors += t.Visitors
		}
		if q.Visits {
			var sum SessionTotals
			for _, t := range sessions[b.First:b.End] {
				sum = sum.plus(t, 1)
			}
			v := newVisits(sum, out[i].Pageviews)
			out[i].Visits = &v
		}
	}
	return out, nil
}

func (q Query) breakdowns(dimensions []Dimension, out *map[Dimension]List[Row]) fold {
	return func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		spans := c.Plan(w).Spans
		lists, err := r.Breakdowns(ctx, spans, dimensions, q.Offset+q.Limit)
		if err != nil {
			return err
		}
		if q.Empty {
			if err := addUnlabelled(ctx, r, spans, dimensions, lists); err != nil {
				return err
			}
		}
		for d, l := range lists {
			lists[d] = q.cut(l)
		}
		if q.Visits {
			if err := addVisits(ctx, r, spans, lists); err != nil {
				return err
			}
		}
		if q.Empty {
			nameUnlabelled(lists)
		}
		*out = lists
		return nil
	}
}

// cut leaves of l's first rows those that q asks for.
func (q Query) cut(l List[Row]) List[Row] { return cutList(q, l) }

func cutList[T any](q Query, l List[T]) List[T] {
	l.Rows = l.Rows[min(q.Offset, len(l.Rows)):min(q.Offset+q.Limit, len(l.Rows))]
	return l
}

// addUnlabelled puts the row without a label where it belongs; its label is "".
func addUnlabelled(ctx context.Context, r Reader, spans []calendar.Span, dimensions []Dimension, lists map[Dimension]List[Row]) error {
	found, err := r.Unlabelled(ctx, spans, dimensions)
	if err != nil {
		return err
	}
	for d, row := range found {
		if row.Visitors == 0 {
			continue
		}
		l := lists[d]
		at := slices.IndexFunc(l.Rows, func(next Row) bool {
			return next.Label == other || cmp.Or(
				cmp.Compare(row.Visitors, next.Visitors), cmp.Compare(row.Pageviews, next.Pageviews), cmp.Compare(next.Label, Unlabelled),
			) > 0
		})
		switch {
		case at >= 0:
			l.Rows = slices.Insert(l.Rows, at, row)
		case int64(len(l.Rows)) == l.Total:
			l.Rows = append(l.Rows, row)
		}
		l.Total++
		lists[d] = l
	}
	return nil
}

// addVisits adds what is known of whole sessions to the rows of their dimensions.
func addVisits(ctx context.Context, r Reader, spans []calendar.Span, lists map[Dimension]List[Row]) error {
	for d, l := range lists {
		if d == ByPage || len(l.Rows) == 0 {
			continue
		}
		labels := make([]string, len(l.Rows))
		for i, row := range l.Rows {
			labels[i] = row.Label
		}
		found, err := r.Visits(ctx, spans, d, labels)
		if err != nil {
			return err
		}
		for i, row := range l.Rows {
			of := found[row.Label]
			v := newVisits(of.SessionTotals, of.Pageviews)
			l.Rows[i].Visits = &v
		}
	}
	return nil
}

// nameUnlabelled names the rows without a label. A label that itself reads so is written
// as a filter takes it literally.
func nameUnlabelled(lists map[Dimension]List[Row]) {
	for _, l := range lists {
		for i, row := range l.Rows {
			switch row.Label {
			case "":
				l.Rows[i].Label = Unlabelled
			case Unlabelled:
				l.Rows[i].Label = `\` + Unlabelled
			}
		}
	}
}

func checkEventName(name string) error {
	if text.Storable(name) {
		return nil
	}
	return fault.Validation(map[string]string{"name": "This can't be the name of an event."})
}

func (q Query) customEvents(name string, out *CustomEvents) fold {
	return func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		spans := c.Plan(w).Spans
		if filtered, ok := r.(*columnReader); ok && name != "" {
			events, props, err := filtered.EventsAndProps(ctx, spans, name, q.Offset+q.Limit)
			out.Events, out.Props = cutList(q, events).Rows, append([]PropCount{}, cutList(q, props).Rows...)
			out.Total = max(events.Total, props.Total)
			return err
		}
		events, err := r.CustomEvents(ctx, spans, q.Offset+q.Limit)
		if err != nil {
			return err
		}
		out.Events, out.Total = cutList(q, events).Rows, events.Total
		if name == "" {
			return nil
		}
		props, err := r.Props(ctx, spans, name, q.Offset+q.Limit)
		if err != nil {
			return err
		}
		out.Props, out.Total = append([]PropCount{}, cutList(q, props).Rows...), max(out.Total, props.Total)
		return nil
	}
}

// realtime asks for the visitors of the last RealtimeWindow.
func (s *Service) realtime(visitors *int64) question {
	return question{calendar.LastUntil(s.o.Now(), RealtimeWindow), func(ctx context.Context, r Reader, c calendar.Calendar, w calendar.Window) error {
		traffic, err := r.Traffic(ctx, c.Plan(w).Spans)
		*visitors = 0
		for _, t := range traffic {
			*visitors += t.Visitors
		}
		return err
	}}
}
