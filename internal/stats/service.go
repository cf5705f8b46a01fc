// Package stats counts the traffic of sites without cookies, and answers questions
// about it. docs/statistics.md defines every number.
//
// Ingester stores page views and events: single hits of browsers, and batches of
// servers. It also destroys the salts of old days. Importer stores the lines of access
// logs and NDJSON files. Rollups keeps, in the background, the counts of each day by
// dimension and label. Service answers questions from these rollups, and reads events
// where a rollup is missing, out of date or not enough. Eraser deletes the data of a
// deleted site.
//
// A visitor's hash changes at the site's midnight, so days share no visitors, and a
// range of days is exactly the sum of its days.
package stats

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/text"
)

// defaultLabelCap is the number of labels that the contract promises.
const defaultLabelCap = 10_000

// ServiceOptions configure NewService.
type ServiceOptions struct {
	DB *db.DB // mandatory
	// EventsDB is for queries that read many events; default DB. The number of its
	// connections bounds how many such queries run at once.
	EventsDB *db.DB
	// Timeout is the longest time that one query may take; default 25 s.
	Timeout time.Duration
	// MaxEvents is how many events, by estimate, a query may read without waiting for
	// one of EventsDB's connections; default 2,000.
	MaxEvents int64
	// Now is the clock; default time.Now.
	Now func() time.Time
	// LabelCap is how many labels of a dimension keep their name within a site
	// day; the rest of that day becomes one row (other). Default 10,000.
	LabelCap int
	// MaxStale is how many visitors of an open day, changed since its rollups were
	// folded, are added to the rollups one by one. With more of them the day is read from
	// its events. Default 500.
	MaxStale int
}

func (o ServiceOptions) validate() error {
	if o.DB == nil || o.Timeout < 0 || o.MaxEvents < 0 || o.LabelCap < 0 || o.MaxStale < 0 {
		return errors.New("stats: ServiceOptions need DB, and nothing negative")
	}
	return nil
}

func (o ServiceOptions) withDefaults() ServiceOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.EventsDB == nil {
		o.EventsDB = o.DB
	}
	o.Timeout = cmp.Or(o.Timeout, 25*time.Second)
	o.MaxEvents = cmp.Or(o.MaxEvents, 2000)
	o.LabelCap = cmp.Or(o.LabelCap, defaultLabelCap)
	o.MaxStale = cmp.Or(o.MaxStale, 500)
	return o
}

// Service answers questions about one site's traffic. Each answer is a fold over
// the spans of a plan, and all of its database queries see one snapshot. Its methods
// return faults of kind Invalid for a range that can't be answered (details name
// the query parameter) or takes too long (ErrTooExpensive), and of kind Unavailable
// when there are too many requests or the database is away.
type Service struct {
	o       ServiceOptions
	queries *dbsqlc.Queries
	// fromRollups and fromEvents are the ways to an answer.
	fromRollups, fromEvents desk
}

// NewService makes a Service. It returns an error that says what its options lack.
func NewService(o ServiceOptions) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Service{o: o.withDefaults(), queries: dbsqlc.New()}
	var err error
	if s.fromRollups, err = newDesk(s.o.DB, max(1, s.o.DB.MaxConns()/2), s.o.MaxEvents); err != nil {
		return nil, err
	}
	s.fromEvents, err = newDesk(s.o.EventsDB, s.o.EventsDB.MaxConns(), math.MaxInt64)
	return s, err
}

// Summary returns the window's totals.
func (s *Service) Summary(ctx context.Context, q Query) (Summary, error) {
	var out Summary
	err := s.read(ctx, q, func(ctx context.Context, r Reader, c calendar, w window) error {
		var err error
		if out.Metrics, err = metrics(ctx, r, c.plan(w).spans); err != nil || !q.Compare {
			return err
		}
		before, err := metrics(ctx, r, c.plan(w.previous(c)).spans)
		out.Previous, out.Change = &before, newChange(out.Metrics, before)
		return err
	})
	return out, err
}

func metrics(ctx context.Context, r Reader, spans []DaySpan) (Metrics, error) {
	traffic, err := r.Traffic(ctx, spans)
	if err != nil {
		return Metrics{}, err
	}
	sessions, err := r.Sessions(ctx, spans)
	return newMetrics(traffic, sessions), err
}

// Timeseries returns the window in steps of g; "" chooses by the window's length:
// up to 48 hours by hour, 90 days by day, 730 days by week, else by month. More
// than 10,000 steps are a fault of kind Invalid.
func (s *Service) Timeseries(ctx context.Context, q Query, g Granularity) (Timeseries, error) {
	var out Timeseries
	err := s.read(ctx, q, func(ctx context.Context, r Reader, c calendar, w window) error {
		out.Granularity = g
		if g == "" {
			out.Granularity = w.granularity()
		}
		p, err := c.series(w, out.Granularity)
		if err != nil {
			return err
		}
		if out.Buckets, err = buckets(ctx, r, p); err != nil || !q.Compare {
			return err
		}
		if p, err = c.series(w.previous(c), out.Granularity); err != nil {
			return err
		}
		out.Previous, err = buckets(ctx, r, p)
		return err
	})
	return out, err
}

func buckets(ctx context.Context, r Reader, p plan) ([]Bucket, error) {
	traffic, err := r.Traffic(ctx, p.spans)
	if err != nil {
		return nil, err
	}
	out := make([]Bucket, len(p.buckets))
	for i, b := range p.buckets {
		out[i].Start = b.start
		for _, t := range traffic[b.first:b.end] {
			out[i].Pageviews += t.Pageviews
			out[i].Visitors += t.Visitors
		}
	}
	return out, nil
}

// Breakdowns returns up to q.Limit labels of each dimension, in the order of
// Reader.Breakdowns.
func (s *Service) Breakdowns(ctx context.Context, q Query, dimensions ...Dimension) (map[Dimension][]Row, error) {
	var out map[Dimension][]Row
	err := s.read(ctx, q, func(ctx context.Context, r Reader, c calendar, w window) error {
		var err error
		out, err = r.Breakdowns(ctx, c.plan(w).spans, dimensions, q.Limit)
		return err
	})
	return out, err
}

// CustomEvents returns up to q.Limit names of custom events and, when name is not
// empty, up to q.Limit properties of that event, never nil.
func (s *Service) CustomEvents(ctx context.Context, q Query, name string) (CustomEvents, error) {
	if !text.Storable(name) {
		return CustomEvents{}, fault.Validation(map[string]string{"name": "This can't be the name of an event."})
	}
	var out CustomEvents
	err := s.read(ctx, q, func(ctx context.Context, r Reader, c calendar, w window) error {
		var err error
		spans := c.plan(w).spans
		if out.Events, err = r.CustomEvents(ctx, spans, q.Limit); err != nil || name == "" {
			return err
		}
		out.Props, err = r.Props(ctx, spans, name, q.Limit)
		if out.Props == nil {
			out.Props = []PropCount{}
		}
		return err
	})
	return out, err
}

// Realtime returns the distinct visitors of the last RealtimeWindow. A visitor on
// both sides of the site's midnight has two hashes and counts twice. The range of
// q has no effect, but must be a valid one.
func (s *Service) Realtime(ctx context.Context, q Query) (int64, error) {
	now := s.o.Now()
	p, err := parsePeriod(q.From, q.To, now)
	if err == nil {
		_, err = calendar{zone: q.Zone, zones: q.Zones}.window(p)
	}
	if err != nil {
		return 0, err
	}
	var visitors int64
	err = s.snapshot(ctx, q, lastUntil(now, RealtimeWindow), func(ctx context.Context, r Reader, c calendar, w window) error {
		traffic, err := r.Traffic(ctx, c.plan(w).spans)
		for _, t := range traffic {
			visitors += t.Visitors
		}
		return err
	})
	return visitors, err
}

// fold makes an answer of what a Reader has for a window.
type fold func(ctx context.Context, r Reader, c calendar, w window) error

func (s *Service) read(ctx context.Context, q Query, f fold) error {
	p, err := parsePeriod(q.From, q.To, s.o.Now())
	if err != nil {
		return err
	}
	return s.snapshot(ctx, q, p, f)
}

// snapshot makes an answer of q's filters, or without any of rollups and as few
// events as that takes.
func (s *Service) snapshot(ctx context.Context, q Query, p period, f fold) error {
	if err := q.Filters.check(); err != nil {
		return err
	}
	if len(q.Filters) == 0 {
		err := s.answer(ctx, s.fromRollups, q, p, f)
		if !errors.Is(err, errManyEvents) {
			return err
		}
	}
	return s.answer(ctx, s.fromEvents, q, p, f)
}

// answer makes an answer at a desk. It returns errManyEvents, ErrTooExpensive or
// fairqueue.ErrBusy.
func (s *Service) answer(ctx context.Context, at desk, q Query, p period, f fold) error {
	return at.serve(ctx, q.SiteID, s.o.Timeout, func(ctx context.Context, tx pgx.Tx) error {
		c, days, err := s.loadCalendar(ctx, tx, q, p)
		if err != nil {
			return err
		}
		w, err := c.window(p)
		if err != nil {
			return err
		}
		if len(q.Filters) > 0 {
			return f(ctx, filteredReader{tx: tx, siteID: q.SiteID, labelCap: s.o.LabelCap, filters: q.Filters}, c, w)
		}
		events := eventReader{queries: s.queries, tx: tx, siteID: q.SiteID, labelCap: s.o.LabelCap}
		return f(ctx, &rollupReader{
			eventReader: events, days: days, maxStale: s.o.MaxStale, maxEvents: at.maxEvents, labels: newDictionary(s.queries, tx, q.SiteID),
		}, c, w)
	})
}

// loadCalendar reads the site days that p touches, with those of a compared
// period and of the month or week in which the window begins.
func (s *Service) loadCalendar(ctx context.Context, tx pgx.Tx, q Query, p period) (calendar, map[time.Time]*rollupDay, error) {
	const margin = 2 // days between the dates of UTC and of any zone, rounded up
	first, last := dateOf(p.from.nominal()).AddDate(0, 0, -margin), dateOf(p.to.nominal()).AddDate(0, 0, margin)
	if q.Compare {
		first = first.Add(first.Sub(last))
	}
	rows, err := s.queries.ListRollupDays(ctx, tx, q.SiteID, first.AddDate(0, 0, -31), last)
	if err != nil {
		return calendar{}, nil, err
	}
	c := calendar{zone: q.Zone, zones: q.Zones, stored: make([]calendarDay, len(rows))}
	days := make(map[time.Time]*rollupDay, len(rows))
	for i, row := range rows {
		d := newRollupDay(row, c)
		c.stored[i], days[d.day] = d.calendarDay, d
	}
	return c, days, nil
}
