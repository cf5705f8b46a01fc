// Package stats counts the traffic of sites without cookies, and answers questions
// about it. docs/statistics.md defines every number.
//
// Ingester stores page views and events: single hits of browsers, and batches of
// servers. It also destroys the salts of old days. Rollups keeps, in the background, the
// counts of each day by dimension and label. Service answers questions from these
// rollups, and reads events where a rollup is missing, out of date or not enough; of
// filtered ones, packed columns. Retention ends raw data. Eraser deletes the data of a
// deleted site. What they are made of has packages of its own: calendar, hit, visitor,
// session, drop, eventid, columns; imports stores files.
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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/session"
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
	// EventCaps are those of custom events.
	EventCaps EventCaps
	// MaxStale is how many visitors of an open day, changed since its rollups were
	// folded, are added to the rollups one by one. With more of them the day is read from
	// its events. Default 500.
	MaxStale int
	// Window is about how many bytes of packed days an answer with filters reads at once,
	// and of how many pageviews it first reads what is filtered by; default 256 Ki.
	Window int64
}

func (o ServiceOptions) validate() error {
	if o.DB == nil || o.Timeout < 0 || o.MaxEvents < 0 || o.LabelCap < 0 || o.MaxStale < 0 || o.Window < 0 {
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
	o.EventCaps = o.EventCaps.withDefaults()
	o.MaxStale = cmp.Or(o.MaxStale, 500)
	o.Window = cmp.Or(o.Window, 1<<18)
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
	err := s.read(ctx, q, q.summary(&out))
	return out, err
}

// Timeseries returns the window in steps of g; "" chooses by the window's length:
// up to 48 hours by hour, 90 days by day, 730 days by week, else by month. More
// than 10,000 steps are a fault of kind Invalid.
func (s *Service) Timeseries(ctx context.Context, q Query, g calendar.Granularity) (Timeseries, error) {
	var out Timeseries
	err := s.read(ctx, q, q.timeseries(g, &out))
	return out, err
}

// Breakdowns returns up to q.Limit labels of each dimension after the first q.Offset, in
// the order of Reader.Breakdowns.
func (s *Service) Breakdowns(ctx context.Context, q Query, dimensions ...Dimension) (map[Dimension]List[Row], error) {
	var out map[Dimension]List[Row]
	err := s.read(ctx, q, q.breakdowns(dimensions, &out))
	return out, err
}

// CustomEvents returns up to q.Limit names of custom events and, when name is not
// empty, up to q.Limit properties of that event, never nil; of both, those after the
// first q.Offset.
func (s *Service) CustomEvents(ctx context.Context, q Query, name string) (CustomEvents, error) {
	var out CustomEvents
	if err := checkEventName(name); err != nil {
		return out, err
	}
	err := s.read(ctx, q, q.customEvents(name, &out))
	return out, err
}

// Realtime returns the distinct visitors of the last RealtimeWindow. A visitor on
// both sides of the site's midnight has two hashes and counts twice. The range of
// q has no effect, but must be a valid one.
func (s *Service) Realtime(ctx context.Context, q Query) (int64, error) {
	var visitors int64
	if err := s.checkRange(q); err != nil {
		return 0, err
	}
	err := s.snapshot(ctx, q, s.realtime(&visitors))
	return visitors, err
}

// Facts returns what there is to know of the site itself; q has no effect, but must be
// valid.
func (s *Service) Facts(ctx context.Context, q Query) (Facts, error) {
	if err := s.checkRange(q); err != nil {
		return Facts{}, err
	}
	if err := q.Filters.check(); err != nil {
		return Facts{}, err
	}
	out := Facts{Now: s.o.Now().Truncate(calendar.Resolution)}
	err := s.fromRollups.serve(ctx, q.SiteID, s.o.Timeout, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		out.FirstEvent, err = s.firstEvent(ctx, tx, q.SiteID)
		return err
	})
	return out, err
}

// checkRange refuses a range that can't be answered, for answers on which it has no
// effect.
func (s *Service) checkRange(q Query) error {
	p, err := q.period(s.o.Now())
	if err != nil {
		return err
	}
	_, err = calendar.New(q.Zones).Window(p)
	return err
}

// firstEvent is when the site's first event was, or zero.
func (s *Service) firstEvent(ctx context.Context, tx pgx.Tx, siteID uuid.UUID) (time.Time, error) {
	first, err := s.queries.FindFirstEvent(ctx, tx, siteID)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return first.UTC(), err
}

// fold asks what an answer takes of a Reader for a window. All folds of a question have asked
// before the first is finished, so that a Reader may look for all of them at once.
type fold func(r Reader, c calendar.Calendar, w calendar.Window) (finish, error)

// finish makes the answer.
type finish func(ctx context.Context) error

// question is folds over a period.
type question struct {
	period calendar.Range
	folds  []fold
}

func (s *Service) read(ctx context.Context, q Query, f fold) error {
	p, err := q.period(s.o.Now())
	if err != nil {
		return err
	}
	return s.snapshot(ctx, q, question{p, []fold{f}})
}

// snapshot answers questions with q's filters, or without any from rollups and as few
// events as that takes.
func (s *Service) snapshot(ctx context.Context, q Query, questions ...question) error {
	if err := q.Filters.check(); err != nil {
		return err
	}
	if len(q.Filters) == 0 {
		err := s.answer(ctx, s.fromRollups, q, questions)
		if !errors.Is(err, errManyEvents) {
			return err
		}
	}
	return s.answer(ctx, s.fromEvents, q, questions)
}

// answer answers questions at a desk, all from one snapshot. It returns errManyEvents,
// ErrTooExpensive or fairqueue.ErrBusy.
func (s *Service) answer(ctx context.Context, at desk, q Query, questions []question) error {
	return at.serve(ctx, q.SiteID, s.o.Timeout, func(ctx context.Context, tx pgx.Tx) error {
		for _, each := range questions {
			if err := s.answerOne(ctx, tx, at, q, each); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) answerOne(ctx context.Context, tx pgx.Tx, at desk, q Query, of question) error {
	err := s.answerFrom(ctx, tx, at, q, of)
	if errors.Is(err, session.ErrTrimmed) {
		return s.beyondRetention(ctx, tx, q.SiteID)
	}
	return err
}

// answerFrom is answerOne that returns errTrimmed when raw data is gone that it takes.
func (s *Service) answerFrom(ctx context.Context, tx pgx.Tx, at desk, q Query, of question) error {
	c, days, w, err := s.window(ctx, tx, q, of.period)
	if err != nil {
		return err
	}
	r, err := s.reader(ctx, tx, at, q, days)
	if err != nil {
		return err
	}
	finishes := make([]finish, len(of.folds))
	for i, f := range of.folds {
		if finishes[i], err = f(r, c, w); err != nil {
			return err
		}
	}
	for _, f := range finishes {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reader reads what q's filters leave, or without any from rollups.
func (s *Service) reader(ctx context.Context, tx pgx.Tx, at desk, q Query, days map[time.Time]*rollupDay) (Reader, error) {
	labels := newDictionary(s.queries, tx, q.SiteID)
	if len(q.Filters) > 0 {
		return newColumnReader(ctx, columnReader{
			queries: s.queries, tx: tx, siteID: q.SiteID, labelCap: s.o.LabelCap, caps: s.o.EventCaps, days: days, labels: labels, window: s.o.Window,
		}, q.Filters)
	}
	events := eventReader{queries: s.queries, tx: tx, siteID: q.SiteID, labelCap: s.o.LabelCap, caps: s.o.EventCaps}
	return promised{&rollupReader{
		eventReader: events, days: days, maxStale: s.o.MaxStale, maxEvents: at.maxEvents, labels: labels, window: s.o.Window,
	}}, nil
}

// window reads the calendar that p takes, and gives p its instants by it.
func (s *Service) window(ctx context.Context, tx pgx.Tx, q Query, p calendar.Range) (calendar.Calendar, map[time.Time]*rollupDay, calendar.Window, error) {
	if p.IsAllTime() {
		first, err := s.firstEvent(ctx, tx, q.SiteID)
		if err != nil {
			return calendar.Calendar{}, nil, calendar.Window{}, err
		}
		p = p.Since(first)
	}
	c, days, err := s.loadCalendar(ctx, tx, q, p)
	if err != nil {
		return c, days, calendar.Window{}, err
	}
	w, err := c.Window(p)
	return c, days, w, err
}

// loadCalendar reads the site days that p touches, with those of a compared
// period and of the month or week in which the window begins.
func (s *Service) loadCalendar(ctx context.Context, tx pgx.Tx, q Query, p calendar.Range) (calendar.Calendar, map[time.Time]*rollupDay, error) {
	first, last := p.Dates(q.Zones)
	if q.Compare {
		first = first.Add(first.Sub(last))
	}
	rows, err := s.queries.ListRollupDays(ctx, tx, q.SiteID, first.AddDate(0, 0, -31), last)
	if err != nil {
		return calendar.Calendar{}, nil, err
	}
	stored := make([]calendar.Day, len(rows))
	days := make(map[time.Time]*rollupDay, len(rows))
	for i, row := range rows {
		d := newRollupDay(row, q.Zones)
		stored[i], days[d.Date] = d.Day, d
	}
	return calendar.New(q.Zones, stored...), days, nil
}
