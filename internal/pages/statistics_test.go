package pages_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/pages"
	sites "github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// shop is one site, whose statistics count what is asked of them.
type shop struct {
	pages.Sites
	site    sites.Site
	asked   []string
	compare bool
	query   stats.Query // of the last breakdown
	rows    map[stats.Dimension]stats.List[stats.Row]
	erased  uuid.UUID
}

func (s *shop) Find(_ context.Context, id uuid.UUID) (sites.Site, error) {
	if id != s.site.ID {
		return sites.Site{}, sites.ErrNoSite
	}
	return s.site, nil
}

func (s *shop) DeleteSite(_ context.Context, id uuid.UUID) error {
	s.erased = id
	return nil
}

func (s *shop) Summary(_ context.Context, q stats.Query) (stats.Summary, error) {
	s.asked, s.compare = append(s.asked, "summary"), q.Compare
	if _, err := time.Parse(time.DateOnly, q.From); err != nil && q.Period == "" {
		return stats.Summary{}, fault.Validation(map[string]string{"from": "Must be a date."})
	}
	return stats.Summary{}, nil
}

func (s *shop) Timeseries(context.Context, stats.Query, calendar.Granularity) (stats.Timeseries, error) {
	s.asked = append(s.asked, "timeseries")
	return stats.Timeseries{}, nil
}

func (s *shop) Breakdowns(_ context.Context, q stats.Query, _ ...stats.Dimension) (map[stats.Dimension]stats.List[stats.Row], error) {
	s.asked, s.query = append(s.asked, "breakdowns"), q
	return s.rows, nil
}

func (s *shop) CustomEvents(context.Context, stats.Query, string) (stats.CustomEvents, error) {
	s.asked = append(s.asked, "events")
	return stats.CustomEvents{}, nil
}

func (s *shop) Of(_ context.Context, _ uuid.UUID, own *int) (stats.RawData, error) {
	return stats.RawData{Months: 24, FromSite: own != nil, FirstDay: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)}, nil
}

func (s *shop) Realtime(context.Context, stats.Query) (int64, error) {
	s.asked = append(s.asked, "realtime")
	return 1234, nil
}

func TestTheStatisticsPageAsksOftenForWhatIsCheapAlone(t *testing.T) {
	t.Parallel()
	s := &shop{site: sites.Site{ID: uuid.New(), Name: "Shop", Domain: "shop.example", Zone: time.UTC}}
	o := newArchive(t, pages.StatisticsPages(s, s, s, s, baseURL, func() time.Time { return time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC) }))
	path := "/stats/" + s.site.ID.String()
	a := o.ask(t, "GET", path, nil)
	a.says(t, "now", `data-hx-get="/admin`+path+`/realtime" data-hx-trigger="every 5s"`, `data-hx-trigger="every 9s"`, ">1,234</span>")
	s.asked = nil
	a = o.ask(t, "GET", path+"/realtime", nil)
	if a.wants(t, "realtime", 200, "1,234"); a.body != "1,234" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%v %q", a.header, a.body)
	}
	if diff := cmp.Diff([]string{"realtime"}, s.asked); diff != "" {
		t.Error(diff)
	}
	// What is over doesn't change, so nothing is asked for again.
	o.ask(t, "GET", path+"?from=2026-01-01&to=2026-05-30", nil).says(t, "the past", "-assets/htmx", `value="2026-05-30"`)
	o.ask(t, "GET", path+"?from=2026-01-01&to=2026-05-31", nil).says(t, "until today", "assets/htmx", "every 9s")
	a = o.ask(t, "GET", path+"?from=never&to=2026-05-30&f.path=%2Fhome", nil)
	a.wants(t, "a bad range", 422, "Must be a date.")
	a.says(t, "a bad range", `value="never" aria-invalid="true"`, "path is /home")
	if o.ask(t, "GET", path+"?compare=none", nil); s.compare {
		t.Error("compares although it is told not to")
	}
	if o.ask(t, "GET", path, nil); !s.compare {
		t.Error("doesn't compare")
	}
	o.ask(t, "GET", "/stats/"+uuid.NewString(), nil).wants(t, "no site", 404, "")
}

func TestTheStatisticsPageLeadsToPeriodsAndToEveryRow(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	v := stats.Visits{Sessions: 4, BounceRate: 0.25, AvgDuration: 61, ViewsPerVisit: 1.5}
	s := &shop{site: sites.Site{ID: uuid.New(), Name: "Shop", Domain: "shop.example", Zone: zone}}
	s.rows = map[stats.Dimension]stats.List[stats.Row]{stats.BySource: {Total: 60, Rows: []stats.Row{
		{Label: stats.Unlabelled, Visitors: 7, Pageviews: 9, Visits: &v}, {Label: "news.example", Visitors: 3, Pageviews: 4, Visits: &v},
	}}}
	o := newArchive(t, pages.StatisticsPages(s, s, s, s, baseURL, func() time.Time { return time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC) }))
	path := "/stats/" + s.site.ID.String()
	a := o.ask(t, "GET", path+"?period=7d&empty=1&f.country=PT", nil)
	a.says(t, "the page", "times in Europe/Berlin", "Direct (none)", `aria-current="page">7 days`, "All 60 in a table", "&period=12mo",
		`/rows?empty=1&f.country=PT&of=source&period=7d"`, `name="period" value="7d"`, "Hide visits without a label")
	if s.query.Period != calendar.Last7Days || !s.query.Empty || s.query.Visits {
		t.Errorf("asked for %+v", s.query)
	}
	o.ask(t, "GET", path+"?from=2026-01-01&to=2026-01-31&period=7d", nil)
	if s.query.Period != "" || s.query.From != "2026-01-01" {
		t.Errorf("dates beside a period: asked for %+v", s.query)
	}
	a = o.ask(t, "GET", path+"/rows?of=source&offset=25&metrics=1&f.country=PT", nil)
	a.says(t, "the rows", "Sources of Shop", "60 in all", "offset=50", ">First page</a>", "25 %", "1m1s", "1.50", "country is PT", "f.source=news.example")
	if s.query.Offset != 25 || s.query.Limit != 25 || !s.query.Visits || s.query.Period != calendar.Last30Days {
		t.Errorf("asked for %+v", s.query)
	}
	o.ask(t, "GET", path+"/rows?of=event", nil).says(t, "events", "Events of Shop")
	o.ask(t, "GET", path+"/rows?of=page&metrics=1", nil).says(t, "pages", "Pages of Shop")
	for _, bad := range []string{"-1", "10001", "x", ""} {
		o.ask(t, "GET", path+"/rows?of=source&offset="+bad, nil).wants(t, "offset "+bad, 422, "from the 1st")
	}
	o.ask(t, "GET", path+"/rows?of=moon", nil).wants(t, "no such list", 404, "")
	csv := o.ask(t, "GET", path+"/csv?period=all&metrics=1&empty=1", nil)
	want := "by,label,visitors,pageviews,sessions,bounce_rate,avg_duration,views_per_visit\r\nsource,(none),7,9,4,0.25,61,1.5\r\nsource,news.example,3,4,4,0.25,61,1.5\r\n"
	if csv.body != want || s.query.Period != calendar.AllTime || s.query.Limit != 10_000 {
		t.Errorf("%q, asked for %+v", csv.body, s.query)
	}
}

func TestASiteIsDeletedAfterAQuestionAlone(t *testing.T) {
	t.Parallel()
	s := &shop{site: sites.Site{ID: uuid.New(), Name: "Shop", Zone: time.UTC}}
	o := newArchive(t, pages.StatisticsPages(s, s, s, s, baseURL, time.Now))
	path := "/sites/" + s.site.ID.String() + "/delete"
	o.ask(t, "GET", path, nil).wants(t, "asked", 200, "all of its statistics are erased")
	if s.erased != uuid.Nil {
		t.Fatal("it was deleted by the question")
	}
	a := o.ask(t, "POST", path, url.Values{})
	if a.status != 303 || !strings.HasPrefix(a.header.Get("Location"), "/admin/stats") || s.erased != s.site.ID {
		t.Errorf("%d %v %s", a.status, a.header, s.erased)
	}
}
