package pages

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/telemetry"
)

// Measurements are what all processes measured in the last 24 hours.
type Measurements interface {
	Read(ctx context.Context, q telemetry.Question) (telemetry.Summary, error)
	Slowest(ctx context.Context, since, until time.Time, most int) ([]telemetry.Noted, error)
	Failed(ctx context.Context, since, until time.Time, most int) ([]telemetry.Noted, error)
	Instances(ctx context.Context, since, until time.Time) ([]telemetry.Instance, error)
}

// Queues are the queues of jobs.
type Queues interface {
	Queues(ctx context.Context) ([]queue.Info, error)
}

// ObservabilityPages are the pages of requests, connections and processes. now is the
// clock.
func ObservabilityPages(m Measurements, q Queues, now func() time.Time) Section {
	p := observabilityPages{m, q, now}
	return Section{Label: "Observability", Screens: []Screen{
		{Path: "/observability", Title: "Observability", View: "observability", Live: true, Read: p.show},
		{Path: "/observability/route", Title: "Route", View: "route", Live: true, Read: p.route},
	}}
}

type observabilityPages struct {
	m   Measurements
	q   Queues
	now func() time.Time
}

// span is a time that can be looked at.
type span struct {
	name, label  string
	length, step time.Duration
}

var spans = []span{
	{"1h", "Last hour", time.Hour, time.Minute},
	{"6h", "Last 6 hours", 6 * time.Hour, 5 * time.Minute},
	{"24h", "Last 24 hours", telemetry.Kept, 15 * time.Minute},
}

// question reads the time that r asks for. It ends with the last whole minute.
func (p observabilityPages) question(r *http.Request) (telemetry.Question, Field, error) {
	f := Field{Name: "range", Label: "Time", Kind: "select", Value: cmp.Or(r.URL.Query().Get("range"), spans[0].name)}
	for _, s := range spans {
		f.Options = append(f.Options, Option{s.name, s.label})
	}
	i := slices.IndexFunc(spans, func(s span) bool { return s.name == f.Value })
	if i < 0 {
		return telemetry.Question{}, f, fault.Validation(map[string]string{"range": "It is 1h, 6h or 24h."})
	}
	s := spans[i]
	until := p.now().UTC().Truncate(time.Minute)
	since := until.Add(-s.length).Truncate(s.step)
	return telemetry.Question{Since: since, Until: until, Step: s.step}, f, nil
}

const (
	// instancesSince is how long ago an instance's newest minute may have begun.
	instancesSince = 3 * time.Minute
	// notedRows is how many slow and failed requests are listed.
	notedRows = 20
	// routeRows is how many routes are listed.
	routeRows = 100
)

// observabilityPage is the first page.
type observabilityPage struct {
	Filter                                                Filter
	Headline                                              []headline
	Requests, Times                                       Chart
	Routes, Failed, Slowest, Queues, Connections, Running Table
}

func (p observabilityPages) show(r *http.Request) (any, error) {
	q, field, err := p.question(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	s, err := p.m.Read(ctx, q)
	if err != nil {
		return nil, err
	}
	page := observabilityPage{Filter: Filter{Fields: []Field{field}}, Headline: headlineOf(s.All, q)}
	if sort := r.URL.Query().Get("sort"); sort != "" {
		page.Filter.Kept = []Option{{"sort", sort}}
	}
	page.Requests, page.Times = chartsOf(s.Points, q)
	if page.Routes, err = p.routes(r, s.Routes, q); err != nil {
		return nil, err
	}
	failed, err := p.m.Failed(ctx, q.Since, q.Until, notedRows)
	if err != nil {
		return nil, err
	}
	page.Failed = notedTable("Requests that failed, newest first", failed, Empty{Title: "No request failed", Detail: "Answers of 5xx are listed here: the first ten of each status, minute and process."})
	slowest, err := p.m.Slowest(ctx, q.Since, q.Until, notedRows)
	if err != nil {
		return nil, err
	}
	page.Slowest = notedTable("Slowest requests", slowest, Empty{Title: "No requests"})
	instances, err := p.m.Instances(ctx, p.now().Add(-instancesSince), p.now().Add(time.Minute))
	if err != nil {
		return nil, err
	}
	page.Connections, page.Running = connectionsTable(instances), instancesTable(instances)
	page.Queues, err = p.queues(ctx)
	return page, err
}

// headlineOf are the figures of the whole time.
func headlineOf(f telemetry.Figures, q telemetry.Question) []headline {
	share := "0 %"
	if f.Failed > 0 {
		share = strconv.FormatFloat(100*float64(f.Failed)/float64(f.Requests), 'g', 2, 64) + " %"
	}
	return []headline{
		{Label: "Requests", Value: grouped(int64(f.Requests))}, {Label: "Per minute", Value: perMinute(f.Requests, q)},
		{Label: "Failed (5xx)", Value: grouped(int64(f.Failed)) + ", " + share},
		{Label: "p50", Value: cmp.Or(took(f.P50), "-")}, {Label: "p95", Value: cmp.Or(took(f.P95), "-")}, {Label: "p99", Value: cmp.Or(took(f.P99), "-")},
	}
}

func perMinute(n uint64, q telemetry.Question) string {
	rate := float64(n) / q.Until.Sub(q.Since).Minutes()
	switch {
	case rate == 0:
		return "0"
	case rate < 0.1:
		return "< 0.1"
	case rate < 10:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return grouped(int64(math.Round(rate)))
}

// chartsOf draws the numbers of requests and their times.
func chartsOf(points []telemetry.Figures, q telemetry.Question) (requests, times Chart) {
	every := "minute"
	if q.Step > time.Minute {
		every = strconv.Itoa(int(q.Step/time.Minute)) + " minutes"
	}
	requests.Title, times.Title = "Requests per "+every+", UTC", "Time to answer"
	times.Unit = "ms"
	well, refused, failed := Series{Label: "Answered", Tone: "main"}, Series{Label: "4xx", Tone: "quiet"}, Series{Label: "5xx", Tone: "bad"}
	p50, p95, p99 := Series{Label: "p50", Tone: "good"}, Series{Label: "p95", Tone: "main"}, Series{Label: "p99", Tone: "quiet"}
	for i, f := range points {
		requests.At = append(requests.At, q.Since.Add(time.Duration(i)*q.Step).Format("15:04"))
		well.Values = append(well.Values, float64(f.Requests)-min(float64(f.Requests), float64(f.Refused+f.Failed)))
		refused.Values, failed.Values = append(refused.Values, float64(f.Refused)), append(failed.Values, float64(f.Failed))
		p50.Values, p95.Values, p99.Values = append(p50.Values, inMs(f.P50)), append(p95.Values, inMs(f.P95)), append(p99.Values, inMs(f.P99))
	}
	requests.Series, times.Series, times.At = []Series{well, refused, failed}, []Series{p50, p95, p99}, requests.At
	times.Unsummed = true
	return barChart(requests), lineChart(times)
}

func inMs(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Millisecond)*10) / 10 }

// routeOrders are what the table of routes can be sorted by.
var routeOrders = map[string]func(a, b telemetry.RouteFigures) int{
	"route":    func(a, b telemetry.RouteFigures) int { return strings.Compare(a.Route, b.Route) },
	"requests": func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.Requests, b.Requests) },
	"refused":  func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.Refused, b.Refused) },
	"failed":   func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.Failed, b.Failed) },
	"p50":      func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.P50, b.P50) },
	"p95":      func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.P95, b.P95) },
	"p99":      func(a, b telemetry.RouteFigures) int { return cmp.Compare(a.P99, b.P99) },
}

func (p observabilityPages) routes(r *http.Request, list []telemetry.RouteFigures, q telemetry.Question) (Table, error) {
	sort := cmp.Or(r.URL.Query().Get("sort"), "-requests")
	order, known := routeOrders[strings.TrimPrefix(sort, "-")]
	if !known {
		return Table{}, fault.Validation(map[string]string{"sort": "There is no such column."})
	}
	slices.SortStableFunc(list, func(a, b telemetry.RouteFigures) int {
		if strings.HasPrefix(sort, "-") {
			a, b = b, a
		}
		return order(a, b)
	})
	t := Table{
		Caption: "Routes", Columns: []Column{sortable(r, "Route", "route", sort), {Label: "Course"}},
		Empty: Empty{Title: "Nothing was measured in this time", Detail: "Each process stores what it measured when a minute is over. What a process that was killed measured in its last minute is lost."},
	}
	for _, c := range []Column{
		sortable(r, "Requests", "requests", sort), {Label: "Per minute"}, sortable(r, "4xx", "refused", sort), sortable(r, "5xx", "failed", sort),
		sortable(r, "p50", "p50", sort), sortable(r, "p95", "p95", sort), sortable(r, "p99", "p99", sort),
	} {
		c.Number = true
		t.Columns = append(t.Columns, c)
	}
	for _, route := range list[:min(len(list), routeRows)] {
		t.Rows = append(t.Rows, Row{Cells: []any{
			Link{Text: route.Method + " " + route.Route, Href: routePath(route.Method, route.Route, r.URL.Query().Get("range"))}, sparkOf(route),
			int64(route.Requests), perMinute(route.Requests, q), int64(route.Refused), int64(route.Failed), took(route.P50), took(route.P95), took(route.P99),
		}})
	}
	return t, nil
}

func routePath(method, route, within string) string {
	q := url.Values{"method": {method}, "route": {route}}
	if within != "" {
		q.Set("range", within)
	}
	return DeskPath + "/observability/route?" + q.Encode()
}

// sparkOf draws a route's course.
func sparkOf(r telemetry.RouteFigures) Spark {
	s := Spark{Text: fmt.Sprintf("%s requests, %s failed", grouped(int64(r.Requests)), grouped(int64(r.Failed)))}
	s.Lines = append(s.Lines, sparkLine(r.Course, slices.Max(r.Course), "main"))
	if r.Failed > 0 {
		s.Lines = append(s.Lines, sparkLine(r.Failing, slices.Max(r.Course), "bad"))
	}
	return s
}

func notedTable(caption string, list []telemetry.Noted, empty Empty) Table {
	t := Table{
		Caption: caption, Empty: empty,
		Columns: []Column{{Label: "When"}, {Label: "Request", Wide: true}, {Label: "Status"}, {Label: "Took", Number: true}, {Label: "Request id, trace"}, {Label: "Process"}},
	}
	for _, n := range list {
		status := Badge{strconv.Itoa(n.Status), "quiet"}
		if n.Status >= http.StatusInternalServerError {
			status.Tone = "bad"
		}
		ids := []any{Code(n.ID)}
		if n.Trace != "" {
			ids = append(ids, Code(n.Trace))
		}
		answer := []any{status}
		if n.Code != "" {
			answer = append(answer, n.Code)
		}
		t.Rows = append(t.Rows, Row{Cells: []any{
			n.At, Link{Text: n.Method + " " + n.Route, Href: routePath(n.Method, n.Route, "")}, answer, took(n.Took), ids, n.Instance,
		}})
	}
	return t
}

func (p observabilityPages) queues(ctx context.Context) (Table, error) {
	list, err := p.q.Queues(ctx)
	if err != nil {
		return Table{}, err
	}
	t := Table{
		Caption: "Job queues", Empty: Empty{Title: "No queues"},
		Columns: []Column{{Label: "Queue"}, {Label: "State"}, {Label: "Waiting", Number: true}, {Label: "Longest wait", Number: true}, {Label: "Running", Number: true}, {Label: "To retry", Number: true}, {Label: "Discarded", Number: true}},
	}
	for _, q := range list {
		state := Badge{"running", "good"}
		if q.PausedAt != nil {
			state = Badge{"paused", "wait"}
		}
		t.Rows = append(t.Rows, Row{Cells: []any{
			Link{Text: q.Name, Href: DeskPath + "/jobs?" + query("queue", q.Name)}, state,
			q.Counts[queue.Available], wait(q.OldestWaiting), q.Counts[queue.Running], q.Counts[queue.Retryable], q.Counts[queue.Discarded],
		}})
	}
	return t, nil
}

var noProcess = Empty{Title: "No process has stored a minute yet", Detail: "Each does when its first minute is over."}

// connectionsTable shows each process's connections by area.
func connectionsTable(list []telemetry.Instance) Table {
	t := Table{
		Caption: "Connections to the database, most of the latest minute", Empty: noProcess,
		Columns: []Column{{Label: "Process"}, {Label: "Area"}, {Label: "Most in use"}, {Label: "Connections", Number: true}, {Label: "Waiting for one", Number: true}, {Label: "Refused", Number: true}},
	}
	for _, i := range list {
		for _, pool := range i.Pools {
			use := Badge{strconv.Itoa(pool.Taken), "quiet"}
			switch {
			case pool.Refused > 0:
				use.Tone = "bad"
			case pool.Taken >= pool.Max && pool.Waiting > 0:
				use.Tone = "wait"
			}
			t.Rows = append(t.Rows, Row{Cells: []any{i.Name, pool.Area, use, int64(pool.Max), int64(pool.Waiting), pool.Refused}})
		}
	}
	return t
}

func instancesTable(list []telemetry.Instance) Table {
	t := Table{
		Caption: "Processes", Empty: noProcess,
		Columns: []Column{{Label: "Process"}, {Label: "Started"}, {Label: "Latest minute"}, {Label: "Processors in use", Number: true}, {Label: "Memory", Number: true}, {Label: "Heap", Number: true}, {Label: "Goroutines", Number: true}, {Label: "Program"}},
	}
	for _, i := range list {
		busy := fmt.Sprintf("%.2f of %d", i.Busy, i.Processors)
		t.Rows = append(t.Rows, Row{Cells: []any{
			i.Name, i.Started, i.At, busy, Size(i.Memory), Size(i.Heap), int64(i.Goroutines), strings.TrimSpace(i.Go + " " + i.Revision),
		}})
	}
	return t
}

// routePage is one route.
type routePage struct {
	Name            string
	Back            string
	Filter          Filter
	Headline        []headline
	Requests, Times Chart
}

// PageTitle is the route.
func (p routePage) PageTitle() string { return p.Name }

func (p observabilityPages) route(r *http.Request) (any, error) {
	q, field, err := p.question(r)
	if err != nil {
		return nil, err
	}
	q.Method, q.Route = r.URL.Query().Get("method"), r.URL.Query().Get("route")
	if q.Method == "" || q.Route == "" {
		return nil, errNoPage
	}
	s, err := p.m.Read(r.Context(), q)
	if err != nil {
		return nil, err
	}
	page := routePage{
		Name: short(q.Method+" "+q.Route, 200), Back: address(DeskPath+"/observability", url.Values{"range": {field.Value}}), Headline: headlineOf(s.All, q),
		Filter: Filter{Fields: []Field{field}, Kept: []Option{{"method", q.Method}, {"route", q.Route}}},
	}
	page.Requests, page.Times = chartsOf(s.Points, q)
	return page, nil
}
