package pages

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/webhook"
)

// targetScreens are the pages of the targets that events are forwarded to.
func (p webhookPages) targetScreens() []Screen {
	return []Screen{
		{Path: "/webhooks/targets", Title: "Targets", View: "listed", Live: true, Read: p.targets},
		{Path: "/webhooks/targets/{provider}/{name}", Title: "Target", View: "target", Live: true, Read: p.target, Acts: []Act{
			{Name: "pause", Operation: "pause-webhook-target", Done: "Nothing more is sent to the target; what comes for it waits.", Do: p.pauseTarget},
			{Name: "resume", Operation: "resume-webhook-target", Done: "What waits for the target is sent.", Do: p.resumeTarget},
		}},
	}
}

func targetPath(t webhook.TargetState) string {
	return DeskPath + "/webhooks/targets/" + url.PathEscape(t.Provider) + "/" + url.PathEscape(t.Name)
}

func targetBadge(c webhook.TargetCondition) Badge {
	tone := map[webhook.TargetCondition]string{webhook.TargetWorks: "good", webhook.TargetFailing: "bad", webhook.TargetMissing: "bad", webhook.TargetPaused: "wait"}[c]
	return Badge{string(c), tone}
}

// counted is a number of what is counted up to webhook.MaxCounted.
func counted(n int64) string {
	if n >= webhook.MaxCounted {
		return grouped(n) + " or more"
	}
	return grouped(n)
}

// perSecond is a rate in words.
func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 1, 64) + "/s" }

func (p webhookPages) targets(r *http.Request) (any, error) {
	list, err := p.s.Targets(r.Context())
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Targets that events are forwarded to", Columns: []Column{{Label: "Target"}, {Label: "State"}, {Label: "Waiting", Number: true}, {Label: "Oldest"}, {Label: "Being sent", Number: true}, {Label: "Rate here", Number: true}, {Label: "Failures in a row", Number: true}},
		Empty: Empty{Title: "No targets", Detail: "Declare handlers that forward in the configuration file (WAYPOST_CONFIG): see docs/webhooks.md.", Label: "Providers", Href: DeskPath + "/webhooks/providers"},
	}
	for _, one := range list {
		t.Rows = append(t.Rows, Row{Cells: []any{
			Link{Text: one.Name, Href: targetPath(one), Detail: one.Provider}, targetBadge(one.Condition), counted(one.Waiting), one.Oldest, one.InFlight, perSecond(one.Rate), int64(one.Failures),
		}})
	}
	return listed{Tabs: webhookTabs.at("Targets"), Table: t}, nil
}

// targetPage is one target.
type targetPage struct {
	Target  webhook.TargetState
	Facts   []Fact
	Detail  string
	Buttons []Button
}

// PageTitle names the target.
func (p targetPage) PageTitle() string {
	return "Target " + p.Target.Name + " of " + p.Target.Provider
}

func (p webhookPages) target(r *http.Request) (any, error) {
	provider, name, err := targetIn(r)
	if err != nil {
		return nil, err
	}
	list, err := p.s.Targets(r.Context())
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Provider == provider && t.Name == name {
			return newTargetPage(t), nil
		}
	}
	return nil, webhook.ErrTarget
}

func newTargetPage(t webhook.TargetState) targetPage {
	events := DeskPath + "/webhooks?" + url.Values{"provider": {t.Provider}, "target": {t.Name}}.Encode()
	view := targetPage{Target: t, Facts: []Fact{
		{"State", targetBadge(t.Condition)},
		{"Provider", Link{Text: t.Provider, Href: DeskPath + "/webhooks?" + query("provider", t.Provider)}},
		{"Waiting", Link{Text: counted(t.Waiting), Href: events + "&status=pending"}},
		{"Oldest of them arrived", t.Oldest}, {"Due now", t.Due}, {"Being sent", t.InFlight}, {"Rate of this process", perSecond(t.Rate)}, {"Failures in a row", int64(t.Failures)},
		{"Paused", t.PausedAt}, {"Failing since", t.OpenedAt}, {"Next probe", t.ProbedAt},
		{"Failed events", Link{Text: "Show", Href: events + "&status=failed"}}, {"All events", Link{Text: "Show", Href: events}},
	}}
	if c := t.Here; c != nil {
		kind, secret := c.EventType, c.SecretEnv
		if kind == "" {
			kind = "all that no other handler takes"
		}
		if !c.SecretSet {
			secret = "Set " + c.SecretEnv + ": nothing is sent without it."
		}
		limit := "none"
		if c.RateLimit > 0 {
			limit = perSecond(c.RateLimit)
		}
		view.Facts = append(view.Facts, Fact{"Events", kind}, Fact{"Secret", secret}, Fact{"Attempts at most", int64(c.Attempts)}, Fact{"Timeout", c.Timeout.String()},
			Fact{"At once, at most", int64(c.Concurrency)}, Fact{"Limit of the rate", limit}, Fact{"Provider's own headers", yesNo(c.PassHeaders)})
	}
	at := targetPath(t)
	switch t.Condition {
	case webhook.TargetPaused:
		view.Detail = "Nothing is sent while the target is paused. What comes for it waits, and spends no attempt."
		view.Buttons = []Button{{Label: "Resume", Action: at + "/resume"}}
	case webhook.TargetFailing:
		view.Detail = "The latest attempts all failed, so the target is left alone and probed from time to time. No attempt is spent meanwhile."
		view.Buttons = []Button{{Label: "Try now", Action: at + "/resume"}, {Label: "Pause", Action: at + "/pause"}}
	case webhook.TargetMissing:
		view.Detail = "No running process has this target in its configuration. What waits for it is failed after an hour, and can be replayed."
	default:
		view.Buttons = []Button{{Label: "Pause", Action: at + "/pause"}}
	}
	return view
}

func yesNo(is bool) string {
	if is {
		return "passed on"
	}
	return "not passed on"
}

// targetIn is the provider and the name in a path.
func targetIn(r *http.Request) (provider, name string, err error) {
	provider, err = url.PathUnescape(chi.URLParam(r, "provider"))
	if err != nil {
		return "", "", webhook.ErrTarget
	}
	name, err = url.PathUnescape(chi.URLParam(r, "name"))
	if err != nil {
		return "", "", webhook.ErrTarget
	}
	return provider, name, nil
}

func (p webhookPages) pauseTarget(r *http.Request) (Outcome, error) {
	provider, name, err := targetIn(r)
	if err == nil {
		_, err = p.s.PauseTarget(r.Context(), provider, name)
	}
	return Outcome{}, err
}

func (p webhookPages) resumeTarget(r *http.Request) (Outcome, error) {
	provider, name, err := targetIn(r)
	if err == nil {
		_, err = p.s.ResumeTarget(r.Context(), provider, name)
	}
	return Outcome{}, err
}

// targetTable is what became of an event at its targets.
func targetTable(provider string, list []webhook.TargetOutcome) *Table {
	if len(list) == 0 {
		return nil
	}
	t := &Table{
		Caption: "Targets", Columns: []Column{{Label: "Target"}, {Label: "State"}, {Label: "Attempts", Number: true}, {Label: "Next attempt"}, {Label: "Error", Wide: true}},
	}
	for _, one := range list {
		text := one.Error
		if one.HeadersGone {
			text = joined(text, "It went without the provider's own headers, which had been erased.")
		}
		t.Rows = append(t.Rows, Row{Cells: []any{
			Link{Text: one.Name, Href: targetPath(webhook.TargetState{Provider: provider, Name: one.Name})}, webhookBadge(one.Status), int64(one.Attempts), one.NextAttemptAt, text,
		}})
	}
	return t
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}
