package api

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// StatsInput is what every statistics operation takes. Those on which a
// parameter has no effect accept it all the same, and refuse the same values.
// It and the following are exported because Huma reads no parameters from an unexported
// embedded struct.
type StatsInput struct {
	From    boundText `query:"from" example:"2026-01-01" doc:"Start of the range: a date in the site's time zone, or an RFC 3339 timestamp (inclusive). Without from, to and period, the range is the last 30 days."`
	To      boundText `query:"to" example:"2026-01-31" doc:"End of the range: a date in the site's time zone (that whole day belongs to the range), or an RFC 3339 timestamp (exclusive). At most 10 years after from."`
	Period  string    `query:"period" enum:"today,yesterday,7d,30d,90d,12mo,month,year,all" doc:"A named range, instead of from and to. All but yesterday end now. 7d, 30d and 90d cover that many days of the site, today included; 12mo starts a year ago tomorrow; month and year start on their first day; all starts on the day of the first event. compare uses the preceding time of equal length."`
	Limit   int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The maximum number of rows in each list of a breakdown."`
	Compare string    `query:"compare" hidden:"true"`

	filters stats.Filters
	asked   url.URL
}

// boundText is an end of a range. The pattern is the description's: what breaks it gets
// better words from the calendar than from Huma.
type boundText string

// Schema implements huma.SchemaProvider.
func (boundText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"pattern": calendar.BoundForm}}
}

// TableInput is that of answers that come as a table as well.
type TableInput struct {
	StatsInput
	Format string `query:"format" enum:"json,csv" default:"json" doc:"csv returns the same rows as a table for spreadsheets."`
}

// OffsetInput is that of answers with lists of rows.
type OffsetInput struct {
	Offset int `query:"offset" minimum:"0" maximum:"10000" default:"0" doc:"How many rows of each list to skip. X-Total-Count is the length of the longest list; Link has the URL of the next rows."`
}

// VisitsInput is that of answers with numbers that sessions have.
type VisitsInput struct {
	Metrics []string `query:"metrics" enum:"sessions,bounce_rate,avg_duration,views_per_visit" doc:"Numbers to add, separated by commas. They are computed from sessions: the more sessions, the slower the answer."`
}

func (in VisitsInput) any() bool { return len(in.Metrics) > 0 }

// EmptyInput is that of answers with rows of sessions.
type EmptyInput struct {
	Empty bool `query:"empty" default:"false" doc:"true adds the row (none) for sessions without a label. A label that reads (none) itself is then written \\(none)."`
}

// GranularityInput is that of answers over time.
type GranularityInput struct {
	Granularity string `query:"granularity" enum:"hour,day,week,month" doc:"Width of a bucket. A range may have at most 10,000 buckets."`
}

// NameInput is that of answers about custom events.
type NameInput struct {
	Name string `query:"name" example:"signup" doc:"Also return the properties of this event."`
}

// BreakdownInput is that of breakdowns.
type BreakdownInput struct {
	TableInput
	OffsetInput
	VisitsInput
	EmptyInput
}

// Resolve refuses parameters that there are not, which a client may have misspelt, and
// those that are there but empty, which Huma takes for absent: neither should get the
// answer to another question.
func (in *StatsInput) Resolve(ctx huma.Context) []error {
	in.asked = ctx.URL()
	query := in.asked.Query()
	filters, errs := readFilters(query)
	in.filters = filters
	errs = append(errs, emptyParameters(query, "from", "to", "period", "limit", "offset", "metrics", "empty", "granularity", "format", "questions")...)
	return append(errs, unknownParameters(query, ctx.Operation())...)
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

// maxUnknown is how many unknown parameters an answer names.
const maxUnknown = 20

// unknownParameters names those that op doesn't have, each with the nearest that it has.
func unknownParameters(query url.Values, op *huma.Operation) []error {
	var known []string
	for _, p := range op.Parameters {
		switch {
		case p.Style == "deepObject":
			for member := range p.Schema.Properties {
				known = append(known, p.Name+"["+member+"]")
			}
		case p.In == "query":
			known = append(known, p.Name)
		}
	}
	slices.Sort(known)
	var errs []error
	for name := range query {
		if slices.Contains(known, name) || strings.HasPrefix(name, "filter[") { // see readFilters
			continue
		}
		if len(errs) == maxUnknown {
			break
		}
		errs = append(errs, &huma.ErrorDetail{Location: "query." + name, Message: "is not a parameter of this operation; the nearest is " + nearest(name, known)})
	}
	return errs
}

// nearest is the one of known that a misspelt name may mean.
func nearest(name string, known []string) string {
	const longest = 64 // bytes: what is longer is no typing error, and would take long
	name = strings.ToLower(name[:min(len(name), longest)])
	letters := func(s string) string { return string(slices.Sorted(slices.Values([]byte(s)))) }
	distance := func(to string) int {
		if letters(name) == letters(to) {
			return 1 // letters in another order are one mistake
		}
		return levenshtein.ComputeDistance(name, to)
	}
	return slices.MinFunc(known, func(a, b string) int { return distance(a) - distance(b) })
}

func (in *StatsInput) query(ctx context.Context) stats.Query {
	s := siteFrom(ctx)
	return stats.Query{SiteID: s.ID, Zones: calendar.ZonesOf(s), From: string(in.From), To: string(in.To), Period: calendar.Period(in.Period),
		Limit: in.Limit, Compare: in.Compare == "true", Filters: in.filters}
}
