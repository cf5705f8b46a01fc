package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// StatsService answers questions about one site's traffic. Every method returns
// a fault of kind Invalid for a range that it can't answer.
type StatsService interface {
	Summary(ctx context.Context, q stats.Query) (stats.Summary, error)
	Timeseries(ctx context.Context, q stats.Query, g calendar.Granularity) (stats.Timeseries, error)
	Breakdowns(ctx context.Context, q stats.Query, dimensions ...stats.Dimension) (map[stats.Dimension]stats.List[stats.Row], error)
	CustomEvents(ctx context.Context, q stats.Query, name string) (stats.CustomEvents, error)
	Realtime(ctx context.Context, q stats.Query) (int64, error)
	Facts(ctx context.Context, q stats.Query) (stats.Facts, error)
	Report(ctx context.Context, q stats.Questions) (stats.Answers, error)
}

// NamedSites finds a site by its id, or returns site.ErrNoSite.
type NamedSites interface {
	Find(ctx context.Context, id uuid.UUID) (site.Site, error)
}

// Statistics are the operations that count and read a site's traffic.
func Statistics(s StatsService, sites NamedSites, c Collection) Resource {
	return Resource{
		Tag: "Statistics", Area: "Statistics", Description: "A site's traffic, counted without cookies and read with the site's secret key, or by an ADMIN.",
		Register: func(a huma.API) {
			describeFilterValue(a.OpenAPI().Components.Schemas)
			registerStats(statsAPI{a, sites}, s)
			registerCollectBatch(a, c.Batches)
		},
		Routes: func(r chi.Router) {
			mountCollect(r, c)
			mountScript(r)
		},
	}
}

// statsAPI is where statistics are registered: for a site's key, and for an ADMIN, who
// names the site.
type statsAPI struct {
	huma.API
	sites NamedSites
}

func registerStats(a statsAPI, s StatsService) {
	registerStatsSite(a, s)
	registerStatsTotals(a, s)
	registerStatsBreakdowns(a, s)
	registerStatsEvents(a, s)
	registerStatsReport(a, s)
	describeTables(a)
}

// registerStatistic adds both operations of q, which are answered alike.
func registerStatistic[I, O any](a statsAPI, q statistic, answer func(context.Context, *I) (*O, error)) {
	huma.Register(a, q.byKey(), answer)
	huma.Register(a, q.byAdmin(a.sites), answer)
}

func registerStatsSite(a statsAPI, s StatsService) {
	// GET /api/stats/site
	registerStatistic(a, statistic{"site", "Get the site",
		"Name, domain and time zone of the site, the time of its first event, and the current time. The range has no effect."},
		func(ctx context.Context, in *StatsInput) (*statsOutput[statsSite], error) {
			facts, err := s.Facts(ctx, in.query(ctx))
			return newStatsOutput(newStatsSite(siteFrom(ctx), facts), err)
		})
}

func registerStatsTotals(a statsAPI, s StatsService) {
	// GET /api/stats/summary
	registerStatistic(a, statistic{"summary", "Get totals",
		"Pageviews and visitors in the range; number, bounce rate and mean duration of the sessions that start in it. " +
			"A visitor counts once per day of the site."},
		func(ctx context.Context, in *StatsInput) (*statsOutput[statsSummary], error) {
			answer, err := s.Summary(ctx, in.query(ctx))
			return newStatsOutput(newStatsSummary(answer), err)
		})

	// GET /api/stats/timeseries
	registerStatistic(a, statistic{"timeseries", "Get pageviews and visitors over time",
		"Buckets are aligned in the site's time zone (weeks start on Monday) and have no gaps; `ts` has the site's offset. " +
			"Without `granularity`: up to 48 hours by hour, 90 days by day, 730 days by week, else by month. " +
			"`metrics` adds numbers of the sessions that start in each bucket."},
		func(ctx context.Context, in *struct {
			TableInput
			VisitsInput
			GranularityInput
		}) (*statsOutput[tabular[statsTimeseries]], error) {
			q := in.query(ctx)
			q.Visits = in.any()
			answer, err := s.Timeseries(ctx, q, calendar.Granularity(in.Granularity))
			return newTableOutput(in.Format, newStatsTimeseries(answer, in.Metrics), err)
		})

	// GET /api/stats/realtime
	registerStatistic(a, statistic{"realtime", "Get visitors right now",
		"Distinct visitors of the last 300 seconds. The range has no effect."},
		func(ctx context.Context, in *StatsInput) (*statsOutput[statsRealtime], error) {
			visitors, err := s.Realtime(ctx, in.query(ctx))
			return newStatsOutput(newStatsRealtime(visitors), err)
		})
}

// ofRows says what the parameters of breakdowns do.
const ofRows = " `metrics` adds numbers of its sessions to each row; `empty=true` adds the row `(none)` for sessions without a label."

func registerStatsBreakdowns(a statsAPI, s StatsService) {
	// GET /api/stats/pages
	registerStatistic(a, statistic{"pages", "Get top pages",
		"`top`: pages by pageviews in the range. `entry` and `exit`: first and last pages of the sessions that start in it; " +
			"their `pageviews` is the number of such sessions." + ofRows + " Both apply to `entry` and `exit` only."},
		breakdownOf(a, s, newStatsPages, pageDimensions))

	// GET /api/stats/referrers
	registerStatistic(a, statistic{"referrers", "Get referrers and campaigns",
		"Hosts (without `www.`) that sessions came from, and their utm parameters. The site's own domain does not count; " +
			"with `empty=true`, the row `(none)` of `sources` are direct visits." + ofRows},
		breakdownOf(a, s, newStatsReferrers, referrerDimensions))

	// GET /api/stats/geo
	registerStatistic(a, statistic{"geo", "Get countries",
		"Countries as ISO 3166-1 alpha-2 codes, without visits from unknown places." + ofRows},
		breakdownOf(a, s, newStatsGeo, geoDimensions))

	// GET /api/stats/tech
	registerStatistic(a, statistic{"tech", "Get devices, browsers and operating systems",
		"Devices are `desktop`, `mobile` and `tablet`." + ofRows},
		breakdownOf(a, s, newStatsTech, techDimensions))
}

// breakdownOf answers with the lists of some dimensions, which shape makes a body of.
func breakdownOf[T table](a statsAPI, s StatsService, shape func(statsLists) T, dimensions []stats.Dimension) func(context.Context, *BreakdownInput) (*statsListOutput[tabular[T]], error) {
	return func(ctx context.Context, in *BreakdownInput) (*statsListOutput[tabular[T]], error) {
		q := in.query(ctx)
		q.Offset, q.Visits, q.Empty = in.Offset, in.any(), in.Empty
		lists, err := s.Breakdowns(ctx, q, dimensions...)
		body := tabular[T]{value: shape(statsLists{lists, in.Metrics}), asCSV: in.Format == "csv"}
		return newStatsListOutput(a, q, in.asked, body, longest(lists), err)
	}
}

func registerStatsEvents(a statsAPI, s StatsService) {
	// GET /api/stats/events
	registerStatistic(a, statistic{"events", "Get custom events",
		"Events sent by `waypost.track(name, props)`. With `name`, also the properties of that event."},
		func(ctx context.Context, in *struct {
			TableInput
			OffsetInput
			NameInput
		}) (*statsListOutput[tabular[statsEvents]], error) {
			q := in.query(ctx)
			q.Offset = in.Offset
			answer, err := s.CustomEvents(ctx, q, in.Name)
			body := tabular[statsEvents]{value: newStatsEvents(answer), asCSV: in.Format == "csv"}
			return newStatsListOutput(a, q, in.asked, body, answer.Total, err)
		})
}

// statistic is a question about a site's traffic.
type statistic struct{ name, summary, description string }

// byKey is GET /api/stats/<name>, about the site of the key.
func (q statistic) byKey() huma.Operation {
	op := access(q.operation("get-stats-", "/api/stats/"), siteKey(), q.failures()...)
	op.Metadata[siteAnswersKey] = []int{http.StatusOK, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests}
	return op
}

// byAdmin is GET /api/admin/sites/{id}/stats/<name>.
func (q statistic) byAdmin(sites NamedSites) huma.Operation {
	op := q.operation("get-site-stats-", "/api/admin/sites/{id}/stats/")
	op.Summary += ", by site id"
	op.Description += " Same answer as `GET /api/stats/" + q.name + "` with a key of the site."
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "id", In: "path", Required: true, Description: "The site's id.", Example: "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10",
		Schema: uuidText("").Schema(nil),
	})
	op.Middlewares = huma.Middlewares{openNamed(sites)}
	op = exportedByID(access(op, roles(identity.Admin), append(q.failures(), site.ErrNoSite)...), "siteId")
	op.Metadata[siteAnswersKey] = []int{http.StatusOK, http.StatusUnprocessableEntity}
	return op
}

// failures are what the question can end with. The present is never beyond retention.
func (q statistic) failures() []error {
	if q.name == "site" || q.name == "realtime" {
		return []error{stats.ErrTooExpensive}
	}
	return []error{stats.ErrTooExpensive, stats.ErrBeyondRetention}
}

func (q statistic) operation(id, path string) huma.Operation {
	return huma.Operation{
		OperationID: id + q.name,
		Method:      http.MethodGet,
		Path:        path + q.name,
		Summary:     q.summary,
		Description: q.description,
		// Documented here and read as text below: Huma would refuse a value that is
		// no boolean, while such a value only leaves the comparison off.
		Parameters: []*huma.Param{{
			Name: "compare", In: "query",
			Description: "`true` adds the preceding period of equal length to the summary and the timeseries; any other value has no effect.",
			Schema:      &huma.Schema{Type: huma.TypeBoolean, Default: false},
		}, filterParameter()},
	}
}

// openNamed finds the site that the path names, as the guard finds that of a key.
func openNamed(sites NamedSites) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		id, err := parseID(uuidText(ctx.Param("id")), site.ErrNoSite)
		var found site.Site
		if err == nil {
			found, err = sites.Find(ctx.Context(), id)
		}
		if err != nil {
			r, w := humachi.Unwrap(ctx)
			httpedge.WriteError(w, r, err)
			return
		}
		ctx.SetHeader(siteTimezoneHeader, found.Zone.String())
		next(huma.WithValue(ctx, siteContextKey{}, found))
	}
}
