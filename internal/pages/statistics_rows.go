package pages

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// eventRows names the list of custom events, beside the dimensions.
const eventRows = "event"

// maxRowOffset is the last position from which rows are shown.
const maxRowOffset = 10_000

// periodNames are what the page calls the periods, in their order.
var periodNames = []struct {
	period calendar.Period
	label  string
}{
	{calendar.Today, "Today"}, {calendar.Yesterday, "Yesterday"}, {calendar.Last7Days, "7 days"}, {calendar.Last30Days, "30 days"}, {calendar.Last90Days, "90 days"},
	{calendar.Last12, "12 months"}, {calendar.ThisMonth, "This month"}, {calendar.ThisYear, "This year"}, {calendar.AllTime, "All time"},
}

// periodTabs lead to the same page about another period.
func periodTabs(r *http.Request, q stats.Query) []tab {
	var list []tab
	for _, p := range periodNames {
		given := r.URL.Query()
		for _, name := range []string{"from", "to", "offset"} {
			given.Del(name)
		}
		given.Set("period", string(p.period))
		list = append(list, tab{Label: p.label, Href: address(r.URL.Path, given), Current: p.period == q.Period})
	}
	return list
}

// emptyToggle shows or hides the rows of visits without a label.
func emptyToggle(r *http.Request) Toggle {
	return toggle(r, "empty", "Show direct visits, and others without a label", "Hide visits without a label")
}

func toggle(r *http.Request, name, show, hide string) Toggle {
	if r.URL.Query().Has(name) {
		return Toggle{hide, with(r, name, "")}
	}
	return Toggle{show, with(r, name, "1")}
}

// labelOf is a row's label as people read it.
func labelOf(d stats.Dimension, label string, withEmpty bool) string {
	if withEmpty && label == stats.Unlabelled && d == stats.BySource {
		return "Direct (none)"
	}
	return label
}

// allRows is where all rows of a list are.
func allRows(r *http.Request, of string) string {
	q := r.URL.Query()
	q.Set("of", of)
	return address(r.URL.Path+"/rows", q)
}

// labelsPage is all rows of one breakdown.
type labelsPage struct {
	Site    site.Site
	Title   string
	Back    Toggle
	Periods []tab
	Chosen  []chosen
	Toggles []Toggle
	Table   Table
}

// PageTitle says of what and of whom they are.
func (p labelsPage) PageTitle() string { return p.Title + " of " + p.Site.Name }

// showRows shows a list from an offset on.
func (p statisticsPages) showRows(r *http.Request) (any, error) {
	s, q, err := p.question(r)
	if err != nil {
		return nil, err
	}
	given := r.URL.Query()
	if given.Has("offset") {
		if q.Offset, err = strconv.Atoi(given.Get("offset")); err != nil || q.Offset < 0 || q.Offset > maxRowOffset {
			return nil, fault.New(fault.Invalid, fault.CodeValidation, "Rows are shown from the 1st to the 10,000th on.")
		}
	}
	q.Limit, q.Compare, q.Visits = pageRows, false, given.Has("metrics")
	view := labelsPage{Site: s, Periods: periodTabs(r, q), Chosen: p.chosenOf(r, q)}
	back := r.URL.Query()
	for _, name := range []string{"of", "offset", "metrics"} {
		back.Del(name)
	}
	view.Back = Toggle{"Everything about " + s.Name, address(statsPath(s.ID), back)}
	of := given.Get("of")
	if of == eventRows {
		view.Title = "Events"
		err = p.fillEvents(r, &view, q)
		return view, err
	}
	i := slices.IndexFunc(breakdowns, func(b breakdown) bool { return string(b.dimension) == of })
	if i < 0 {
		return nil, errNoPage
	}
	view.Title = breakdowns[i].title
	if breakdowns[i].dimension != stats.ByPage {
		view.Toggles = []Toggle{
			toggle(r, "metrics", "Show visits, bounce rate and duration", "Hide visits, bounce rate and duration"), emptyToggle(r),
		}
	}
	return view, p.fillRows(r, &view, q, breakdowns[i])
}

func (p statisticsPages) fillRows(r *http.Request, view *labelsPage, q stats.Query, b breakdown) error {
	found, err := p.s.Breakdowns(r.Context(), q, b.dimension)
	if err != nil {
		return err
	}
	list := found[b.dimension]
	view.Table = Table{
		Caption: b.title, Total: &list.Total, Empty: Empty{Title: "Nothing in this range"},
		Columns: []Column{{Label: "Label", Wide: true}, {Label: "Visitors", Number: true}, {Label: "Pageviews", Number: true}},
	}
	withVisits := q.Visits && b.dimension != stats.ByPage
	if withVisits {
		for _, label := range []string{"Visits", "Bounce rate", "Duration", "Views per visit"} {
			view.Table.Columns = append(view.Table.Columns, Column{Label: label, Number: true})
		}
	}
	for _, row := range list.Rows {
		var label any = labelOf(b.dimension, row.Label, q.Empty)
		if b.filter != "" {
			narrowed := r.URL.Query()
			for _, name := range []string{"of", "offset", "metrics"} {
				narrowed.Del(name)
			}
			narrowed.Set("f."+string(b.filter), stats.Exactly(row.Label, q.Empty))
			label = Link{Text: labelOf(b.dimension, row.Label, q.Empty), Href: address(statsPath(view.Site.ID), narrowed)}
		}
		cells := []any{label, row.Visitors, row.Pageviews}
		if v := row.Visits; withVisits && v != nil {
			cells = append(cells, v.Sessions, fmt.Sprintf("%.0f %%", v.BounceRate*100),
				time.Duration(v.AvgDuration*float64(time.Second)).Round(time.Second).String(), strconv.FormatFloat(v.ViewsPerVisit, 'f', 2, 64))
		}
		view.Table.Rows = append(view.Table.Rows, Row{Cells: cells})
	}
	turn(&view.Table, r, q, list.Total)
	return nil
}

func (p statisticsPages) fillEvents(r *http.Request, view *labelsPage, q stats.Query) error {
	events, err := p.s.CustomEvents(r.Context(), q, "")
	if err != nil {
		return err
	}
	view.Table = Table{
		Caption: "Events", Total: &events.Total, Empty: Empty{Title: "No events of your own in this range"},
		Columns: []Column{{Label: "Name", Wide: true}, {Label: "Count", Number: true}, {Label: "Visitors", Number: true}},
	}
	for _, e := range events.Events {
		view.Table.Rows = append(view.Table.Rows, Row{Cells: []any{e.Name, e.Count, e.Visitors}})
	}
	turn(&view.Table, r, q, events.Total)
	return nil
}

// turn leads from a page of rows to the next, and back to the first.
func turn(t *Table, r *http.Request, q stats.Query, total int64) {
	if q.Offset > 0 {
		t.First = with(r, "offset", "")
	}
	if next := q.Offset + q.Limit; int64(next) < total && next <= maxRowOffset {
		t.Next = with(r, "offset", strconv.Itoa(next))
	}
}
