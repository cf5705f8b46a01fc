package pages

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook"
)

// OverviewOptions are what the first page asks. All of them are mandatory but Now.
type OverviewOptions struct {
	// Checks are the parts that say themselves how they are; the others follow.
	Checks []Check
	// Runner reports an error when this process works no jobs.
	Runner func(ctx context.Context) error
	Jobs   interface {
		Queues(ctx context.Context) ([]queue.Info, error)
		Tasks(ctx context.Context) ([]queue.Task, error)
	}
	Webhooks interface {
		Condition(ctx context.Context) (webhook.Condition, error)
	}
	Statistics interface {
		Overdue(ctx context.Context) (int64, time.Time, error)
	}
	Mails interface {
		Condition(ctx context.Context, failedSince time.Time) (mail.Condition, error)
	}
	Audit interface {
		Condition(ctx context.Context) (audit.Condition, error)
	}
	Tokens interface {
		ExpiringTokens(ctx context.Context, limit int) ([]account.ExpiringToken, error)
	}
	// Disks are those that this process writes to.
	Disks        func() ([]telemetry.Disk, error)
	Measurements interface {
		Read(ctx context.Context, q telemetry.Question) (telemetry.Summary, error)
		Counts(ctx context.Context, q telemetry.Question) (map[string][]uint64, error)
	}
	Logger *slog.Logger
	// Now is the clock; nil for the system's.
	Now func() time.Time
}

// Check is a part of the service that says itself how it is.
type Check struct {
	Name, Href string
	Ask        func(ctx context.Context) (Report, error)
}

// Report is how a part of the service is.
type Report struct {
	// State is a word for it and how good that is, Sentence what an operator would say.
	State    Badge
	Sentence string
	// Needs are what somebody should look at.
	Needs []Need
}

// Need is something that somebody should look at, with where to do that.
type Need struct {
	Text, Href, Detail string
	// Bad says that it should be soon.
	Bad bool
}

// The states of a report.
var (
	stateOK    = Badge{"ok", "good"}
	stateOff   = Badge{"off", "quiet"}
	stateLook  = Badge{"look", "wait"}
	stateWrong = Badge{"wrong", "bad"}
)

// reportOf is a report whose state follows from what it needs.
func reportOf(well string, needs []Need) Report {
	r := Report{State: stateOK, Sentence: well, Needs: needs}
	for _, n := range needs {
		if n.Bad {
			r.State = stateWrong
		} else if r.State == stateOK {
			r.State = stateLook
		}
	}
	return r
}

const (
	// partsFresh is how long a part's report is good for, less than a page waits before it
	// renews itself; measuredFresh the same of what is stored once a minute.
	partsFresh    = 4 * time.Second
	measuredFresh = 30 * time.Second
	// partsLimit and measuredLimit bound the reading of them.
	partsLimit    = 2 * time.Second
	measuredLimit = 5 * time.Second
	// older is the age from which the page says how old a report is.
	older = 10 * time.Second
	// readAtOnce is how many parts are read at once, of the few connections that all
	// requests share.
	readAtOnce = 2
)

// OverviewPage is the first page of the desk.
func OverviewPage(o OverviewOptions) Section {
	if o.Now == nil {
		o.Now = time.Now
	}
	return Section{Label: "Overview", Screens: []Screen{{Path: "", Title: "Overview", View: "overview", Live: true, Read: newOverview(o).show}}}
}

// overview is what its page shows to all who look at it.
type overview struct {
	o        OverviewOptions
	parts    []watched
	requests *glance[telemetry.Summary]
	counts   *glance[map[string][]uint64]
}

// watched is a part of the service with its report.
type watched struct {
	name, href string
	report     *glance[Report]
}

func newOverview(o OverviewOptions) *overview {
	v := &overview{o: o}
	places := make(chan struct{}, readAtOnce)
	v.requests = &glance[telemetry.Summary]{
		name: "requests", fresh: measuredFresh, limit: measuredLimit, now: o.Now, logger: o.Logger, places: places,
		read: func(ctx context.Context) (telemetry.Summary, error) { return o.Measurements.Read(ctx, v.lastDay()) },
	}
	v.counts = &glance[map[string][]uint64]{
		name: "counts", fresh: measuredFresh, limit: measuredLimit, now: o.Now, logger: o.Logger, places: places,
		read: func(ctx context.Context) (map[string][]uint64, error) { return o.Measurements.Counts(ctx, v.lastDay()) },
	}
	add := func(name, href string, places chan struct{}, read func(context.Context) (Report, error)) {
		v.parts = append(v.parts, watched{name, href, &glance[Report]{
			name: name, read: read, fresh: partsFresh, limit: partsLimit, now: o.Now, logger: o.Logger, places: places,
		}})
	}
	for _, c := range o.Checks {
		add(c.Name, c.Href, places, c.Ask)
	}
	add("Jobs", DeskPath+"/jobs", places, v.jobs)
	add("Webhooks", DeskPath+"/webhooks", places, v.webhooks)
	add("Statistics", DeskPath+"/stats", places, v.statistics)
	add("Mail", DeskPath+"/mails", places, v.mails)
	add("Audit log", DeskPath+"/audit/chain", places, v.audit)
	add("API tokens", DeskPath+"/users", places, v.tokens)
	add("Disk", DeskPath+"/observability", nil, v.disk) // which asks no database, and may hang by itself
	return v
}

// lastDay are this hour and the 23 before it, in hours.
func (v *overview) lastDay() telemetry.Question {
	until := v.o.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	return telemetry.Question{Since: until.Add(-24 * time.Hour), Until: until, Step: time.Hour}
}

// overviewPage is what the page shows.
type overviewPage struct {
	Needs   []Need
	Heading string
	Parts   []overviewPart
	Charts  []overviewChart
	// Measured is the day that the charts show.
	Measured string
}

type overviewPart struct {
	Name, Href string
	State      Badge
	Sentence   string
	// At is when it was so, nil for now.
	At *time.Time
}

// show reads all parts at once, each for as long as it may take.
func (v *overview) show(r *http.Request) (any, error) {
	ctx := r.Context()
	var all sync.WaitGroup
	var requests seen[telemetry.Summary]
	var counts seen[map[string][]uint64]
	reports := make([]seen[Report], len(v.parts))
	all.Go(func() { requests = v.requests.look(ctx) })
	all.Go(func() { counts = v.counts.look(ctx) })
	for i, p := range v.parts {
		all.Go(func() { reports[i] = p.report.look(ctx) })
	}
	all.Wait()
	day := v.lastDay()
	page := overviewPage{Charts: v.charts(requests, counts), Measured: "By the hour, from " + day.Since.Format("2 January, 15:04") + " UTC to now"}
	page.add(v.o.Now(), "Requests", DeskPath+"/observability?range=24h", answers(requests))
	for i, p := range v.parts {
		page.add(v.o.Now(), p.name, p.href, reports[i])
	}
	slices.SortStableFunc(page.Needs, func(a, b Need) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	page.Heading = "Nothing needs you"
	if n := len(page.Needs); n > 0 {
		page.Heading = "What needs attention"
	}
	return page, nil
}

// add puts a part on the page, with what it needs. What could not be read needs somebody
// too: nobody knows whether all is well there.
func (page *overviewPage) add(now time.Time, name, href string, s seen[Report]) {
	p := overviewPart{Name: name, Href: href, State: s.value.State, Sentence: s.value.Sentence}
	if now.Sub(s.at) > older {
		p.At = &s.at
	}
	switch {
	case s.err == errLate:
		p.State, p.Sentence, p.At = Badge{"unknown", "wait"}, "It could not be read in time.", nil
	case s.err != nil:
		p.State, p.Sentence, p.At = Badge{"unknown", "wait"}, "It could not be read. The log says why.", nil
	}
	page.Parts = append(page.Parts, p)
	page.Needs = append(page.Needs, s.value.Needs...)
	if s.err != nil {
		page.Needs = append(page.Needs, Need{Text: name + " could not be read", Href: href, Detail: "Whether all is well there is unknown."})
	}
}
