package pages

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/fault"
)

// AI is the ledger of the AI gateway; see api.AILedger.
type AI interface {
	Usage(ctx context.Context, f aigateway.UsageFilter, total *int64) ([]aigateway.DayUsage, error)
	Days(ctx context.Context, f aigateway.UsageFilter) ([]aigateway.DayUsage, error)
	Budget(ctx context.Context, userID int64) (aigateway.Standing, error)
	SetBudget(ctx context.Context, userID int64, budget *aigateway.Money) (aigateway.Standing, error)
}

// AIPages are the pages of what language models were used for how much. now is the clock.
func AIPages(s AI, now func() time.Time) Section {
	p := aiPages{s, now}
	return Section{Label: "AI gateway", Screens: []Screen{
		{Path: "/ai", Title: "AI gateway", View: "ai", Live: true, Read: p.list},
		{Path: "/ai/{id}", Title: "Budget", View: "ai-budget", Read: p.show, Acts: []Act{
			{Name: "set", Operation: "put-ai-budget", Done: "The budget is set. It takes effect with the next call.", Do: p.set},
			{Name: "clear", Operation: "put-ai-budget", Done: "The configured budget is in force again.", Do: p.clear},
		}},
	}}
}

type aiPages struct {
	s   AI
	now func() time.Time
}

// aiDays is how many days are drawn.
const aiDays = 30

// aiPage is what was used.
type aiPage struct {
	Chart  Chart
	Filter Filter
	Table  Table
}

// aiPlace is where a page of usage ended.
type aiPlace struct {
	Day   time.Time `json:"d"`
	Model string    `json:"m"`
	User  int64     `json:"u"`
}

func (p aiPages) list(r *http.Request) (any, error) {
	var at aiPlace
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	f := aigateway.UsageFilter{Limit: pageRows + 1}
	if !at.Day.IsZero() {
		f.After = &aigateway.DayUsage{Day: at.Day, Model: at.Model, UserID: at.User}
	}
	q := r.URL.Query()
	for name, to := range map[string]*time.Time{"from": &f.First, "to": &f.Last} {
		if text := q.Get(name); text != "" {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return nil, fault.Validation(map[string]string{name: "Must be a day such as 2026-01-02."})
			}
			*to = day
		}
	}
	if text := q.Get("user"); text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 {
			return nil, fault.Validation(map[string]string{"user": "Must be an account's number."})
		}
		f.UserID = id
	}
	list, err := p.s.Usage(r.Context(), f, nil)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Use by day, model and account, newest first",
		Columns: []Column{{Label: "Day (UTC)"}, {Label: "Model"}, {Label: "Account"}, {Label: "Calls", Number: true}, {Label: "Input tokens", Number: true}, {Label: "Output tokens", Number: true}, {Label: "Cost", Number: true}},
		Empty:   Empty{Title: "No calls", Detail: "Nobody has called a language model in this time. Models are configured in the section ai of WAYPOST_CONFIG."},
	}
	if f.UserID != 0 {
		t.Empty.Href, t.Empty.Label = aiPath(f.UserID), "The account's budget"
	}
	rows(&t, r, list, func(u aigateway.DayUsage) Row {
		return Row{Cells: []any{
			u.Day.Format(time.DateOnly), u.Model, Link{Text: "No. " + strconv.FormatInt(u.UserID, 10), Href: aiPath(u.UserID), Detail: "its budget"},
			u.Requests, u.Tokens.Input, u.Tokens.Output, amountOf(u.Cost),
		}}
	}, func(u aigateway.DayUsage) any { return aiPlace{u.Day, u.Model, u.UserID} })
	chart, err := p.chart(r.Context(), f.UserID)
	return aiPage{Chart: chart, Table: t, Filter: filterOf(r,
		Field{Name: "from", Label: "From", Kind: "date"}, Field{Name: "to", Label: "To", Kind: "date"}, Field{Name: "user", Label: "Account no.", Kind: "number"})}, err
}

func aiPath(user int64) string { return DeskPath + "/ai/" + strconv.FormatInt(user, 10) }

// amountOf is an amount for reading: to a hundredth of a cent, or exact where that is 0.
func amountOf(m aigateway.Money) string {
	if f := m.Float(); f == 0 || f >= 0.0001 || f <= -0.0001 {
		return strconv.FormatFloat(f, 'f', 4, 64)
	}
	return m.String()
}

// chart draws the cost of the last days.
func (p aiPages) chart(ctx context.Context, user int64) (Chart, error) {
	today := p.now().UTC().Truncate(24 * time.Hour)
	first := today.AddDate(0, 0, 1-aiDays)
	days, err := p.s.Days(ctx, aigateway.UsageFilter{UserID: user, First: first, Last: today})
	if err != nil {
		return Chart{}, err
	}
	costs := map[string]aigateway.DayUsage{}
	for _, d := range days {
		costs[d.Day.Format(time.DateOnly)] = d
	}
	c := Chart{Title: "Cost by day, in the currency of the configured prices", Series: []Series{{Label: "Cost", Tone: "main"}}}
	for day := first; !day.After(today); day = day.AddDate(0, 0, 1) {
		c.At = append(c.At, day.Format("2 Jan"))
		c.Series[0].Values = append(c.Series[0].Values, costs[day.Format(time.DateOnly)].Cost.Float())
	}
	return lineChart(c), nil
}

// aiBudgetPage is how an account stands.
type aiBudgetPage struct {
	User   int64
	Facts  []Fact
	Fields []Field
	Action string
	Clear  []Button
}

// PageTitle names the account.
func (p aiBudgetPage) PageTitle() string {
	return "Budget of account no. " + strconv.FormatInt(p.User, 10)
}

func (p aiPages) show(r *http.Request) (any, error) {
	id, err := numberIn(r, "id", aigateway.ErrNoUser)
	if err != nil {
		return nil, err
	}
	st, err := p.s.Budget(r.Context(), id)
	if err != nil {
		return nil, err
	}
	view := aiBudgetPage{User: id, Action: aiPath(id) + "/set", Facts: []Fact{
		{"Budget", amountOf(st.Limit) + " a " + string(st.Period)}, {"Set by", "the configuration"}, {"Spent", amountOf(st.Spent)},
		{"Kept back by calls that are on", amountOf(st.Reserved)}, {"Left", amountOf(st.Remaining())}, {"Next period", st.ResetsAt},
	}}
	view.Fields = []Field{{Name: "budget", Label: "Budget for a " + string(st.Period), Value: st.Limit.String(), Required: true, Hint: "An amount with at most 6 decimals. 0 lets only free models be called."}}
	if st.Own {
		view.Facts[1].Value = "an administrator"
		view.Clear = []Button{{Label: "Back to the configured budget", Action: aiPath(id) + "/clear"}}
	}
	return view, nil
}

func (p aiPages) set(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", aigateway.ErrNoUser)
	if err != nil {
		return Outcome{}, err
	}
	f, err := strconv.ParseFloat(r.PostForm.Get("budget"), 64)
	var budget aigateway.Money
	if err == nil {
		budget, err = aigateway.MoneyOf(f)
	}
	if err != nil {
		return Outcome{}, fault.Validation(map[string]string{"budget": "Must be an amount of 0 to 1000000 with at most 6 decimals."})
	}
	_, err = p.s.SetBudget(r.Context(), id, &budget)
	return Outcome{To: "/ai/" + strconv.FormatInt(id, 10)}, err
}

func (p aiPages) clear(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", aigateway.ErrNoUser)
	if err == nil {
		_, err = p.s.SetBudget(r.Context(), id, nil)
	}
	return Outcome{To: "/ai/" + strconv.FormatInt(id, 10)}, err
}
