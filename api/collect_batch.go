package api

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// BatchCollector counts events that a server reports and returns once all are
// durable. Errors: faults of kind Invalid and Unavailable.
type BatchCollector interface {
	CollectBatch(ctx context.Context, s site.Site, events []stats.Reported) (stats.BatchResult, error)
}

// reportedEvent describes one event of a batch; readReported reads it.
type reportedEvent struct {
	EventID   string         `json:"event_id" minLength:"1" maxLength:"200" doc:"An id of your own for this event. An event whose id is already known counts as a duplicate, whatever its time." example:"order-4711"`
	TS        time.Time      `json:"ts" doc:"When the event happened: at most 24 hours ago and at most 5 minutes ahead." example:"2026-01-02T15:04:05Z"`
	URL       string         `json:"url" doc:"The page's absolute URL, on the site's domain or a subdomain of it." example:"https://blog.example.com/checkout"`
	Referrer  string         `json:"referrer,omitempty" doc:"Where the visitor came from." example:"https://www.example.org/"`
	Name      string         `json:"name,omitempty" maxLength:"100" doc:"A custom event's name. Empty or pageview means a pageview." example:"purchase"`
	Props     map[string]any `json:"props,omitempty" doc:"Up to 16 properties whose values are strings, numbers or booleans." example:"{\"plan\":\"team\"}"`
	IP        string         `json:"ip,omitempty" doc:"The visitor's IP address: hashed, never stored." example:"203.0.113.7"`
	UserAgent string         `json:"user_agent,omitempty" doc:"The visitor's user agent: hashed and classified, never stored." example:"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"`
}

// reportedEvents is the described body; batchBody is the one that is read.
type reportedEvents struct {
	Events []reportedEvent `json:"events" minItems:"1" maxItems:"1000" nullable:"false" doc:"Each event is checked by itself."`
}

// batchBody keeps events as they came: Huma would refuse all for one.
type batchBody struct {
	model.Unchecked
	events   []jsontext.Value
	problems []*huma.ErrorDetail
}

// Schema implements huma.SchemaProvider. The reference stands where Huma writes
// it out but does not follow it.
func (*batchBody) Schema(r huma.Registry) *huma.Schema {
	ref := r.Schema(reflect.TypeFor[reportedEvents](), true, "ReportedEvents").Ref
	return &huma.Schema{Extensions: map[string]any{"$ref": ref}}
}

// UnmarshalJSON implements json.Unmarshaler. Problems are kept for Resolve.
func (b *batchBody) UnmarshalJSON(data []byte) error {
	note := func(field, message string) {
		b.problems = append(b.problems, &huma.ErrorDetail{Location: field, Message: message})
	}
	listed := false
	// Text that won't do is an event's own problem.
	err := members(data, func(name string, value jsontext.Value) {
		if name != "events" {
			note("body", "Has a member other than events; names are case-sensitive.")
			return
		}
		events, isList := elements(value)
		switch b.events = events; {
		case listed:
			note("body.events", "Appears more than once.")
		case !isList:
			note("body.events", "Must be a list.")
		case len(events) == 0 || len(events) > stats.MaxReported:
			note("body.events", "From 1 to 1,000 events.")
		}
		listed = true
	}, jsontext.AllowInvalidUTF8(true))
	switch {
	case err != nil:
		note("body", "Must be an object.")
	case !listed:
		note("body.events", "Is required.")
	}
	return nil
}

// Resolve implements huma.Resolver.
func (b *batchBody) Resolve(huma.Context) []error {
	errs := make([]error, len(b.problems))
	for i, p := range b.problems {
		errs[i] = p
	}
	return errs
}

const (
	otherMember  = "Has a member other than event_id, ts, url, referrer, name, props, ip and user_agent."
	anotherForm  = ": Has a value of another type or form."
	noEventAtAll = "Must be a JSON object whose strings hold neither U+0000 nor lone surrogates."
)

// readReported reads one event, or says why it can't.
func readReported(raw jsontext.Value) stats.Reported {
	var r stats.Reported
	note := func(s string) {
		if r.Problem == "" {
			r.Problem = s
		}
	}
	seen := make(map[string]bool, 8)
	err := eachMember(raw, func(name string, value jsontext.Value) {
		known, ok := readMember(&r, name, value)
		switch {
		case !known:
			note(otherMember)
		case seen[name]:
			note(name + ": Appears more than once.")
		case !ok && name == "ip" && value.Kind() == jsontext.KindString:
			note("ip: Not an address.")
		case !ok:
			note(name + anotherForm)
		}
		seen[name] = true
	})
	if err != nil {
		note(noEventAtAll)
	}
	for _, name := range []string{"event_id", "ts", "url"} {
		if !seen[name] {
			note(name + ": Is required.")
		}
	}
	return r
}

// readMember reads one member of an event, and says whether there is such a one
// and whether its value will do.
func readMember(r *stats.Reported, name string, value jsontext.Value) (bool, bool) {
	ok := false
	switch name {
	case "event_id":
		r.EventID, ok = textOf(value)
	case "ts":
		ok = value.Kind() == jsontext.KindString && r.Hit.At.UnmarshalJSON(value) == nil
	case "url":
		r.Hit.URL, ok = textOf(value)
	case "referrer":
		r.Hit.Referrer, ok = textOf(value)
	case "name":
		r.Hit.Name, ok = textOf(value)
	case "props":
		ok = value.Kind() == jsontext.KindBeginObject && r.Hit.Props.UnmarshalJSON(value) == nil
	case "ip":
		ok = readAddress(&r.Hit.Address, value)
	case "user_agent":
		r.Hit.UserAgent, ok = textOf(value)
	default:
		return false, false
	}
	return true, ok
}

// readAddress reads an IP address; an empty one is none.
func readAddress(a *netip.Addr, value jsontext.Value) bool {
	text, ok := textOf(value)
	if !ok || text == "" {
		return ok
	}
	var err error
	*a, err = netip.ParseAddr(text)
	return err == nil
}

type batchRefusal struct {
	Index   int    `json:"index" minimum:"0" doc:"The event's position in the batch, from 0." example:"1"`
	Code    string `json:"code" enum:"validation_failed,too_old,in_future,bot,unknown_host" doc:"Why the event is not counted." example:"too_old"`
	Message string `json:"message" doc:"The reason as a sentence for people." example:"ts: More than 24 hours ago."`
}

type batchAnswer struct {
	Accepted  int            `json:"accepted" minimum:"0" doc:"Events that were counted." example:"2"`
	Duplicate int            `json:"duplicate" minimum:"0" doc:"Events whose id was already known." example:"0"`
	Rejected  []batchRefusal `json:"rejected" nullable:"false" doc:"Events that were not counted. Sending them again unchanged does not help."`
}

type batchOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer must not be stored." example:"no-store"`
	Body         batchAnswer
}

func registerCollectBatch(a huma.API, s BatchCollector) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "collect-events",
		Method:      http.MethodPost,
		Path:        "/api/collect/batch",
		Summary:     "Report events from a server",
		Description: "Count up to 1,000 events, each once: after an error or a lost answer, send the same batch again. An answer means that all accepted events are durable. A bad event " +
			"does not fail the others. `accepted`, `duplicate` and the length of `rejected` add up to the number of events.",
		SkipValidateBody: true,
	}, ingestKey()), exportedBatch()), func(ctx context.Context, in *struct{ Body batchBody }) (*batchOutput, error) {
		events := make([]stats.Reported, len(in.Body.events))
		for i, raw := range in.Body.events {
			events[i] = readReported(raw)
		}
		result, err := s.CollectBatch(ctx, siteFrom(ctx), events)
		if err != nil {
			return nil, within("body", err)
		}
		out := &batchOutput{CacheControl: "no-store", Body: batchAnswer{
			Accepted: result.Accepted, Duplicate: result.Duplicate, Rejected: make([]batchRefusal, len(result.Rejected)),
		}}
		for i, r := range result.Rejected {
			out.Body.Rejected[i] = batchRefusal{Index: r.Index, Code: string(r.Code), Message: r.Message}
		}
		return out, nil
	})
}

// exportedBatch reports one event of now, of the site that exported requests made.
func exportedBatch() export.Variant {
	return export.Variant{Credential: ingestKeyVariable, Body: map[string]any{"events": []map[string]any{{
		"event_id": "{{$guid}}", "ts": "{{$isoTimestamp}}", "url": "https://blog.example.com/checkout", "name": "purchase",
		"ip": "203.0.113.7", "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
	}}}}
}
