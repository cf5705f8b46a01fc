package pages

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// Statistics answers questions about a site's traffic.
type Statistics interface {
	Summary(ctx context.Context, q stats.Query) (stats.Summary, error)
	Timeseries(ctx context.Context, q stats.Query, g stats.Granularity) (stats.Timeseries, error)
	Breakdowns(ctx context.Context, q stats.Query, dimensions ...stats.Dimension) (map[stats.Dimension][]stats.Row, error)
	CustomEvents(ctx context.Context, q stats.Query, name string) (stats.CustomEvents, error)
	Realtime(ctx context.Context, q stats.Query) (int64, error)
}

// Sites are the sites and their keys.
type Sites interface {
	List(ctx context.Context, before uuid.UUID, limit int) ([]site.Site, error)
	Find(ctx context.Context, id uuid.UUID) (site.Site, error)
	Create(ctx context.Context, name, domain, timezone string) (site.Site, error)
	Update(ctx context.Context, id uuid.UUID, c site.Change) (site.Site, error)
	ListKeysBefore(ctx context.Context, siteID, before uuid.UUID, limit int) ([]site.Key, error)
	CreateKey(ctx context.Context, siteID uuid.UUID, name string, scope site.Scope) (site.Key, string, error)
	RotateKey(ctx context.Context, siteID, keyID uuid.UUID, grace time.Duration) (site.Key, string, error)
	RevokeKey(ctx context.Context, siteID, keyID uuid.UUID) (site.Key, error)
}

// StatisticsPages are the pages of a site's traffic, of sites and of their keys. base is
// the service's own URL, now the clock.
func StatisticsPages(s Statistics, sites Sites, base string, now func() time.Time) Section {
	p := statisticsPages{s, sites, base, now}
	return Section{Label: "Statistics", Screens: append([]Screen{
		{Path: "/stats", Title: "Statistics", View: "listed", Read: p.pick},
		{Path: "/stats/{id}", View: "statistics", Live: true, Read: p.show},
		{Path: "/stats/{id}/csv", Serve: p.csv},
	}, sitePages{p}.screens()...)}
}

type statisticsPages struct {
	s     Statistics
	sites Sites
	base  string
	now   func() time.Time
}

type sitePosition struct {
	ID uuid.UUID `json:"i"`
}

// pick lists the sites.
func (p statisticsPages) pick(r *http.Request) (any, error) {
	var at sitePosition
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	list, err := p.sites.List(r.Context(), at.ID, pageRows+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Sites, newest first", Columns: []Column{{Label: "Site"}, {Label: "Time zone"}, {Label: "Site key"}, {Label: "Created"}, {Label: "Settings"}},
		Empty: Empty{Title: "No sites", Detail: "Make one, and put its script into your pages.", Label: "Make a site", Href: DeskPath + "/sites/new"},
	}
	rows(&t, r, list, func(s site.Site) Row {
		return Row{Cells: []any{
			Link{Text: s.Name, Href: statsPath(s.ID), Detail: s.Domain}, s.Zone.String(), Code(s.Key), s.CreatedAt, Link{Text: "Settings and keys", Href: sitePath(s.ID)},
		}}
	}, func(s site.Site) any { return sitePosition{s.ID} })
	return listed{Tabs: siteTabs("Sites"), Table: t}, nil
}

func siteTabs(current string) []tab {
	list := []tab{{Label: "Sites", Href: DeskPath + "/stats"}, {Label: "New site", Href: DeskPath + "/sites/new"}}
	for i := range list {
		list[i].Current = list[i].Label == current
	}
	return list
}

func statsPath(id uuid.UUID) string { return DeskPath + "/stats/" + id.String() }
func sitePath(id uuid.UUID) string  { return DeskPath + "/sites/" + id.String() }

// statisticsPage is a site's traffic.
type statisticsPage struct {
	Site     site.Site
	Filter   Filter
	Chosen   []chosen
	Headline []headline
	Chart    Chart
	Realtime int64
	Parts    []part
	CSV      string
	Settings string
}

// PageTitle is the site's name.
func (p statisticsPage) PageTitle() string { return p.Site.Name }

// chosen is a filter that is on, and where it is off.
type chosen struct{ Name, Value, Without string }

// headline is a number over the whole range, and how it changed.
type headline struct {
	Label, Value string
	Change       *Badge
}

// part is traffic broken down by one dimension.
type part struct {
	Title string
	Rows  []share
	Empty string
}

// share is a label's part of the traffic, out of Most.
type share struct {
	Label, Href, Count string
	Visitors, Most     int64
}

// breakdowns are the parts, in their order; filter is what a click narrows to.
var breakdowns = []struct {
	title     string
	dimension stats.Dimension
	filter    stats.Filter
}{
	{"Pages", stats.ByPage, stats.FilterPath}, {"Sources", stats.BySource, stats.FilterSource}, {"Countries", stats.ByCountry, stats.FilterCountry},
	{"Entry pages", stats.ByEntry, ""}, {"Exit pages", stats.ByExit, ""}, {"Devices", stats.ByDevice, stats.FilterDevice},
	{"Browsers", stats.ByBrowser, stats.FilterBrowser}, {"Systems", stats.ByOS, stats.FilterOS}, {"Campaigns", stats.ByUTMCampaign, stats.FilterUTMCampaign},
}

// topRows is how many rows each part shows.
const topRows = 9

// question reads what is asked of which site.
func (p statisticsPages) question(r *http.Request) (site.Site, stats.Query, error) {
	id, err := idIn(r, "id", site.ErrNoSite)
	if err != nil {
		return site.Site{}, stats.Query{}, err
	}
	s, err := p.sites.Find(r.Context(), id)
	if err != nil {
		return site.Site{}, stats.Query{}, err
	}
	q := stats.Query{SiteID: s.ID, Zone: s.Zone, Zones: s.Zones, Limit: topRows, Compare: true}
	given := r.URL.Query()
	q.From, q.To = p.rangeOf(given.Get("period"), s.Zone)
	if given.Get("from") != "" || given.Get("to") != "" {
		q.From, q.To = given.Get("from"), given.Get("to")
	}
	for _, f := range stats.AllFilters() {
		for _, v := range given["f."+string(f)] {
			if q.Filters == nil {
				q.Filters = stats.Filters{}
			}
			q.Filters[f] = append(q.Filters[f], v)
		}
	}
	return s, q, nil
}

// rangeOf are the first and the last day of a period, in the site's zone.
func (p statisticsPages) rangeOf(period string, zone *time.Location) (from, to string) {
	today := p.now().In(zone)
	first := today
	switch period {
	case "today":
	case "7d":
		first = today.AddDate(0, 0, -6)
	case "12mo":
		first = time.Date(today.Year(), today.Month()-11, 1, 0, 0, 0, 0, zone)
	default:
		first = today.AddDate(0, 0, -29)
	}
	return first.Format(time.DateOnly), today.Format(time.DateOnly)
}

func (p statisticsPages) show(r *http.Request) (any, error) {
	s, q, err := p.question(r)
	if err != nil {
		return nil, err
	}
	view := statisticsPage{Site: s, CSV: address(statsPath(s.ID)+"/csv", r.URL.Query()), Settings: sitePath(s.ID)}
	if err := p.fill(r, &view, q); err != nil {
		return nil, err
	}
	period := Field{Name: "period", Label: "Range", Kind: "select", Options: []Option{{"30d", "Last 30 days"}, {"today", "Today"}, {"7d", "Last 7 days"}, {"12mo", "12 months"}}}
	by := Field{Name: "by", Label: "By", Kind: "select", Options: []Option{{"", "What fits"}, {"hour", "Hour"}, {"day", "Day"}, {"week", "Week"}, {"month", "Month"}}}
	view.Filter = filterOf(r, period, by, Field{Name: "from", Label: "From", Kind: "date"}, Field{Name: "to", Label: "To", Kind: "date"})
	for _, f := range stats.AllFilters() {
		for _, v := range q.Filters[f] {
			view.Filter.Kept = append(view.Filter.Kept, Option{"f." + string(f), v})
			view.Chosen = append(view.Chosen, chosen{string(f), v, without(r, "f."+string(f), v)})
		}
	}
	return view, nil
}

// fill asks for the numbers.
func (p statisticsPages) fill(r *http.Request, view *statisticsPage, q stats.Query) error {
	summary, err := p.s.Summary(r.Context(), q)
	if err != nil {
		return err
	}
	view.Headline = headlines(summary)
	series, err := p.s.Timeseries(r.Context(), q, stats.Granularity(r.URL.Query().Get("by")))
	if err != nil {
		return err
	}
	view.Chart = trafficChart(series, q.Zone)
	if view.Realtime, err = p.s.Realtime(r.Context(), q); err != nil {
		return err
	}
	dimensions := make([]stats.Dimension, len(breakdowns))
	for i, b := range breakdowns {
		dimensions[i] = b.dimension
	}
	found, err := p.s.Breakdowns(r.Context(), q, dimensions...)
	if err != nil {
		return err
	}
	for _, b := range breakdowns {
		part := part{Title: b.title, Empty: "Nothing in this range."}
		for _, row := range found[b.dimension] {
			share := share{Label: row.Label, Visitors: row.Visitors, Most: found[b.dimension][0].Visitors, Count: grouped(row.Visitors)}
			if b.filter != "" {
				share.Href = added(r, "f."+string(b.filter), row.Label)
			}
			part.Rows = append(part.Rows, share)
		}
		view.Parts = append(view.Parts, part)
	}
	events, err := p.s.CustomEvents(r.Context(), q, "")
	if err != nil {
		return err
	}
	own := part{Title: "Events", Empty: "No events of your own in this range."}
	for _, e := range events.Events {
		own.Rows = append(own.Rows, share{Label: e.Name, Href: added(r, "f.event", e.Name), Visitors: e.Count, Most: events.Events[0].Count, Count: grouped(e.Count)})
	}
	view.Parts = append(view.Parts, own)
	return nil
}

// added is the address of the same page, narrowed once more.
func added(r *http.Request, name, value string) string {
	q := r.URL.Query()
	q.Set(name, value)
	return address(r.URL.Path, q)
}

// without is the address of the same page without one value.
func without(r *http.Request, name, value string) string {
	q := r.URL.Query()
	kept := []string{}
	for _, v := range q[name] {
		if v != value {
			kept = append(kept, v)
		}
	}
	q[name] = kept
	return address(r.URL.Path, q)
}

func headlines(s stats.Summary) []headline {
	list := []headline{{Label: "Visitors", Value: grouped(s.Visitors)}, {Label: "Pageviews", Value: grouped(s.Pageviews)}, {Label: "Visits", Value: grouped(s.Sessions)},
		{Label: "Views per visit", Value: strconv.FormatFloat(s.ViewsPerVisit, 'f', 2, 64)}, {Label: "Bounce rate", Value: fmt.Sprintf("%.0f %%", s.BounceRate*100)},
		{Label: "Visit duration", Value: time.Duration(s.AvgDuration * float64(time.Second)).Round(time.Second).String()},
	}
	if s.Change == nil {
		return list
	}
	for i, change := range []*float64{s.Change.Visitors, s.Change.Pageviews, s.Change.Sessions} {
		if change == nil {
			continue
		}
		tone := "good"
		if *change < 0 {
			tone = "bad"
		}
		list[i].Change = &Badge{fmt.Sprintf("%+.1f %%", *change), tone}
	}
	return list
}

func trafficChart(s stats.Timeseries, zone *time.Location) Chart {
	layout := map[stats.Granularity]string{stats.ByHour: "2 Jan 15:04", stats.ByMonth: "Jan 2006"}[s.Granularity]
	if layout == "" {
		layout = "2 Jan 2006"
	}
	c := Chart{Title: "Visitors and pageviews by " + string(s.Granularity), Series: []Series{{Label: "Visitors", Tone: "main"}, {Label: "Pageviews", Tone: "quiet"}}}
	for _, b := range s.Buckets {
		c.At = append(c.At, b.Start.In(zone).Format(layout))
		c.Series[0].Values = append(c.Series[0].Values, float64(b.Visitors))
		c.Series[1].Values = append(c.Series[1].Values, float64(b.Pageviews))
	}
	return lineChart(c)
}

// csv is everything that the page shows, in rows.
func (p statisticsPages) csv(w http.ResponseWriter, r *http.Request) error {
	s, q, err := p.question(r)
	if err != nil {
		return err
	}
	q.Limit = 1000
	dimensions := make([]stats.Dimension, len(breakdowns))
	for i, b := range breakdowns {
		dimensions[i] = b.dimension
	}
	found, err := p.s.Breakdowns(r.Context(), q, dimensions...)
	if err != nil {
		return err
	}
	series, err := p.s.Timeseries(r.Context(), q, stats.Granularity(r.URL.Query().Get("by")))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(s.Domain)+`.csv"`)
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write([]string{"by", "label", "visitors", "pageviews"})
	for _, b := range series.Buckets {
		_ = out.Write([]string{string(series.Granularity), b.Start.In(s.Zone).Format(time.RFC3339), strconv.FormatInt(b.Visitors, 10), strconv.FormatInt(b.Pageviews, 10)})
	}
	for _, b := range breakdowns {
		for _, row := range found[b.dimension] {
			_ = out.Write([]string{string(b.dimension), plain(row.Label), strconv.FormatInt(row.Visitors, 10), strconv.FormatInt(row.Pageviews, 10)})
		}
	}
	out.Flush() // the client is gone when this fails
	return nil
}

// plain keeps a spreadsheet from reading a label as a formula.
func plain(label string) string {
	if label != "" && strings.ContainsAny(label[:1], "=+-@\t\r") {
		return "'" + label
	}
	return label
}
