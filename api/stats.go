package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/stats"
)

// StatsService answers questions about one site's traffic. Every method returns
// a fault of kind Invalid for a range that it can't answer.
type StatsService interface {
	Summary(ctx context.Context, q stats.Query) (stats.Summary, error)
	Timeseries(ctx context.Context, q stats.Query, g stats.Granularity) (stats.Timeseries, error)
	Breakdowns(ctx context.Context, q stats.Query, dimensions ...stats.Dimension) (map[stats.Dimension][]stats.Row, error)
	CustomEvents(ctx context.Context, q stats.Query, name string) (stats.CustomEvents, error)
	Realtime(ctx context.Context, q stats.Query) (int64, error)
}

// Statistics are the operations that count and read a site's traffic.
func Statistics(s StatsService, c Collection) Resource {
	return Resource{
		Tag: "Statistics", Area: "Statistics", Description: "A site's traffic, counted without cookies and read with the site's secret key.",
		Register: func(a huma.API) {
			registerStats(a, s)
			registerCollectBatch(a, c.Batches)
		},
		Routes: func(r chi.Router) {
			mountCollect(r, c)
			mountScript(r)
		},
	}
}

func registerStats(a huma.API, s StatsService) {
	registerStatsTotals(a, s)
	registerStatsBreakdowns(a, s)
	registerStatsEvents(a, s)
	describeTables(a)
}

func registerStatsTotals(a huma.API, s StatsService) {
	// GET /api/stats/summary
	huma.Register(a, statsOperation("summary", "Totals",
		"Pageviews and visitors inside the range; sessions, bounce rate and mean duration of the sessions that start in it. "+
			"A visitor counts once per day of the site."),
		func(ctx context.Context, in *StatsInput) (*statsOutput[statsSummary], error) {
			answer, err := s.Summary(ctx, in.query(ctx))
			return newStatsOutput(newStatsSummary(answer), err)
		})

	// GET /api/stats/timeseries
	huma.Register(a, statsOperation("timeseries", "Pageviews and visitors over time",
		"Buckets are aligned in the site's time zone (weeks start on Monday) and have no gaps. "+
			"Without `granularity`: up to 48 hours by hour, 90 days by day, 730 days by week, else by month."),
		func(ctx context.Context, in *struct {
			TableInput
			Granularity string `query:"granularity" enum:"hour,day,week,month" doc:"Width of a bucket. A range may have at most 10,000 buckets."`
		}) (*statsOutput[tabular[statsTimeseries]], error) {
			answer, err := s.Timeseries(ctx, in.query(ctx), stats.Granularity(in.Granularity))
			return newTableOutput(in.Format, newStatsTimeseries(answer), err)
		})

	// GET /api/stats/realtime
	huma.Register(a, statsOperation("realtime", "Visitors right now",
		"Distinct visitors of the last 300 seconds, whatever the range."),
		func(ctx context.Context, in *StatsInput) (*statsOutput[statsRealtime], error) {
			visitors, err := s.Realtime(ctx, in.query(ctx))
			return newStatsOutput(statsRealtime{Visitors: visitors, WindowSeconds: int(stats.RealtimeWindow / time.Second)}, err)
		})
}

func registerStatsBreakdowns(a huma.API, s StatsService) {
	// GET /api/stats/pages
	huma.Register(a, statsOperation("pages", "Pages",
		"`top`: pages by pageviews inside the range. `entry` and `exit`: first and last pages of the sessions that start in it; "+
			"their `pageviews` is the number of such sessions."),
		func(ctx context.Context, in *TableInput) (*statsOutput[tabular[statsPages]], error) {
			rows, err := s.Breakdowns(ctx, in.query(ctx), stats.ByPage, stats.ByEntry, stats.ByExit)
			return newTableOutput(in.Format, statsPages{
				Top: newStatsRows(rows[stats.ByPage]), Entry: newStatsRows(rows[stats.ByEntry]), Exit: newStatsRows(rows[stats.ByExit]),
			}, err)
		})

	// GET /api/stats/referrers
	huma.Register(a, statsOperation("referrers", "Referrers and campaigns",
		"Hosts (without `www.`) that sessions came from, and their utm parameters. The site's own domain is no referrer."),
		func(ctx context.Context, in *TableInput) (*statsOutput[tabular[statsReferrers]], error) {
			rows, err := s.Breakdowns(ctx, in.query(ctx), stats.BySource,
				stats.ByUTMSource, stats.ByUTMMedium, stats.ByUTMCampaign, stats.ByUTMTerm, stats.ByUTMContent)
			return newTableOutput(in.Format, statsReferrers{
				Sources: newStatsRows(rows[stats.BySource]),
				UTM: statsUTM{
					Source: newStatsRows(rows[stats.ByUTMSource]), Medium: newStatsRows(rows[stats.ByUTMMedium]),
					Campaign: newStatsRows(rows[stats.ByUTMCampaign]),
					Term:     newStatsRows(rows[stats.ByUTMTerm]), Content: newStatsRows(rows[stats.ByUTMContent]),
				},
			}, err)
		})

	// GET /api/stats/geo
	huma.Register(a, statsOperation("geo", "Countries", "Labels are ISO 3166-1 alpha-2 codes; visits from unknown places are left out."),
		func(ctx context.Context, in *TableInput) (*statsOutput[tabular[statsGeo]], error) {
			rows, err := s.Breakdowns(ctx, in.query(ctx), stats.ByCountry)
			return newTableOutput(in.Format, statsGeo{Countries: newStatsRows(rows[stats.ByCountry])}, err)
		})

	// GET /api/stats/tech
	huma.Register(a, statsOperation("tech", "Devices, browsers and operating systems", "Devices are `desktop`, `mobile` and `tablet`."),
		func(ctx context.Context, in *TableInput) (*statsOutput[tabular[statsTech]], error) {
			rows, err := s.Breakdowns(ctx, in.query(ctx), stats.ByDevice, stats.ByBrowser, stats.ByOS)
			return newTableOutput(in.Format, statsTech{
				Devices: newStatsRows(rows[stats.ByDevice]), Browsers: newStatsRows(rows[stats.ByBrowser]), OS: newStatsRows(rows[stats.ByOS]),
			}, err)
		})
}

func registerStatsEvents(a huma.API, s StatsService) {
	// GET /api/stats/events
	huma.Register(a, statsOperation("events", "Custom events",
		"Events sent by `waypost.track(name, props)`. With `name`, also the properties of that event."),
		func(ctx context.Context, in *struct {
			TableInput
			Name string `query:"name" example:"signup" doc:"Also return the properties of this event."`
		}) (*statsOutput[tabular[statsEvents]], error) {
			answer, err := s.CustomEvents(ctx, in.query(ctx), in.Name)
			return newTableOutput(in.Format, newStatsEvents(answer), err)
		})
}

// statsOperation is the metadata of GET /api/stats/<name>.
func statsOperation(name, summary, description string) huma.Operation {
	return access(huma.Operation{
		OperationID: "get-stats-" + name,
		Method:      http.MethodGet,
		Path:        "/api/stats/" + name,
		Summary:     summary,
		Description: description,
		// Documented here and read as text below: Huma would refuse a value that is
		// no boolean, while such a value only leaves the comparison off.
		Parameters: []*huma.Param{{
			Name: "compare", In: "query",
			Description: "`true` adds the preceding period of equal length to the summary and the timeseries; any other value has no effect.",
			Schema:      &huma.Schema{Type: huma.TypeBoolean, Default: false},
		}, filterParameter()},
	}, siteKey(), stats.ErrTooExpensive)
}

// StatsInput is what every statistics operation takes. Those on which a
// parameter has no effect accept it all the same, and refuse the same values.
// Exported because Huma reads no parameters from an unexported embedded struct.
type StatsInput struct {
	From    string `query:"from" example:"2026-01-01" doc:"Start of the range: a date in the site's time zone, or an RFC 3339 timestamp (inclusive). Without from and to, the range is the last 30 days."`
	To      string `query:"to" example:"2026-01-31" doc:"End of the range: a date in the site's time zone (that whole day belongs to the range), or an RFC 3339 timestamp (exclusive). At most 10 years after from."`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The maximum number of rows in each list of a breakdown."`
	Compare string `query:"compare" hidden:"true"`

	filters stats.Filters
}

// TableInput is that of answers that come as a table as well.
type TableInput struct {
	StatsInput
	Format string `query:"format" enum:"json,csv" default:"json" doc:"csv returns the same rows as a table, for spreadsheets."`
}

// Resolve refuses parameters that are there but empty, which Huma takes for
// absent: a client whose variable is unset should not get another range.
func (in *StatsInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	query := u.Query()
	filters, errs := readFilters(query)
	in.filters = filters
	return append(errs, emptyParameters(query, "from", "to", "limit", "granularity", "format")...)
}

func emptyParameters(query url.Values, names ...string) []error {
	var errs []error
	for _, name := range names {
		if query.Has(name) && query.Get(name) == "" {
			errs = append(errs, &huma.ErrorDetail{Location: "query." + name, Message: "may not be empty; leave it out for the default"})
		}
	}
	return errs
}

func (in *StatsInput) query(ctx context.Context) stats.Query {
	s := siteFrom(ctx)
	return stats.Query{SiteID: s.ID, Zone: s.Zone, Zones: s.Zones, From: in.From, To: in.To,
		Limit: in.Limit, Compare: in.Compare == "true", Filters: in.filters}
}

// statsOutput has a bare body, as the specification of these operations says.
type statsOutput[T any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         T
}

func newStatsOutput[T any](body T, err error) (*statsOutput[T], error) {
	if err != nil {
		return nil, within("query", err)
	}
	return &statsOutput[T]{CacheControl: "private, no-cache", Body: body}, nil
}

func newTableOutput[T table](format string, body T, err error) (*statsOutput[tabular[T]], error) {
	return newStatsOutput(tabular[T]{value: body, asCSV: format == "csv"}, err)
}
