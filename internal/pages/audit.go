package pages

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/waypost/waypost/internal/audit"
)

// Audit is the audit log.
type Audit interface {
	List(ctx context.Context, f audit.Filter, before int64, limit int, total *int64) ([]audit.Entry, error)
	Get(ctx context.Context, seq int64) (audit.Entry, error)
	Verify(ctx context.Context, from, to, most int64) (audit.Verdict, error)
	Checkpoints(ctx context.Context, before int64, limit int) ([]audit.Checkpoint, error)
	Verifications(ctx context.Context) ([]audit.Verification, error)
}

// AuditPages are the pages of the audit log.
func AuditPages(s Audit) Section {
	p := auditPages{s}
	return Section{Label: "Audit", Screens: []Screen{
		{Path: "/audit", Title: "Audit log", View: "listed", Live: true, Read: p.list},
		{Path: "/audit/chain", Title: "Chain", View: "chain", Read: p.chain, Acts: []Act{{Name: "verify", Operation: "get-audit-verification", Do: p.verify}}},
		{Path: "/audit/checkpoints", Title: "Checkpoints", View: "listed", Read: p.checkpoints},
		{Path: "/audit/{seq}", Title: "Entry", View: "entry", Read: p.show},
	}}
}

type auditPages struct{ s Audit }

var auditTabs = tabs{{"Entries", DeskPath + "/audit"}, {"Chain", DeskPath + "/audit/chain"}, {"Checkpoints", DeskPath + "/audit/checkpoints"}}

func (p auditPages) list(r *http.Request) (any, error) {
	view := listed{
		Tabs: auditTabs.at("Entries"),
		Filter: filterOf(r, choice("actor_type", "By", "user", "token", "job", "cli", "system", "webhook", "anonymous"), Field{Name: "actor_id", Label: "Actor's id"}, Field{Name: "action", Label: "Action", Placeholder: "update-user"},
			Field{Name: "table", Label: "Table"}, Field{Name: "row_id", Label: "Row"}, Field{Name: "request_id", Label: "Request"},
			Field{Name: "from", Label: "From (UTC)", Kind: "datetime-local"}, Field{Name: "to", Label: "Before (UTC)", Kind: "datetime-local"}),
	}
	var at before
	if err := continued(r, &at); err != nil {
		return view, err
	}
	q := r.URL.Query()
	f := audit.Filter{ActorType: q.Get("actor_type"), ActorID: q.Get("actor_id"), Action: q.Get("action"), Table: q.Get("table"), RowID: q.Get("row_id"), RequestID: q.Get("request_id")}
	var err error
	if f.From, f.To, err = between(q.Get); err != nil {
		return view, err
	}
	list, err := p.s.List(r.Context(), f, at.Before, pageRows+1, nil)
	if err != nil {
		return view, err
	}
	t := Table{
		Caption: "Entries, newest first", Empty: Empty{Title: "No entries", Detail: "Nothing in the log has these properties."},
		Columns: []Column{{Label: "Entry", Number: true}, {Label: "Action"}, {Label: "What"}, {Label: "Row"}, {Label: "By"}, {Label: "From"}, {Label: "When"}},
	}
	rows(&t, r, list, func(e audit.Entry) Row {
		row := valueOf(e.RowID)
		if e.Table != nil && e.RowID != nil {
			row = valueOf(e.Table) + " " + row
		}
		return Row{Cells: []any{
			Link{Text: strconv.FormatInt(e.Seq, 10), Href: DeskPath + "/audit/" + strconv.FormatInt(e.Seq, 10)}, valueOf(e.Action), e.Op, short(row, 60), strings.TrimSpace(e.ActorType + " " + valueOf(e.ActorID)), valueOf(e.IP), e.At,
		}}
	}, func(e audit.Entry) any { return before{e.Seq} })
	view.Table = t
	return view, nil
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// entryPage is one entry.
type entryPage struct {
	Entry audit.Entry
	Facts []Fact
	Diff  Diff
	Raw   string
}

// PageTitle names the entry.
func (p entryPage) PageTitle() string { return "Entry " + strconv.FormatInt(p.Entry.Seq, 10) }

func (p auditPages) show(r *http.Request) (any, error) {
	seq, err := numberIn(r, "seq", audit.ErrEntry)
	if err != nil {
		return nil, err
	}
	e, err := p.s.Get(r.Context(), seq)
	if err != nil {
		return nil, err
	}
	view := entryPage{Entry: e, Facts: []Fact{
		{"Action", valueOf(e.Action)}, {"What", e.Op}, {"Table", valueOf(e.Table)}, {"Row", valueOf(e.RowID)}, {"By", e.ActorType + " " + valueOf(e.ActorID)}, {"From", valueOf(e.IP)},
		{"When", e.At}, {"Session", Code(valueOf(e.SessionID))}, {"Request", Link{Text: valueOf(e.RequestID), Href: DeskPath + "/audit?" + query("request_id", valueOf(e.RequestID))}},
		{"Hash", Code(e.Hash)}, {"Of the entry before", Code(e.PrevHash)},
	}}
	if e.RequestID == nil {
		view.Facts[8].Value = nil
	}
	if e.Changes != nil {
		view.Diff, view.Raw = diffOf(*e.Changes), indented([]byte(*e.Changes))
	}
	return view, nil
}

// diffOf reads an entry's changes: {"old":{...},"new":{...}} with either, or none of
// them where they are a note.
func diffOf(changes string) Diff {
	var c struct {
		Old, New map[string]json.RawMessage
	}
	if json.Unmarshal([]byte(changes), &c) != nil {
		return nil
	}
	fields := map[string]Changed{}
	for name, v := range c.Old {
		fields[name] = Changed{Field: name, Old: shown(v)}
	}
	for name, v := range c.New {
		f := fields[name]
		f.Field, f.New = name, shown(v)
		fields[name] = f
	}
	var list Diff
	for _, f := range sorted(fields) {
		if f.Old == nil || f.New == nil || *f.Old != *f.New {
			list = append(list, f)
		}
	}
	return list
}

// shown is a JSON value as people read it.
func shown(raw json.RawMessage) *string {
	text := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text = s
	}
	if text == "null" {
		return nil
	}
	return &text
}

// chainPage is the state of the chain.
type chainPage struct {
	Tabs    []tab
	Verdict *audit.Verdict
	// Facts are about Verdict, State what the periodic tasks found.
	Facts []Fact
	State []Fact
}

// verifyAtOnce is how many of the newest entries the page verifies; the whole chain is
// verified each day by a periodic task, and by `waypost audit verify`.
const verifyAtOnce = 100_000

func (p auditPages) chain(r *http.Request) (any, error) {
	view, err := p.chainPage(r.Context())
	if err != nil {
		return nil, err // not view, which holds nothing
	}
	return view, nil
}

// chainPage is what is known of the chain without verifying it anew.
func (p auditPages) chainPage(ctx context.Context) (chainPage, error) {
	view := chainPage{Tabs: auditTabs.at("Chain")}
	found, err := p.s.Verifications(ctx)
	if err != nil {
		return view, err
	}
	for _, v := range found {
		name := map[string]string{"recent": "What was new", "whole": "All of it"}[v.Kind]
		if name == "" {
			name = v.Kind
		}
		state := []any{Badge{"whole", "good"}, v.At}
		if v.FirstBad != nil {
			state = []any{Badge{"broken", "bad"}, v.At, v.FirstBad.Reason}
		}
		view.State = append(view.State, Fact{name + ", verified", state}, Fact{"Up to entry", v.ToSeq})
	}
	newest, err := p.s.Checkpoints(ctx, 0, 1)
	if err != nil {
		return view, err
	}
	if len(newest) > 0 {
		view.State = append(view.State, Fact{"Newest checkpoint", newest[0].At}, Fact{"It covers", newest[0].Size})
	}
	return view, nil
}

func (p auditPages) verify(r *http.Request) (Outcome, error) {
	newest, err := p.s.List(r.Context(), audit.Filter{}, 0, 1, nil)
	if err != nil {
		return Outcome{}, err
	}
	var from, to int64
	if len(newest) > 0 {
		from, to = max(1, newest[0].Seq-verifyAtOnce+1), newest[0].Seq
	}
	v, err := p.s.Verify(r.Context(), from, to, verifyAtOnce)
	if err != nil {
		return Outcome{}, err
	}
	page, err := p.chainPage(r.Context())
	if err != nil {
		return Outcome{}, err
	}
	page.Verdict, page.Facts = &v, []Fact{
		{"Entries checked", v.Checked}, {"Newest entry", v.Head.Seq}, {"Its hash", Code(v.Head.Hash)}, {"Not yet in the chain", v.Unsealed},
	}
	if v.FirstBad != nil {
		page.Facts = append(page.Facts, Fact{"Reason", v.FirstBad.Reason})
		if v.FirstBad.Seq != nil {
			page.Facts = append(page.Facts, Fact{"First bad entry", *v.FirstBad.Seq})
		}
	}
	if v.Checkpoint != nil {
		page.Facts = append(page.Facts, Fact{"Newest checkpoint", v.Checkpoint.At}, Fact{"It covers", v.Checkpoint.Size})
	}
	return Outcome{Show: &Shown{View: "chain", Data: page}}, nil
}

func (p auditPages) checkpoints(r *http.Request) (any, error) {
	var at before
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	list, err := p.s.Checkpoints(r.Context(), at.Before, pageRows+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Checkpoints, newest first", Columns: []Column{{Label: "Entries", Number: true}, {Label: "Signed"}, {Label: "Root", Wide: true}},
		Empty: Empty{Title: "No checkpoints", Detail: "The first is signed soon after the first entry."},
	}
	rows(&t, r, list, func(c audit.Checkpoint) Row { return Row{Cells: []any{c.Size, c.At, Code(c.Root)}} }, func(c audit.Checkpoint) any { return before{c.Size} })
	return listed{Tabs: auditTabs.at("Checkpoints"), Table: t}, nil
}
