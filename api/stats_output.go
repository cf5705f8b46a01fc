package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/stats"
)

// siteTimezoneHeader is on every answer about a site.
const siteTimezoneHeader = "X-Site-Timezone"

// siteAnswersKey holds in an operation's metadata the statuses of answers about a site.
const siteAnswersKey = "waypost.site-answers"

// describeSite documents what answers about a site have.
func describeSite(op *huma.Operation, status string, r *huma.Response) {
	statuses, _ := op.Metadata[siteAnswersKey].([]int)
	if n, err := strconv.Atoi(status); err == nil && slices.Contains(statuses, n) {
		r.Headers[siteTimezoneHeader] = headerReference(siteTimezoneHeader)
	}
}

// statsOutput has a bare body, as the specification of these operations says.
type statsOutput[T any] struct {
	CacheControl string `header:"Cache-Control" doc:"A copy is for you alone, and must be checked before each use." example:"private, no-cache"`
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

// statsListOutput is that of answers with lists of rows, of which there may be more.
type statsListOutput[T any] struct {
	CacheControl string `header:"Cache-Control" doc:"A copy is for you alone, and must be checked before each use." example:"private, no-cache"`
	TotalCount   int64  `header:"X-Total-Count" minimum:"0" example:"214" doc:"How many rows the longest list has, whatever the limit."`
	Link         string `header:"Link" example:"<https://waypost.example/api/stats/pages?offset=50>; rel=\"next\"" doc:"Where the next rows are (RFC 8288), if there are more and the offset may be as large."`
	Body         T
}

// maxOffset is the largest offset that is taken.
const maxOffset = 10_000

// newStatsListOutput answers what was asked with body, whose longest list has total rows.
func newStatsListOutput[T any](a statsAPI, q stats.Query, asked url.URL, body T, total int64, err error) (*statsListOutput[T], error) {
	if err != nil {
		return nil, within("query", err)
	}
	out := &statsListOutput[T]{CacheControl: "private, no-cache", TotalCount: total, Body: body}
	if next := q.Offset + q.Limit; int64(next) < total && next <= maxOffset {
		out.Link = nextPage(a.OpenAPI().Servers[0].URL, asked, "offset", strconv.Itoa(next))
	}
	return out, nil
}

// longest is how many rows the longest list has.
func longest(lists map[stats.Dimension]stats.List[stats.Row]) int64 {
	var most int64
	for _, l := range lists {
		most = max(most, l.Total)
	}
	return most
}

// registerStatsReport adds the one operation that answers several.
func registerStatsReport(a statsAPI, s StatsService) {
	// GET /api/stats/report
	registerStatistic(a, statistic{"report", "Get several statistics at once",
		"Answers the `questions`, named as the operations are, in an object by these names. All answers are from one snapshot, so that they fit together. " +
			"Every parameter is given once and concerns the answers that it has a meaning for."},
		reportOf(a, s))
	for _, path := range []string{"/api/stats/report", "/api/admin/sites/{id}/stats/report"} {
		a.OpenAPI().Paths[path].Get.Responses[strconv.Itoa(http.StatusOK)].Content["application/json"].Example = reportExample
	}
}

// reportExample is what questions=summary,realtime gets.
var reportExample = map[string]any{
	"summary": map[string]any{
		"pageviews": 3920, "visitors": 1467, "sessions": 2277, "bounce_rate": 0.705, "avg_duration": 241.3, "views_per_visit": 1.72,
	},
	"realtime": map[string]any{"visitors": 4, "window_seconds": 300},
}
