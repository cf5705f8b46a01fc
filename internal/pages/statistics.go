package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// Statistics answers questions about a site's traffic.
type Statistics interface {
	Summary(ctx context.Context, q stats.Query) (stats.Summary, error)
	Timeseries(ctx context.Context, q stats.Query, g calendar.Granularity) (stats.Timeseries, error)
	Breakdowns(ctx context.Context, q stats.Query, dimensions ...stats.Dimension) (map[stats.Dimension]stats.List[stats.Row], error)
	CustomEvents(ctx context.Context, q stats.Query, name string) (stats.CustomEvents, error)
	Realtime(ctx context.Context, q stats.Query) (int64, error)
}

// Sites are the sites and their keys.
type Sites interface {
	List(ctx context.Context, before uuid.UUID, limit int) ([]site.Site, error)
	Find(ctx context.Context, id uuid.UUID) (site.Site, error)
	CreateWith(ctx context.Context, name, domain, timezone string, retentionMonths *int) (site.Site, error)
	Update(ctx context.Context, id uuid.UUID, c site.Change) (site.Site, error)
	ListKeysBefore(ctx context.Context, siteID, before uuid.UUID, limit int) ([]site.Key, error)
	CreateKey(ctx context.Context, siteID uuid.UUID, name string, scope site.Scope) (site.Key, string, error)
	RotateKey(ctx context.Context, siteID, keyID uuid.UUID, grace time.Duration) (site.Key, string, error)
	RevokeKey(ctx context.Context, siteID, keyID uuid.UUID) (site.Key, error)
}

// SiteEraser deletes a site with its statistics; see api.SiteEraser.
type SiteEraser interface {
	DeleteSite(ctx context.Context, id uuid.UUID) error
}

// SiteRetention says what is kept of a site's single visits; own is the site's own
// retention.
type SiteRetention interface {
	Of(ctx context.Context, siteID uuid.UUID, own *int) (stats.RawData, error)
}

// StatisticsPages are the pages of a site's traffic, of sites and of their keys. base is
// the service's own URL, now the clock.
func StatisticsPages(s Statistics, sites Sites, eraser SiteEraser, kept SiteRetention, base string, now func() time.Time) Section {
	p := statisticsPages{s, sites, eraser, kept, base, now}
	return Section{Label: "Statistics", Screens: append([]Screen{
		{Path: "/stats", Title: "Statistics", View: "listed", Read: p.pick},
		{Path: "/stats/{id}", View: "statistics", Live: true, Every: 9 * time.Second, Read: p.show},
		{Path: "/stats/{id}/rows", View: "labels", Read: p.showRows},
		{Path: "/stats/{id}/realtime", Serve: p.realtime},
		{Path: "/stats/{id}/csv", Serve: p.csv},
	}, sitePages{p}.screens()...)}
}

type statisticsPages struct {
	s      Statistics
	sites  Sites
	eraser SiteEraser
	kept   SiteRetention
	base   string
	now    func() time.Time
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
	return listed{Tabs: siteTabs.at("Sites"), Table: t}, nil
}

var siteTabs = tabs{{"Sites", DeskPath + "/stats"}, {"New site", DeskPath + "/sites/new"}}

func statsPath(id uuid.UUID) string { return DeskPath + "/stats/" + id.String() }
func sitePath(id uuid.UUID) string  { return DeskPath + "/sites/" + id.String() }

// statisticsPage is a site's traffic.
type statisticsPage struct {
	Site     site.Site
	Periods  []tab
	Filter   Filter
	Chosen   []chosen
	Headline []headline
	Chart    Chart
	Realtime int64
	Parts    []part
	CSV      string
	Settings string
	// Empty leads to the same page with the rows of visits without a label, or without.
	Empty Toggle
	// Now is where Realtime is had alone, which is cheaper than the page.
	Now string
	// past says that nothing of now is in the range.
	past bool
}

// settled implements settled.
func (p statisticsPage) settled() bool { return p.past }

// forms implements formed.
func (p statisticsPage) forms() []Form { return p.Filter.forms() }

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
	// All is where all rows are. Total is how many there are.
	All   string
	Total int64
}

// Toggle is a link that shows more of a page, or less.
type Toggle struct{ Label, Href string }

// share is a label's part of the traffic, out of Most.
type share struct {
	Label, Href, Count string
	Visitors, Most     int64
}

// breakdown is one dimension's part; filter is what a click narrows to.
type breakdown struct {
	title     string
	dimension stats.Dimension
	filter    stats.Filter
}

// breakdowns are the parts, in their order.
var breakdowns = []breakdown{
	{"Pages", stats.ByPage, stats.FilterPath}, {"Sources", stats.BySource, stats.FilterSource}, {"Countries", stats.ByCountry, stats.FilterCountry},
	{"Entry pages", stats.ByEntry, stats.FilterEntry}, {"Exit pages", stats.ByExit, stats.FilterExit}, {"Devices", stats.ByDevice, stats.FilterDevice},
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
	given := r.URL.Query()
	q := stats.Query{SiteID: s.ID, Zones: calendar.ZonesOf(s), Limit: topRows, Compare: given.Get("compare") != "none", Empty: given.Has("empty")}
	if given.Get("from") != "" || given.Get("to") != "" {
		q.From, q.To = given.Get("from"), given.Get("to")
	} else {
		q.Period = cmp.Or(calendar.Period(given.Get("period")), calendar.Last30Days)
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

func (p statisticsPages) show(r *http.Request) (any, error) {
	s, q, err := p.question(r)
	if err != nil {
		return nil, err
	}
	view := statisticsPage{
		Site: s, CSV: address(statsPath(s.ID)+"/csv", r.URL.Query()), Settings: sitePath(s.ID), Now: statsPath(s.ID) + "/realtime",
		past: len(q.To) == len(time.DateOnly) && q.To < p.now().In(s.Zone).Format(time.DateOnly),
	}
	by := Field{Name: "by", Label: "By", Kind: "select", Options: []Option{{"", "What fits"}, {"hour", "Hour"}, {"day", "Day"}, {"week", "Week"}, {"month", "Month"}}}
	compare := Field{Name: "compare", Label: "Compare with", Kind: "select", Options: []Option{{"", "Period before"}, {"none", "Nothing"}}}
	view.Periods, view.Empty = periodTabs(r, q), emptyToggle(r)
	view.Filter = filterOf(r, by, Field{Name: "from", Label: "From", Kind: "date"}, Field{Name: "to", Label: "To", Kind: "date"}, compare)
	if q.Period != "" {
		view.Filter.keep(r, "period")
	}
	view.Filter.keep(r, "empty")
	view.Chosen = p.chosenOf(r, q)
	for _, c := range view.Chosen {
		view.Filter.Kept = append(view.Filter.Kept, Option{"f." + c.Name, c.Value})
	}
	return view, p.fill(r, &view, q)
}

// chosenOf are the filters that are on.
func (p statisticsPages) chosenOf(r *http.Request, q stats.Query) []chosen {
	var list []chosen
	for _, f := range stats.AllFilters() {
		for _, v := range q.Filters[f] {
			list = append(list, chosen{string(f), v, without(r, "f."+string(f), v)})
		}
	}
	return list
}

// realtime is how many visitors there are now, as text.
func (p statisticsPages) realtime(w http.ResponseWriter, r *http.Request) error {
	_, q, err := p.question(r)
	if err != nil {
		return err
	}
	n, err := p.s.Realtime(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(grouped(n))) // the client is gone when this fails
	return nil
}

// fill asks for the numbers.
func (p statisticsPages) fill(r *http.Request, view *statisticsPage, q stats.Query) error {
	summary, err := p.s.Summary(r.Context(), q)
	if err != nil {
		return err
	}
	view.Headline = headlines(summary)
	series, err := p.s.Timeseries(r.Context(), q, calendar.Granularity(r.URL.Query().Get("by")))
	if err != nil {
		return err
	}
	view.Chart = trafficChart(series)
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
		list := found[b.dimension]
		part := part{Title: b.title, Empty: "Nothing in this range.", Total: list.Total}
		for _, row := range list.Rows {
			share := share{Label: labelOf(b.dimension, row.Label, q.Empty), Visitors: row.Visitors, Most: list.Rows[0].Visitors, Count: grouped(row.Visitors)}
			if b.filter != "" {
				share.Href = added(r, "f."+string(b.filter), stats.Exactly(row.Label, q.Empty))
			}
			part.Rows = append(part.Rows, share)
		}
		part.All = allRows(r, string(b.dimension))
		view.Parts = append(view.Parts, part)
	}
	events, err := p.s.CustomEvents(r.Context(), q, "")
	if err != nil {
		return err
	}
	own := part{Title: "Events", Empty: "No events of your own in this range.", Total: events.Total, All: allRows(r, eventRows)}
	for _, e := range events.Events {
		own.Rows = append(own.Rows, share{Label: e.Name, Href: added(r, "f.event", stats.Exactly(e.Name, false)), Visitors: e.Count, Most: events.Events[0].Count, Count: grouped(e.Count)})
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
	q.Del("offset")
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

func trafficChart(s stats.Timeseries) Chart {
	layout := map[calendar.Granularity]string{calendar.ByHour: "2 Jan 15:04", calendar.ByMonth: "Jan 2006"}[s.Granularity]
	if layout == "" {
		layout = "2 Jan 2006"
	}
	c := Chart{Title: "Visitors and pageviews by " + string(s.Granularity), Series: []Series{{Label: "Visitors", Tone: "main"}, {Label: "Pageviews", Tone: "quiet"}}}
	for _, b := range s.Buckets {
		c.At = append(c.At, b.Start.Format(layout))
		c.Series[0].Values = append(c.Series[0].Values, float64(b.Visitors))
		c.Series[1].Values = append(c.Series[1].Values, float64(b.Pageviews))
	}
	return lineChart(c)
}
