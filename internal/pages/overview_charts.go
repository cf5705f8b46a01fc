package pages

import (
	"net/http"
	"slices"
	"time"

	"github.com/waypost/waypost/internal/telemetry"
)

// The names by which the overview reads what the processes count by the minute.
const (
	CountDeliveriesFailed = "deliveries_failed"
	CountHits             = "hits"
	CountHitsDropped      = "hits_dropped"
	CountHitsLost         = "hits_lost"
	CountJobs             = "jobs"
	CountJobsFailed       = "jobs_failed"
	CountMails            = "mails"
	CountMailsFailed      = "mails_failed"
)

// overviewChart is the last day of one area.
type overviewChart struct {
	Name, Href string
	Sums       []overviewSum
	Chart      Chart
	// Unread says that it could not be read.
	Unread bool
}

// overviewSum is a series' sum, with its key to the chart.
type overviewSum struct{ Sum, Label, Tone string }

// routes that the charts are about.
var (
	deliveryRoutes = []string{"POST /webhooks/{provider}"}
	signInRoutes   = []string{"POST /api/auth/login", "POST /auth/login", "POST " + DeskPath + "/sign-in"}
)

// charts draws the last 24 hours of each area.
func (v *overview) charts(requests seen[telemetry.Summary], counts seen[map[string][]uint64]) []overviewChart {
	q := v.lastDay()
	n := int(q.Until.Sub(q.Since) / q.Step)
	var at []string
	for i := range n {
		at = append(at, q.Since.Add(time.Duration(i)*q.Step).Format("15:04"))
	}
	counted := func(label, tone, name string) Series { return Series{label, tone, fitted(counts.value[name], n)} }
	var all, refused, failed []uint64
	for _, f := range requests.value.Points {
		all, refused, failed = append(all, f.Requests), append(refused, f.Refused), append(failed, f.Failed)
	}
	answered := []Series{{"answered", "main", less(fitted(all, n), fitted(refused, n), fitted(failed, n))}, {"refused (4xx)", "quiet", fitted(refused, n)}, {"failed (5xx)", "bad", fitted(failed, n)}}
	stored, rejected, unstored := sumRoutes(requests.value.Routes, deliveryRoutes, n)
	signedIn, denied, _ := sumRoutes(requests.value.Routes, signInRoutes, n)
	of := func(name, href string, err error, series ...Series) overviewChart {
		c := overviewChart{Name: name, Href: href, Unread: err != nil}
		if c.Unread {
			return c
		}
		c.Chart = barChart(Chart{Title: name + " by hour", At: at, Series: series, Small: true})
		for _, s := range series {
			c.Sums = append(c.Sums, overviewSum{Chart{Series: []Series{s}}.Sum(), s.Label, s.Tone})
		}
		return c
	}
	either := requests.err
	if either == nil {
		either = counts.err
	}
	return []overviewChart{
		of("Requests", DeskPath+"/observability?range=24h", requests.err, answered...),
		of("Deliveries", DeskPath+"/webhooks", either, Series{"taken", "main", stored}, Series{"refused", "quiet", addUp(rejected, unstored)}, counted("failed handlings", "bad", CountDeliveriesFailed)),
		of("Events collected", DeskPath+"/stats", counts.err, counted("counted", "main", CountHits), counted("dropped", "quiet", CountHitsDropped), counted("not stored", "bad", CountHitsLost)),
		of("Jobs", DeskPath+"/jobs", counts.err, counted("completed", "main", CountJobs), counted("failed attempts", "bad", CountJobsFailed)),
		of("Mails", DeskPath+"/mails", counts.err, counted("sent", "main", CountMails), counted("failed", "bad", CountMailsFailed)),
		of("Sign-ins", DeskPath+"/audit?table=auth_sessions", requests.err, Series{"accepted", "main", signedIn}, Series{"refused", "quiet", denied}),
	}
}

// sumRoutes sums some routes by the hour: what was answered well, refused and failed.
func sumRoutes(list []telemetry.RouteFigures, names []string, n int) (well, refused, failed []float64) {
	well, refused, failed = make([]float64, n), make([]float64, n), make([]float64, n)
	for _, r := range list {
		if !slices.Contains(names, r.Method+" "+r.Route) || r.Method != http.MethodPost {
			continue
		}
		refusing, failing := fitted(r.Refusing, n), fitted(r.Failing, n)
		well = addUp(well, less(fitted(r.Course, n), refusing, failing))
		refused, failed = addUp(refused, refusing), addUp(failed, failing)
	}
	return well, refused, failed
}

// fitted are counts as a series of n numbers: those of an hour ago may be one fewer.
func fitted(counts []uint64, n int) []float64 {
	list := make([]float64, n)
	for i := range min(n, len(counts)) {
		list[i] = float64(counts[i])
	}
	return list
}

func addUp(a, b []float64) []float64 {
	sum := slices.Clone(a)
	for i := range sum {
		sum[i] += b[i]
	}
	return sum
}

func less(all []float64, parts ...[]float64) []float64 {
	rest := slices.Clone(all)
	for _, p := range parts {
		for i := range rest {
			rest[i] = max(0, rest[i]-p[i])
		}
	}
	return rest
}
