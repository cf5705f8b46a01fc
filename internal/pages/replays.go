package pages

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/webhook"
)

type replayPosition struct {
	ID *uuid.UUID `json:"i"`
}

func replayPath(id uuid.UUID) string { return DeskPath + "/webhooks/replays/" + id.String() }

func replayBadge(s webhook.BulkStatus) Badge {
	return Badge{string(s), map[webhook.BulkStatus]string{webhook.BulkRunning: "wait", webhook.BulkFinished: "good"}[s]}
}

// bulks lists the bulk replays.
func (p webhookPages) bulks(r *http.Request) (any, error) {
	var at replayPosition
	if err := continued(r, &at); err != nil {
		return nil, err
	}
	list, err := p.s.Bulks(r.Context(), at.ID, pageRows+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Bulk replays, newest first", Columns: []Column{{Label: "Replay"}, {Label: "State"}, {Label: "Matched", Number: true}, {Label: "Asked for", Wide: true}, {Label: "Begun"}, {Label: "Ended"}},
		Empty: Empty{Title: "No bulk replays", Detail: "Narrow the list of deliveries, and replay all that it shows.", Label: "Deliveries", Href: DeskPath + "/webhooks"},
	}
	rows(&t, r, list, func(b webhook.Bulk) Row {
		return Row{Cells: []any{Link{Text: short(b.ID.String(), 8), Href: replayPath(b.ID)}, replayBadge(b.Status), b.Matched, wordsOf(b), b.CreatedAt, b.FinishedAt}}
	}, func(b webhook.Bulk) any { return replayPosition{&b.ID} })
	return listed{Tabs: webhookTabs.at("Bulk replays"), Table: t}, nil
}

// wordsOf is what a bulk replay was asked to take, in a line.
func wordsOf(b webhook.Bulk) string {
	var parts []string
	for _, f := range askedFacts(b) {
		value := ""
		switch v := f.Value.(type) {
		case string:
			value = v
		case Badge:
			value = v.Text
		case interface{ Format(string) string }:
			value = v.Format("2006-01-02 15:04:05 MST")
		}
		parts = append(parts, f.Label+": "+value)
	}
	return strings.Join(parts, "; ")
}

// askedFacts are the filters of a bulk replay.
func askedFacts(b webhook.Bulk) []Fact {
	var facts []Fact
	for _, f := range []Fact{
		{"State", string(b.Filter.Status)}, {"Provider", b.Filter.Provider}, {"Type", b.Filter.EventType}, {"External id", b.Filter.ExternalID},
		{"Target", b.Filter.Target}, {"Beginning of the error", b.Filter.Error},
	} {
		if f.Value != "" {
			facts = append(facts, Fact{f.Label + " asked for", f.Value})
		}
	}
	if !b.Filter.From.IsZero() {
		facts = append(facts, Fact{"Arrived from", b.Filter.From})
	}
	if !b.Filter.To.IsZero() {
		facts = append(facts, Fact{"Arrived before", b.Filter.To})
	}
	if b.Filter.Repeated {
		facts = append(facts, Fact{"Body", "came before"})
	}
	if b.Filter.Unhandled {
		facts = append(facts, Fact{"Handler", "there was none"})
	}
	if b.Force {
		facts = append(facts, Fact{"Processed ones", Badge{"too", "wait"}})
	}
	return facts
}

// replayPage is the progress of a bulk replay.
type replayPage struct {
	Bulk    webhook.Bulk
	Facts   []Fact
	Buttons []Button
}

func (p webhookPages) bulk(r *http.Request) (any, error) {
	id, err := idIn(r, "id", webhook.ErrBulk)
	if err != nil {
		return nil, err
	}
	b, err := p.s.Bulk(r.Context(), id)
	if err != nil {
		return nil, err
	}
	view := replayPage{Bulk: b, Facts: append([]Fact{
		{"State", replayBadge(b.Status)},
		{"Replayed", strconv.FormatInt(b.Replayed, 10) + " of " + strconv.FormatInt(b.Matched, 10)},
		{"Processed now", b.Processed}, {"Failed now", b.Failed}, {"Waiting now", b.Pending}, {"Begun", b.CreatedAt}, {"Ended", b.FinishedAt},
	}, askedFacts(b)...)}
	if b.Status == webhook.BulkRunning {
		view.Buttons = []Button{{Label: "Stop", Action: replayPath(id) + "/cancel"}}
	}
	return view, nil
}
