package pages

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// csvRows is how many rows of each list a table has.
const csvRows = 10_000

// csv is everything that the page shows, in rows.
func (p statisticsPages) csv(w http.ResponseWriter, r *http.Request) error {
	s, q, err := p.question(r)
	if err != nil {
		return err
	}
	q.Limit, q.Visits = csvRows, r.URL.Query().Has("metrics")
	dimensions := make([]stats.Dimension, len(breakdowns))
	for i, b := range breakdowns {
		dimensions[i] = b.dimension
	}
	found, err := p.s.Breakdowns(r.Context(), q, dimensions...)
	if err != nil {
		return err
	}
	series, err := p.s.Timeseries(r.Context(), q, calendar.Granularity(r.URL.Query().Get("by")))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(s.Domain)+`.csv"`)
	out := csv.NewWriter(w)
	out.UseCRLF = true
	write := func(by, label string, visitors, pageviews int64, v *stats.Visits) {
		row := []string{by, label, strconv.FormatInt(visitors, 10), strconv.FormatInt(pageviews, 10)}
		if q.Visits {
			row = append(row, visitCells(v)...)
		}
		_ = out.Write(row)
	}
	head := []string{"by", "label", "visitors", "pageviews"}
	if q.Visits {
		head = append(head, "sessions", "bounce_rate", "avg_duration", "views_per_visit")
	}
	_ = out.Write(head)
	for _, b := range series.Buckets {
		write(string(series.Granularity), b.Start.Format(time.RFC3339), b.Visitors, b.Pageviews, b.Visits)
	}
	for _, b := range breakdowns {
		for _, row := range found[b.dimension].Rows {
			write(string(b.dimension), plain(row.Label), row.Visitors, row.Pageviews, row.Visits)
		}
	}
	out.Flush() // the client is gone when this fails
	return nil
}

// visitCells are empty for a row that is not of sessions.
func visitCells(v *stats.Visits) []string {
	if v == nil {
		return []string{"", "", "", ""}
	}
	decimal := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return []string{strconv.FormatInt(v.Sessions, 10), decimal(v.BounceRate), decimal(v.AvgDuration), decimal(v.ViewsPerVisit)}
}

// plain keeps a spreadsheet from reading a label as a formula.
func plain(label string) string {
	if label != "" && strings.ContainsAny(label[:1], "=+-@\t\r") {
		return "'" + label
	}
	return label
}
