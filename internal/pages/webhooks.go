package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

// Webhooks is what the pages need of the receiver.
type Webhooks interface {
	List(ctx context.Context, f webhook.Filter, after *webhook.Position, limit int) ([]webhook.Record, error)
	Detail(ctx context.Context, id uuid.UUID) (webhook.Detail, error)
	Raw(ctx context.Context, id uuid.UUID) ([]byte, error)
	Replay(ctx context.Context, id uuid.UUID, force bool) (webhook.Record, error)
	StartBulk(ctx context.Context, f webhook.Filter, force bool) (webhook.Bulk, error)
	Bulk(ctx context.Context, id uuid.UUID) (webhook.Bulk, error)
	Bulks(ctx context.Context, after *uuid.UUID, limit int) ([]webhook.Bulk, error)
	CancelBulk(ctx context.Context, id uuid.UUID) (webhook.Bulk, error)
	ProviderStates(ctx context.Context, after string, limit int) ([]webhook.ProviderState, error)
	ListRejected(ctx context.Context, f webhook.RejectedFilter, after *uuid.UUID, limit int) ([]webhook.Rejected, error)
	Targets(ctx context.Context) ([]webhook.TargetState, error)
	PauseTarget(ctx context.Context, provider, name string) (webhook.TargetState, error)
	ResumeTarget(ctx context.Context, provider, name string) (webhook.TargetState, error)
}

// WebhookPages are the pages of deliveries, replays, targets, providers and refused
// deliveries.
func WebhookPages(s Webhooks) Section {
	p := webhookPages{s}
	replayed := "The event is handled again."
	return Section{Label: "Webhooks", Screens: append([]Screen{
		{Path: "/webhooks", Title: "Webhooks", View: "webhooks", Live: true, Read: p.list, Acts: []Act{
			{Name: "replay", Operation: "create-webhook-replay", Done: "The replay has begun.", Do: p.startBulk(false), Ask: &Question{
				Title: "Replay all of these?", Button: "Replay them",
				Detail: "Every delivery that the filter matches and that has failed, or waits, is handled again by its handler or target. You see the progress, and can stop it.",
			}},
			{Name: "force", Operation: "create-webhook-replay", Done: "The replay has begun.", Do: p.startBulk(true), Ask: &Question{
				Title: "Handle all of these once more?", Button: "Handle them again",
				Detail: "Every delivery that the filter matches is handled again, those that were processed too: whatever their handler does, such as a payment booked, happens once more. You see the progress, and can stop it.",
			}},
		}},
		{Path: "/webhooks/providers", Title: "Providers", View: "listed", Live: true, Read: p.providers},
		{Path: "/webhooks/rejected", Title: "Refused deliveries", View: "listed", Live: true, Read: p.rejected},
		{Path: "/webhooks/replays", Title: "Bulk replays", View: "listed", Live: true, Read: p.bulks},
		{Path: "/webhooks/replays/{id}", Title: "Bulk replay", View: "replay", Live: true, Read: p.bulk, Acts: []Act{
			{Name: "cancel", Operation: "cancel-webhook-replay", Done: "The replay ends; what it has replayed stays so.", Do: p.cancelBulk},
		}},
		{Path: "/webhooks/{id}/body", Serve: p.body},
		{Path: "/webhooks/{id}", Title: "Delivery", View: "webhook", Live: true, Read: p.show, Acts: []Act{
			{Name: "replay", Operation: "replay-webhook-event", Done: replayed, Do: p.replay(false)},
			{Name: "force", Operation: "replay-webhook-event", Done: replayed, Do: p.replay(true), Ask: &Question{
				Title: "Handle this event once more?", Button: "Handle it again",
				Detail: "It was processed already: whatever its handler does, such as a payment booked, happens once more.",
			}},
		}},
	}, p.targetScreens()...)}
}

type webhookPages struct{ s Webhooks }

var webhookTabs = tabs{{"Deliveries", DeskPath + "/webhooks"}, {"Targets", DeskPath + "/webhooks/targets"}, {"Providers", DeskPath + "/webhooks/providers"}, {"Refused", DeskPath + "/webhooks/rejected"}, {"Bulk replays", DeskPath + "/webhooks/replays"}}

type webhookList struct {
	listed
	Replay []Button
}

type webhookPosition struct {
	At time.Time `json:"t"`
	ID uuid.UUID `json:"i"`
}

// webhookFilter reads what narrows the list.
func webhookFilter(get func(string) string) (webhook.Filter, error) {
	f := webhook.Filter{
		Provider: get("provider"), EventType: get("event_type"), ExternalID: get("external_id"), Status: webhook.Status(get("status")),
		Target: get("target"), Error: get("error"), Repeated: get("repeated") == "true", Unhandled: get("handled") == "false",
	}
	var err error
	f.From, f.To, err = between(get)
	return f, err
}

func (p webhookPages) list(r *http.Request) (any, error) {
	view := webhookList{listed: listed{
		Tabs: webhookTabs.at("Deliveries"),
		Filter: filterOf(r, choice("status", "State", "pending", "processed", "failed"), Field{Name: "provider", Label: "Provider"}, Field{Name: "event_type", Label: "Type"},
			Field{Name: "external_id", Label: "External id"}, Field{Name: "target", Label: "Target"}, Field{Name: "error", Label: "Error begins with"},
			Field{Name: "repeated", Label: "Body", Kind: "select", Options: []Option{{"", "Any"}, {"true", "Came before"}}},
			Field{Name: "handled", Label: "Handler", Kind: "select", Options: []Option{{"", "Any"}, {"false", "There was none"}}},
			Field{Name: "from", Label: "From (UTC)", Kind: "datetime-local"}, Field{Name: "to", Label: "Before (UTC)", Kind: "datetime-local"}),
	}}
	var at webhookPosition
	if err := continued(r, &at); err != nil {
		return view, err
	}
	f, err := webhookFilter(r.URL.Query().Get)
	if err != nil {
		return view, err
	}
	var after *webhook.Position
	if !at.At.IsZero() {
		after = &webhook.Position{CreatedAt: at.At, ID: at.ID}
	}
	list, err := p.s.List(r.Context(), f, after, pageRows+1)
	if err != nil {
		return view, err
	}
	t := Table{
		Caption: "Deliveries, newest first",
		Columns: []Column{{Label: "Event"}, {Label: "State"}, {Label: "Provider"}, {Label: "External id", Wide: true}, {Label: "Retries", Number: true}, {Label: "Size", Number: true}, {Label: "Arrived"}},
		Empty: Empty{
			Title: "No deliveries", Detail: "Send a test delivery with `waypost webhook send`, or give the provider the address that its row names.",
			Label: "Providers", Href: DeskPath + "/webhooks/providers",
		},
	}
	rows(&t, r, list, func(e webhook.Record) Row {
		name := e.EventType
		if name == "" {
			name = "(no type)"
		}
		return Row{Cells: []any{
			Link{Text: name, Href: DeskPath + "/webhooks/" + e.ID.String(), Detail: short(e.HandlerError, 60)}, webhookBadge(e.Status), e.Provider, e.ExternalID,
			int64(e.RetryCount), Size(e.BodySize), e.CreatedAt,
		}}
	}, func(e webhook.Record) any { return webhookPosition{e.CreatedAt, e.ID} })
	q := r.URL.Query()
	q.Del("cursor")
	q.Del("said")
	view.Table = t
	if len(t.Rows) > 0 && view.Filter.Clear != "" {
		view.Replay = []Button{
			{Label: "Replay all of these", Action: address(DeskPath+"/webhooks/replay", q), Asks: true},
			{Label: "Replay those processed too", Action: address(DeskPath+"/webhooks/force", q), Asks: true, Danger: true},
		}
	}
	return view, nil
}

func webhookBadge(s webhook.Status) Badge {
	tone := map[webhook.Status]string{webhook.Processed: "good", webhook.Failed: "bad", webhook.Pending: "wait"}[s]
	if tone == "" {
		tone = "quiet"
	}
	return Badge{string(s), tone}
}

// webhookPage is one delivery.
type webhookPage struct {
	Event    webhook.Detail
	Facts    []Fact
	Pretty   string
	Raw      string // "" where it is the same
	Headers  []Fact
	Targets  *Table // nil without any
	Attempts Table
	Buttons  []Button
}

// PageTitle names the event.
func (p webhookPage) PageTitle() string {
	if p.Event.EventType == "" {
		return "Delivery from " + p.Event.Provider
	}
	return p.Event.EventType
}

// maxShown is how much of a body a page shows, in bytes; the whole is downloaded.
const maxShown = 256 << 10

func (p webhookPages) show(r *http.Request) (any, error) {
	id, err := idIn(r, "id", webhook.ErrEvent)
	if err != nil {
		return nil, err
	}
	d, err := p.s.Detail(r.Context(), id)
	if err != nil {
		return nil, err
	}
	at := DeskPath + "/webhooks/" + id.String()
	view := webhookPage{Event: d, Facts: []Fact{
		{"State", webhookBadge(d.Status)}, {"Provider", Link{Text: d.Provider, Href: DeskPath + "/webhooks?" + query("provider", d.Provider)}},
		{"External id", d.ExternalID}, {"Arrived", d.CreatedAt}, {"Processed", d.ProcessedAt}, {"Retries", int64(d.RetryCount)},
		{"Size", Size(d.BodySize)}, {"Id", Code(id.String())},
	}}
	if d.HandlerError != "" {
		view.Facts = append(view.Facts, Fact{"Error", d.HandlerError})
	}
	if d.RepeatedBodyOf != nil {
		view.Facts = append(view.Facts, Fact{"Same body as", Link{Text: d.RepeatedBodyOf.String(), Href: DeskPath + "/webhooks/" + d.RepeatedBodyOf.String()}})
	}
	body := d.Body
	if len(body) > maxShown {
		body = body[:maxShown]
	}
	view.Pretty = indented(body)
	if raw := strings.ToValidUTF8(string(body), "\ufffd"); raw != view.Pretty {
		view.Raw = raw
	}
	for name, values := range sorted(d.Header) {
		view.Headers = append(view.Headers, Fact{name, Code(strings.Join(values, ", "))})
	}
	view.Attempts, view.Targets = attemptTable(d.Attempts), targetTable(d.Provider, d.Targets)
	switch d.Status {
	case webhook.Processed:
		view.Buttons = []Button{{Label: "Handle once more", Action: at + "/force", Asks: true}}
	case webhook.Pending:
		view.Buttons = []Button{{Label: "Try now", Action: at + "/replay"}}
	default:
		view.Buttons = []Button{{Label: "Replay", Action: at + "/replay"}}
	}
	return view, nil
}

func attemptTable(list []webhook.Attempt) Table {
	t := Table{
		Caption: "Attempts, oldest first", Columns: []Column{{Label: "Attempt", Number: true}, {Label: "Began"}, {Label: "Outcome"}, {Label: "Took", Number: true}, {Label: "Error", Wide: true}},
		Empty: Empty{Title: "No attempts", Detail: "No handler or target is registered for this event, so it is only kept."},
	}
	targets := slices.ContainsFunc(list, func(a webhook.Attempt) bool { return a.Target != "" })
	if targets {
		t.Columns = slices.Insert(t.Columns, 1, Column{Label: "Target"})
	}
	for _, a := range list {
		tone := map[string]string{"processed": "good", "failed": "bad", "running": "wait"}[string(a.Outcome)]
		cells := []any{int64(a.Number), a.At, Badge{string(a.Outcome), tone}, wait(a.Duration), a.Error}
		if targets {
			cells = slices.Insert(cells, 1, any(a.Target))
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	return t
}

func (p webhookPages) replay(force bool) func(r *http.Request) (Outcome, error) {
	return func(r *http.Request) (Outcome, error) {
		id, err := idIn(r, "id", webhook.ErrEvent)
		if err == nil {
			_, err = p.s.Replay(r.Context(), id, force)
		}
		return Outcome{}, err
	}
}

func (p webhookPages) startBulk(force bool) func(r *http.Request) (Outcome, error) {
	return func(r *http.Request) (Outcome, error) {
		f, err := webhookFilter(r.PostForm.Get)
		if err != nil {
			return Outcome{}, err
		}
		b, err := p.s.StartBulk(r.Context(), f, force)
		return Outcome{To: "/webhooks/replays/" + b.ID.String()}, err
	}
}

func (p webhookPages) cancelBulk(r *http.Request) (Outcome, error) {
	id, err := idIn(r, "id", webhook.ErrBulk)
	if err == nil {
		_, err = p.s.CancelBulk(r.Context(), id)
	}
	return Outcome{}, err
}

// body is the delivery's exact bytes, as a file.
func (p webhookPages) body(w http.ResponseWriter, r *http.Request) error {
	id, err := idIn(r, "id", webhook.ErrEvent)
	if err != nil {
		return err
	}
	raw, err := p.s.Raw(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+id.String()+`"`)
	_, _ = w.Write(raw) // the client is gone when this fails
	return nil
}

type providerPosition struct {
	Name string `json:"n"`
}

func (p webhookPages) providers(r *http.Request) (any, error) {
	var at providerPosition
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	list, err := p.s.ProviderStates(r.Context(), at.Name, pageRows+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Providers", Empty: Empty{Title: "No providers", Detail: "Declare one in the configuration file (WAYPOST_CONFIG): see docs/operations.md."},
		Columns: []Column{{Label: "Provider"}, {Label: "Health"}, {Label: "Secret", Wide: true}, {Label: "Signature"}, {Label: "Pending", Number: true}, {Label: "Processed", Number: true}, {Label: "Failed", Number: true}, {Label: "Latest delivery"}},
	}
	rows(&t, r, list, func(s webhook.ProviderState) Row {
		health := Badge{"ok", "good"}
		switch {
		case !s.SecretSet:
			health = Badge{"no secret", "bad"}
		case s.FailureStreak > 0:
			health = Badge{"the newest " + strconv.FormatInt(s.FailureStreak, 10) + " failed", "bad"}
		case s.LastDelivery == nil:
			health = Badge{"nothing yet", "quiet"}
		}
		secret := "Set " + s.SecretEnv + " and restart."
		if s.SecretSet {
			secret = s.SecretEnv
			if s.PreviousSecretSet {
				secret += ", and the one before still counts"
			}
		}
		return Row{Cells: []any{
			Link{Text: s.Name, Href: DeskPath + "/webhooks?" + query("provider", s.Name), Detail: "POST /webhooks/" + s.Name}, health, secret, signatureOf(s), s.Pending, s.Processed, s.Failed, s.LastDelivery,
		}}
	}, func(s webhook.ProviderState) any { return providerPosition{s.Name} })
	return listed{Tabs: webhookTabs.at("Providers"), Table: t}, nil
}

// signatureOf is how a provider signs: its preset, where it has one, or its verifier.
func signatureOf(s webhook.ProviderState) string {
	if s.Preset != "" {
		return s.Preset + " (preset)"
	}
	return s.Verifier
}

type rejectedPosition struct {
	ID *uuid.UUID `json:"i"`
}

func (p webhookPages) rejected(r *http.Request) (any, error) {
	reasons := choice("reason", "Reason")
	for _, reason := range webhook.Reasons() {
		reasons.Options = append(reasons.Options, Option{string(reason), string(reason)})
	}
	view := listed{Tabs: webhookTabs.at("Refused"), Filter: filterOf(r, reasons, Field{Name: "provider", Label: "Provider"})}
	var at rejectedPosition
	if err := continued(r, &at); err != nil {
		return view, err
	}
	q := r.URL.Query()
	list, err := p.s.ListRejected(r.Context(), webhook.RejectedFilter{Provider: q.Get("provider"), Reason: webhook.Reason(q.Get("reason"))}, at.ID, pageRows+1)
	if err != nil {
		return view, err
	}
	t := Table{
		Caption: "Refused deliveries, newest first", Empty: Empty{Title: "Nothing was refused", Detail: "Deliveries with a wrong signature, of unknown providers or of a wrong size are listed here for a while."},
		Columns: []Column{{Label: "Reason"}, {Label: "Provider"}, {Label: "From"}, {Label: "Size", Number: true}, {Label: "Headers", Wide: true}, {Label: "Arrived"}},
	}
	rows(&t, r, list, func(e webhook.Rejected) Row {
		var size, from any
		if e.Size >= 0 {
			size = Size(e.Size)
		}
		if e.Address.IsValid() {
			from = e.Address.String()
		}
		var headers []string
		for name, values := range sorted(e.Header) {
			headers = append(headers, name+": "+strings.Join(values, ", "))
		}
		return Row{Cells: []any{Badge{string(e.Reason), "bad"}, e.Provider, from, size, Code(short(strings.Join(headers, "; "), 300)), e.At}}
	}, func(e webhook.Rejected) any { return rejectedPosition{&e.ID} })
	view.Table = t
	return view, nil
}

// idIn is the UUID in a path, or missing where that is none.
func idIn(r *http.Request, name string, missing error) (uuid.UUID, error) {
	text := chi.URLParam(r, name)
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return uuid.UUID{}, missing
	}
	return id, nil
}
