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
	// Also without any: a range that can't be answered is refused all the same.
	questions := []question{{p, q.folds(&out)}}
	if q.Realtime {
		questions = append(questions, s.realtime(&out.Realtime))
	}
	err = s.snapshot(ctx, q.Query, questions...)
	return out, err
}

// folds are those of the questions about q's own range.
func (q Questions) folds(out *Answers) []fold {
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
	return folds
}

func (q Query) summary(out *Summary) fold {
	return func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		now := metrics(r, c.Plan(w).Spans)
		if !q.Compare {
			return func(ctx context.Context) error {
				var err error
				out.Metrics, err = now(ctx)
				return err
			}, nil
		}
		before := metrics(r, c.Plan(w.Previous(c)).Spans)
		return func(ctx context.Context) error {
			var err error
			if out.Metrics, err = now(ctx); err != nil {
				return err
			}
			previous, err := before(ctx)
			out.Previous, out.Change = &previous, newChange(out.Metrics, previous)
			return err
		}, nil
	}
}

func metrics(r Reader, spans []calendar.Span) Promise[Metrics] {
	traffic, sessions := r.Traffic(spans), r.Sessions(spans)
	return func(ctx context.Context) (Metrics, error) {
		t, err := traffic(ctx)
		if err != nil {
			return Metrics{}, err
		}
		s, err := sessions(ctx)
		return newMetrics(t, s), err
	}
}

func (q Query) timeseries(g calendar.Granularity, out *Timeseries) fold {
	return func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		out.Granularity = cmp.Or(g, w.Granularity())
		now, err := q.buckets(r, c, w, out.Granularity)
		if err != nil {
			return nil, err
		}
		before := Promise[[]Bucket](func(context.Context) ([]Bucket, error) { return nil, nil })
		if q.Compare {
			if before, err = q.buckets(r, c, w.Previous(c), out.Granularity); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context) error {
			var err error
			if out.Buckets, err = now(ctx); err != nil {
				return err
			}
			out.Previous, err = before(ctx)
			return err
		}, nil
	}
}

func (q Query) buckets(r Reader, c calendar.Calendar, w calendar.Window, g calendar.Granularity) (Promise[[]Bucket], error) {
	p, err := c.Series(w, g)
	if err != nil {
		return nil, err
	}
	traffic := r.Traffic(p.Spans)
	if !q.Visits {
		return func(ctx context.Context) ([]Bucket, error) {
			t, err := traffic(ctx)
			if err != nil {
				return nil, err
			}
			return newBuckets(c, p, t), nil
		}, nil
	}
	sessions := r.Sessions(p.Spans)
	return func(ctx context.Context) ([]Bucket, error) {
		t, err := traffic(ctx)
		if err != nil {
			return nil, err
		}
		s, err := sessions(ctx)
		if err != nil {
			return nil, err
		}
		out := newBuckets(c, p, t)
		for i, b := range p.Buckets {
			var sum SessionTotals
			for _, of := range s[b.First:b.End] {
				sum = sum.plus(of, 1)
			}
			v := newVisits(sum, out[i].Pageviews)
			out[i].Visits = &v
		}
		return out, nil
	}, nil
}

func newBuckets(c calendar.Calendar, p calendar.Plan, traffic []Traffic) []Bucket {
	out := make([]Bucket, len(p.Buckets))
	for i, b := range p.Buckets {
		out[i].Start = b.Start.In(c.ZoneOf(b.Start))
		for _, t := range traffic[b.First:b.End] {
			out[i].Pageviews += t.Pageviews
			out[i].Visitors += t.Visitors
		}
	}
	return out
}

func (q Query) breakdowns(dimensions []Dimension, out *map[Dimension]List[Row]) fold {
	return func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		spans := c.Plan(w).Spans
		ranked := r.Breakdowns(spans, dimensions, q.Offset+q.Limit)
		visits := Promise[map[Dimension]VisitsByLabel](func(context.Context) (map[Dimension]VisitsByLabel, error) { return nil, nil })
		ofSessions := slices.DeleteFunc(slices.Clone(dimensions), func(d Dimension) bool { return dimensionOf(d).of != ofSessions })
		if (q.Visits || q.Empty) && len(ofSessions) > 0 {
			visits = r.Visits(spans, ofSessions)
		}
		return func(ctx context.Context) error {
			lists, err := ranked(ctx)
			if err != nil {
				return err
			}
			by, err := visits(ctx)
			if err != nil {
				return err
			}
			if q.Empty {
				addUnlabelled(by, lists)
			}
			for d, l := range lists {
				lists[d] = q.cut(l)
			}
			if q.Visits {
				if err := addVisits(ctx, by, lists); err != nil {
					return err
				}
			}
			if q.Empty {
				nameUnlabelled(lists)
			}
			*out = lists
			return nil
		}, nil
	}
}

// cut leaves of l's first rows those that q asks for.
func (q Query) cut(l List[Row]) List[Row] { return cutList(q, l) }

func cutList[T any](q Query, l List[T]) List[T] {
	l.Rows = l.Rows[min(q.Offset, len(l.Rows)):min(q.Offset+q.Limit, len(l.Rows))]
	return l
}

// addUnlabelled puts the row without a label where it belongs; its label is "".
func addUnlabelled(visits map[Dimension]VisitsByLabel, lists map[Dimension]List[Row]) {
	for d, of := range visits {
		row := of.Unlabelled()
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
}

// addVisits adds what is known of whole sessions to the rows of their dimensions.
func addVisits(ctx context.Context, visits map[Dimension]VisitsByLabel, lists map[Dimension]List[Row]) error {
	for d, by := range visits {
		rows := lists[d].Rows
		if len(rows) == 0 {
			continue
		}
		labels := make([]string, len(rows))
		for i, row := range rows {
			labels[i] = row.Label
		}
		found, err := by.Of(ctx, labels)
		if err != nil {
			return err
		}
		for i, row := range rows {
			of := found[row.Label]
			v := newVisits(of.SessionTotals, of.Pageviews)
			rows[i].Visits = &v
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
	return func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		spans := c.Plan(w).Spans
		counted := r.CustomEvents(spans, q.Offset+q.Limit)
		events := func(ctx context.Context) error {
			list, err := counted(ctx)
			out.Events, out.Total = cutList(q, list).Rows, list.Total
			return err
		}
		if name == "" {
			return events, nil
		}
		props := r.Props(spans, name, q.Offset+q.Limit)
		return func(ctx context.Context) error {
			if err := events(ctx); err != nil {
				return err
			}
			list, err := props(ctx)
			out.Props, out.Total = append([]PropCount{}, cutList(q, list).Rows...), max(out.Total, list.Total)
			return err
		}, nil
	}
}

// realtime asks for the visitors of the last RealtimeWindow.
func (s *Service) realtime(visitors *int64) question {
	return question{calendar.LastUntil(s.o.Now(), RealtimeWindow), []fold{func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error) {
		counted := r.Traffic(c.Plan(w).Spans)
		return func(ctx context.Context) error {
			traffic, err := counted(ctx)
			*visitors = 0
			for _, t := range traffic {
				*visitors += t.Visitors
			}
			return err
		}, nil
	}}}
}
