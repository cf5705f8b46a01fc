package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// Case 70.
func TestABadRegistrationIsNamedAtStartUp(t *testing.T) {
	t.Parallel()
	provider := func(change func(*webhook.Registration)) []webhook.Registration {
		p := webhook.Payment()
		p.Name, p.SecretEnv = "acme", "ACME_SECRET"
		change(&p)
		return []webhook.Registration{webhook.CodeHost(), p}
	}
	for name, c := range map[string]struct {
		providers []webhook.Registration
		bindings  []webhook.Binding
		want      string // within the error; "" for none
	}{
		"good":               {providers: provider(func(*webhook.Registration) {}), bindings: []webhook.Binding{webhook.Handle("acme", "", failing), webhook.Handle("acme", "a", failing)}},
		"50 characters":      {providers: provider(func(p *webhook.Registration) { p.Name = strings.Repeat("a", 50) })},
		"51 characters":      {providers: provider(func(p *webhook.Registration) { p.Name = strings.Repeat("a", 51) }), want: strings.Repeat("a", 51)},
		"no name":            {providers: provider(func(p *webhook.Registration) { p.Name = "" }), want: `""`},
		"upper case":         {providers: provider(func(p *webhook.Registration) { p.Name = "Acme" }), want: `"Acme"`},
		"not ASCII":          {providers: provider(func(p *webhook.Registration) { p.Name = "acmé" }), want: "acmé"},
		"a slash":            {providers: provider(func(p *webhook.Registration) { p.Name = "a/b" }), want: `"a/b"`},
		"a line end":         {providers: provider(func(p *webhook.Registration) { p.Name = "acme\n" }), want: `"acme\n"`},
		"twice":              {providers: provider(func(p *webhook.Registration) { p.Name = "codehost" }), want: `"codehost": registered twice`},
		"no secret variable": {providers: provider(func(p *webhook.Registration) { p.SecretEnv = "" }), want: `"acme": no name for its secret`},
		"bad variable":       {providers: provider(func(p *webhook.Registration) { p.SecretEnv = "A=B" }), want: `"acme"`},
		"no verifier":        {providers: provider(func(p *webhook.Registration) { p.Verifier = nil }), want: `"acme": no verifier`},
		"no extractor":       {providers: provider(func(p *webhook.Registration) { p.Extractor = nil }), want: `"acme": no extractor`},
		"negative limit":     {providers: provider(func(p *webhook.Registration) { p.BodyLimit = -1 }), want: `"acme": a body limit`},
		"unknown provider":   {providers: provider(func(*webhook.Registration) {}), bindings: []webhook.Binding{webhook.Handle("nobody", "paid", failing)}, want: `"nobody", event type "paid"`},
		"bound twice":        {providers: provider(func(*webhook.Registration) {}), bindings: []webhook.Binding{webhook.Handle("acme", "a", failing), webhook.Handle("acme", "a", failing)}, want: "bound twice"},
		"no handler":         {providers: provider(func(*webhook.Registration) {}), bindings: []webhook.Binding{webhook.Handle("acme", "a", nil)}, want: "no handler"},
		"long event type":    {providers: provider(func(*webhook.Registration) {}), bindings: []webhook.Binding{webhook.Handle("acme", strings.Repeat("é", 101), failing)}, want: "100 characters"},
	} {
		_, err := webhook.NewRegistry(c.providers, c.bindings...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want one that names %s", name, err, c.want)
		}
	}
}

func TestEveryFaultyEntryIsNamed(t *testing.T) {
	t.Parallel()
	_, err := webhook.NewRegistry([]webhook.Registration{{Name: "one"}, {Name: "two"}}, webhook.Handle("three", "", failing))
	for _, name := range []string{`"one"`, `"two"`, `"three"`} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
}

func TestAReceiverSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	if _, err := newFaces(webhook.Options{}); err == nil {
		t.Error("a receiver without a database starts")
	}
}

func TestAComposedDeliveryIsWhatTheProviderWouldSend(t *testing.T) {
	t.Parallel()
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment(), webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1700000000, 0)
	for name, c := range map[string]struct {
		provider, data, want string // want "" for an error
	}{
		"made up":          {"payment", "", `{"id":"evt_1","type":"paid"}`},
		"empty object":     {"payment", " { } ", `{"id":"evt_1","type":"paid" }`},
		"with data":        {"payment", `{"n":1}`, `{"id":"evt_1","type":"paid","n":1}`},
		"has the id":       {"payment", `{"id":"evt_1","n":1}`, `{"type":"paid","id":"evt_1","n":1}`},
		"has both":         {"payment", `{"type":"paid","id":"evt_1"}`, `{"type":"paid","id":"evt_1"}`},
		"contradicts":      {"payment", `{"type":"refused"}`, ""},
		"an array":         {"payment", `[]`, ""},
		"not JSON":         {"payment", `{`, ""},
		"code host":        {"codehost", ` {"a":1} `, ` {"a":1} `},
		"code host, empty": {"codehost", "", "{}"},
		"code host, bad":   {"codehost", "{", ""},
		"unknown":          {"nobody", "", ""},
	} {
		body, h, err := registry.Compose(c.provider, webhook.TestDelivery{EventType: "paid", ExternalID: "evt_1", Data: []byte(c.data), Secret: "s", Now: now})
		if (err != nil) != (c.want == "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		if string(body) != c.want {
			t.Errorf("%s: %s", name, body)
		}
		p, _ := registry.Provider(c.provider)
		if err := p.Verifier.Verify([]byte("s"), body, h, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if eventType, id, err := p.Extractor.Extract(body, h); eventType != "paid" || id != "evt_1" || err != nil {
			t.Errorf("%s: extracts %q, %q, %v", name, eventType, id, err)
		}
	}
	if _, _, err := registry.Compose("payment", webhook.TestDelivery{Now: now}); err == nil {
		t.Error("signed without a secret")
	}
}

func TestHeadersOfTheCodeHostMayNotBeSentTwice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Codehost-Event", "X-Codehost-Delivery"} {
		_, _, err := webhook.CodeHost().Extractor.Extract([]byte("{}"), http.Header{name: {"a", "b"}})
		if f, ok := errors.AsType[*webhook.FieldError](err); !ok || f.Field == "" {
			t.Errorf("%s twice: %v", name, err)
		}
	}
}
