package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waypost/waypost/db"
)

// Question asks for the requests of all processes in the time from Since to before
// Until, both whole minutes.
type Question struct {
	Since, Until time.Time
	// Step is the time between two points: a whole number of minutes.
	Step time.Duration
	// Method and Route select one route; "" for all.
	Method, Route string
}

// Summary is what the processes measured.
type Summary struct {
	// All is about all routes together, Points its course in steps.
	All    Figures
	Points []Figures
	// Routes are those that were asked for, by their numbers of requests.
	Routes []RouteFigures
}

// Figures are about the requests of one time.
type Figures struct {
	Requests uint64
	Refused  uint64 // answers of 4xx
	Failed   uint64 // answers of 5xx
	P50, P95 time.Duration
	P99      time.Duration
}

// RouteFigures are about one route.
type RouteFigures struct {
	Method, Route string
	Figures
	// Course are the requests of each step, Failing and Refusing those of them that were
	// answered with 5xx and 4xx.
	Course, Failing, Refusing []uint64
}

// tally sums counts.
type tally struct {
	classes   [6]uint64
	durations Histogram
}

func (t *tally) add(p *packedRoute) {
	for i, n := range p.classes {
		t.classes[i] += n
	}
	for _, b := range p.filled {
		t.durations[b.index] += b.count
	}
}

func (t *tally) sum(other *tally) {
	for i, n := range other.classes {
		t.classes[i] += n
	}
	t.durations.Add(&other.durations)
}

// course is a tally with what came in each step.
type course struct {
	tally
	method, route             string
	requests, failed, refused []uint64
}

func (t *tally) figures() Figures {
	return Figures{
		Requests: t.durations.Count(), Refused: t.classes[4], Failed: t.classes[5],
		P50: t.durations.Quantile(.5), P95: t.durations.Quantile(.95), P99: t.durations.Quantile(.99),
	}
}

// fresh is how long a Summary is given again: pages that bring themselves up to date ask
// every few seconds, and a day of many processes takes a while to sum.
const fresh = 10 * time.Second

// remembered is a Summary with the time when it was read.
type remembered struct {
	Summary
	at time.Time
}

// Read sums what all processes stored. What it returns may be ten seconds old. Minutes of
// another version's layout are left out.
func (h *History) Read(ctx context.Context, q Question) (Summary, error) {
	now := h.o.Now()
	h.reading.Lock()
	maps.DeleteFunc(h.read, func(_ Question, r remembered) bool { return now.Sub(r.at).Abs() >= fresh })
	r, ok := h.read[q]
	h.reading.Unlock()
	if !ok {
		s, err := h.sum(ctx, q)
		if err != nil {
			return Summary{}, err
		}
		r = remembered{s, now}
		h.reading.Lock()
		if len(h.read) < maxRemembered {
			h.read[q] = r
		}
		h.reading.Unlock()
	}
	r.Routes = slices.Clone(r.Routes) // a caller may sort them
	return r.Summary, nil
}

// maxRemembered bounds the summaries that are kept.
const maxRemembered = 16

func (h *History) sum(ctx context.Context, q Question) (Summary, error) {
	n := int((q.Until.Sub(q.Since) + q.Step - 1) / q.Step)
	c := counting{q: q, points: make([]tally, n), routes: map[string]*course{}}
	known := h.settled.firstOf(q)
	for i, packed := range known {
		if err := c.take(i, packed); err != nil {
			return Summary{}, err
		}
	}
	now, from := h.o.Now(), q.Since.Add(time.Duration(len(known))*q.Step)
	if err := h.sumFrom(ctx, &c, from, len(known), now); err != nil {
		return Summary{}, err
	}
	return c.summary(), nil
}

// sumFrom adds what is stored from a time on, which is when the step first began, and keeps
// the sums of those steps that are settled.
func (h *History) sumFrom(ctx context.Context, c *counting, from time.Time, first int, now time.Time) error {
	rows, err := h.queries.ListTelemetryMinutes(ctx, h.o.Areas.Requests.Direct(), from, c.q.Until)
	if err != nil {
		return fmt.Errorf("telemetry: read minutes: %w", db.Translate(err))
	}
	whole := settledSteps(from, c.q.Until, c.q.Step, now)
	m := merger{routes: map[string]*course{}}
	for _, row := range rows { // by time
		i := int(row.Minute.Sub(from) / c.q.Step)
		if err := c.take(first+i, row.Requests); err != nil {
			return err
		}
		if i < whole {
			m.endUntil(i)
			if err := m.add(row.Requests); err != nil && !errors.Is(err, errOtherVersion) {
				return err
			}
		}
	}
	m.endUntil(whole)
	h.settled.keep(from, c.q.Step, m.sums, now)
	return nil
}

// summary is what was counted.
func (c *counting) summary() Summary {
	points, routes, n := c.points, c.routes, len(c.points)
	s := Summary{Points: make([]Figures, n)}
	var all tally
	for i := range points {
		s.Points[i] = points[i].figures()
		all.sum(&points[i])
	}
	s.All = all.figures()
	for _, r := range routes {
		s.Routes = append(s.Routes, RouteFigures{r.method, r.route, r.figures(), r.requests, r.failed, r.refused})
	}
	slices.SortFunc(s.Routes, func(a, b RouteFigures) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Method, b.Method))
	})
	return s
}

// Counts sums what the tallies of all processes counted, by their names: a number for each
// step. Of q it takes the time and the step. Steps that are settled are read once.
func (h *History) Counts(ctx context.Context, q Question) (map[string][]uint64, error) {
	n, now := int((q.Until.Sub(q.Since)+q.Step-1)/q.Step), h.o.Now()
	steps := h.counted.firstOf(q)
	known := len(steps)
	from := q.Since.Add(time.Duration(known) * q.Step)
	rows, err := h.queries.ListTelemetryCounts(ctx, h.o.Areas.Requests.Direct(), from, q.Until)
	if err != nil {
		return nil, fmt.Errorf("telemetry: read counts: %w", db.Translate(err))
	}
	for range n - known {
		steps = append(steps, map[string]uint64{})
	}
	for _, row := range rows {
		var counts map[string]uint64
		if err := json.Unmarshal(row.Counts, &counts); err != nil {
			return nil, fmt.Errorf("telemetry: a stored minute's counts: %w", err)
		}
		for name, counted := range counts {
			steps[int(row.Minute.Sub(q.Since)/q.Step)][name] += counted
		}
	}
	h.counted.keep(from, q.Step, steps[known:known+settledSteps(from, q.Until, q.Step, now)], now)
	byName := map[string][]uint64{}
	for i, counts := range steps {
		for name, counted := range counts {
			if byName[name] == nil {
				byName[name] = make([]uint64, n)
			}
			byName[name][i] = counted
		}
	}
	return byName, nil
}

// Noted is a request that was slow or failed.
type Noted struct {
	Request
	Instance string
}

// Slowest returns the slowest requests of a time, the slowest first.
func (h *History) Slowest(ctx context.Context, since, until time.Time, most int) ([]Noted, error) {
	rows, err := h.queries.ListSlowRequests(ctx, h.o.Areas.Requests.Direct(), since, until, int32(most))
	if err != nil {
		return nil, fmt.Errorf("telemetry: read slow requests: %w", db.Translate(err))
	}
	list := make([]Noted, len(rows))
	for i, row := range rows {
		if list[i], err = noted(row.Instance, row.Request); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Failed returns requests of a time that were answered with 5xx, newest first. Of each
// minute and status a process keeps the first ten.
func (h *History) Failed(ctx context.Context, since, until time.Time, most int) ([]Noted, error) {
	rows, err := h.queries.ListFailedRequests(ctx, h.o.Areas.Requests.Direct(), since, until, int32(most))
	if err != nil {
		return nil, fmt.Errorf("telemetry: read failed requests: %w", db.Translate(err))
	}
	list := make([]Noted, len(rows))
	for i, row := range rows {
		if list[i], err = noted(row.Instance, row.Request); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func noted(instance string, stored []byte) (Noted, error) {
	var q notableRequest
	if err := json.Unmarshal(stored, &q); err != nil {
		return Noted{}, fmt.Errorf("telemetry: a stored request: %w", err)
	}
	return Noted{Request{
		At: q.At, Method: q.Method, Route: q.Route, Status: q.Status, Took: time.Duration(q.TookUs) * time.Microsecond, ID: q.ID, Trace: q.Trace, Code: q.Code,
	}, instance}, nil
}

// Instance is a process and how it was in its newest minute.
type Instance struct {
	Name string
	At   time.Time // the beginning of that minute
	Process
}

// Instances returns the processes that stored a minute in a time, by name.
func (h *History) Instances(ctx context.Context, since, until time.Time) ([]Instance, error) {
	rows, err := h.queries.ListTelemetryProcesses(ctx, h.o.Areas.Requests.Direct(), since, until)
	if err != nil {
		return nil, fmt.Errorf("telemetry: read processes: %w", db.Translate(err))
	}
	list := make([]Instance, len(rows))
	for i, row := range rows {
		list[i] = Instance{Name: row.Instance, At: row.Minute}
		if err := json.Unmarshal(row.Process, &list[i].Process); err != nil {
			return nil, fmt.Errorf("telemetry: a stored process: %w", err)
		}
	}
	return list, nil
}
