package api

import (
	"context"
	"slices"

	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// ReportInput is what a report takes.
type ReportInput struct {
	StatsInput
	Questions []string `query:"questions" required:"true" minItems:"1" enum:"summary,timeseries,pages,referrers,geo,tech,events,realtime" example:"summary,realtime" doc:"What to answer, separated by commas."`
	OffsetInput
	VisitsInput
	EmptyInput
	GranularityInput
	NameInput
}

// questions are what a report asks the service.
func (in *ReportInput) questions(ctx context.Context) stats.Questions {
	q := stats.Questions{Query: in.query(ctx), Granularity: calendar.Granularity(in.Granularity), EventName: in.Name}
	q.Offset, q.Visits, q.Empty = in.Offset, in.any(), in.Empty
	asks := func(name string) bool { return slices.Contains(in.Questions, name) }
	q.Summary, q.Timeseries, q.Events, q.Realtime = asks("summary"), asks("timeseries"), asks("events"), asks("realtime")
	for name, dimensions := range map[string][]stats.Dimension{
		"pages": pageDimensions, "referrers": referrerDimensions, "geo": geoDimensions, "tech": techDimensions,
	} {
		if asks(name) {
			q.Dimensions = append(q.Dimensions, dimensions...)
		}
	}
	return q
}

// statsReport has an answer to each question that was asked.
type statsReport struct {
	Summary    *statsSummary    `json:"summary,omitempty" doc:"As from GET .../summary, if asked for."`
	Timeseries *statsTimeseries `json:"timeseries,omitempty" doc:"As from GET .../timeseries, if asked for."`
	Pages      *statsPages      `json:"pages,omitempty" doc:"As from GET .../pages, if asked for."`
	Referrers  *statsReferrers  `json:"referrers,omitempty" doc:"As from GET .../referrers, if asked for."`
	Geo        *statsGeo        `json:"geo,omitempty" doc:"As from GET .../geo, if asked for."`
	Tech       *statsTech       `json:"tech,omitempty" doc:"As from GET .../tech, if asked for."`
	Events     *statsEvents     `json:"events,omitempty" doc:"As from GET .../events, if asked for."`
	Realtime   *statsRealtime   `json:"realtime,omitempty" doc:"As from GET .../realtime, if asked for."`
}

func newStatsReport(in *ReportInput, answers stats.Answers) statsReport {
	var out statsReport
	lists := statsLists{answers.Breakdowns, in.Metrics}
	for _, name := range in.Questions {
		switch name {
		case "summary":
			out.Summary = new(newStatsSummary(answers.Summary))
		case "timeseries":
			out.Timeseries = new(newStatsTimeseries(answers.Timeseries, in.Metrics))
		case "pages":
			out.Pages = new(newStatsPages(lists))
		case "referrers":
			out.Referrers = new(newStatsReferrers(lists))
		case "geo":
			out.Geo = new(newStatsGeo(lists))
		case "tech":
			out.Tech = new(newStatsTech(lists))
		case "events":
			out.Events = new(newStatsEvents(answers.Events))
		case "realtime":
			out.Realtime = new(newStatsRealtime(answers.Realtime))
		}
	}
	return out
}

// reportOf answers several questions at once.
func reportOf(a statsAPI, s StatsService) func(context.Context, *ReportInput) (*statsListOutput[statsReport], error) {
	return func(ctx context.Context, in *ReportInput) (*statsListOutput[statsReport], error) {
		q := in.questions(ctx)
		answers, err := s.Report(ctx, q)
		return newStatsListOutput(a, q.Query, in.asked, newStatsReport(in, answers), max(longest(answers.Breakdowns), answers.Events.Total), err)
	}
}
