package api

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// csvType is the media type of tables. Clients ask by format=csv, never by their
// Accept header, so it is not one that Huma negotiates: those have no parameters.
const csvType = "text/csv; charset=utf-8"

// table is an answer that can also be shown in rows; the first names the columns.
type table interface {
	rows() [][]string
}

// tabular is an answer as JSON or, when the client asked for that, as CSV.
type tabular[T table] struct {
	value T
	asCSV bool
}

// Schema implements huma.SchemaProvider: that of the answer as JSON.
func (tabular[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// MarshalJSON implements json.Marshaler.
func (t tabular[T]) MarshalJSON() ([]byte, error) { return json.Marshal(t.value) }

// ContentType implements huma.ContentTypeFilter.
func (t tabular[T]) ContentType(negotiated string) string {
	if t.asCSV {
		return csvType
	}
	return negotiated
}

func (t tabular[T]) rows() [][]string { return t.value.rows() }

// csvFormat writes tables as RFC 4180 has it.
func csvFormat() huma.Format {
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			t, ok := v.(table)
			if !ok {
				return errors.New("api: no table")
			}
			out := csv.NewWriter(w)
			out.UseCRLF = true
			return out.WriteAll(t.rows())
		},
		Unmarshal: func([]byte, any) error { return errNotJSON },
	}
}

// guarded keeps a spreadsheet from taking a label for a formula (OWASP, "CSV
// Injection"): anybody can send a site labels.
func guarded(label string) string {
	if label != "" && strings.ContainsRune("=+-@\t\r", rune(label[0])) {
		return "'" + label
	}
	return label
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (t statsTimeseries) rows() [][]string {
	out := [][]string{append([]string{"period", "ts", "pageviews", "visitors"}, visitColumns(t.metrics)...)}
	for _, part := range []struct {
		name    string
		buckets []statsBucket
	}{{"current", t.Buckets}, {"previous", t.Previous}} {
		for _, b := range part.buckets {
			row := []string{part.name, b.TS.Format(time.RFC3339), number(b.Pageviews), number(b.Visitors)}
			out = append(out, append(row, b.cells(t.metrics)...))
		}
	}
	return out
}

// namedRows is one list of a breakdown.
type namedRows struct {
	name string
	rows []statsRow
}

func breakdownRows(metrics []string, lists ...namedRows) [][]string {
	out := [][]string{append([]string{"list", "label", "visitors", "pageviews"}, visitColumns(metrics)...)}
	for _, l := range lists {
		for _, r := range l.rows {
			row := []string{l.name, guarded(r.Label), number(r.Visitors), number(r.Pageviews)}
			out = append(out, append(row, r.cells(metrics)...))
		}
	}
	return out
}

// visitColumns are the metrics that were asked for, in their order.
func visitColumns(metrics []string) []string {
	var columns []string
	for _, name := range statsMetrics {
		if slices.Contains(metrics, name) {
			columns = append(columns, name)
		}
	}
	return columns
}

// cells has one for each of visitColumns, empty in rows that are not of sessions.
func (v StatsVisits) cells(metrics []string) []string {
	var cells []string
	for _, name := range visitColumns(metrics) {
		value := map[string]*float64{"bounce_rate": v.BounceRate, "avg_duration": v.AvgDuration, "views_per_visit": v.ViewsPerVisit}[name]
		switch {
		case name == "sessions" && v.Sessions != nil:
			cells = append(cells, number(*v.Sessions))
		case value != nil:
			cells = append(cells, strconv.FormatFloat(*value, 'f', -1, 64))
		default:
			cells = append(cells, "")
		}
	}
	return cells
}

func (p statsPages) rows() [][]string {
	return breakdownRows(p.metrics, namedRows{"top", p.Top}, namedRows{"entry", p.Entry}, namedRows{"exit", p.Exit})
}

func (r statsReferrers) rows() [][]string {
	return breakdownRows(r.metrics, namedRows{"source", r.Sources}, namedRows{"utm_source", r.UTM.Source}, namedRows{"utm_medium", r.UTM.Medium},
		namedRows{"utm_campaign", r.UTM.Campaign}, namedRows{"utm_term", r.UTM.Term}, namedRows{"utm_content", r.UTM.Content})
}

func (g statsGeo) rows() [][]string {
	return breakdownRows(g.metrics, namedRows{"country", g.Countries})
}

func (t statsTech) rows() [][]string {
	return breakdownRows(t.metrics, namedRows{"device", t.Devices}, namedRows{"browser", t.Browsers}, namedRows{"os", t.OS})
}

func (e statsEvents) rows() [][]string {
	out := [][]string{{"list", "name", "value", "count", "visitors"}}
	for _, c := range e.Events {
		out = append(out, []string{"event", guarded(c.Name), "", number(c.Count), number(c.Visitors)})
	}
	if e.Props != nil {
		for _, p := range *e.Props {
			out = append(out, []string{"prop", guarded(p.Key), guarded(p.Value), number(p.Count), ""})
		}
	}
	return out
}

// describeTables documents CSV beside the JSON of the operations that have it.
func describeTables(a huma.API) {
	for name, example := range map[string]string{
		"timeseries": "period,ts,pageviews,visitors\r\ncurrent,2026-01-01T00:00:00+01:00,130,48\r\n",
		"pages":      "list,label,visitors,pageviews\r\ntop,/pricing,31,57\r\n",
		"referrers":  "list,label,visitors,pageviews\r\nsource,example.org,31,57\r\n",
		"geo":        "list,label,visitors,pageviews\r\ncountry,PT,31,57\r\n",
		"tech":       "list,label,visitors,pageviews\r\nbrowser,Firefox,31,57\r\n",
		"events":     "list,name,value,count,visitors\r\nevent,signup,,12,11\r\n",
	} {
		for _, prefix := range []string{"/api/stats/", "/api/admin/sites/{id}/stats/"} {
			op := a.OpenAPI().Paths[prefix+name].Get
			withholdFromTools(op, "format")
			op.Responses["200"].Content["text/csv"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
		}
	}
}
