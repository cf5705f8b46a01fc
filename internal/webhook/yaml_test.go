package webhook_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

const declaredYAML = `
webhooks:
  providers:
    - name: acme
      secret_env: ACME_SECRET
      verifier: {type: hmac, header: X-Acme-Signature}     # hmac | timestamped-hmac | code-host | standard-webhooks
      extractor: {type: json, type_field: kind, id_field: meta.uid}   # json | payment | code-host | standard-webhooks
      body_limit: 1MiB
    - {name: till, secret_env: TILL_SECRET, verifier: {type: timestamped-hmac, header: Till-Signature}, extractor: {type: payment}, body_limit: 2 MB}
    - {name: forge, secret_env: FORGE_SECRET, verifier: {type: code-host}, extractor: {type: code-host}, body_limit: 512KiB}
    - {name: modern, secret_env: MODERN_SECRET, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}, body_limit: 100}
    - {name: only-type, secret_env: T, verifier: {type: timestamped-hmac}, extractor: {type: json, type_field: t}}
  handlers:
    - {provider: acme, event: "", forward: {url: "http://127.0.0.1:9000/in", secret_env: FORWARD_SECRET}}
    - provider: acme
      event: paid
      forward:
        - {name: books, url: "http://127.0.0.1:9001/in", secret_env: BOOKS_SECRET, attempts: 3, timeout: 5s, concurrency: 2, rate: 90/m}
        - {name: old.verifier, url: "http://127.0.0.1:9002/in", secret_env: OLD_SECRET, headers: {X-Tenant: 7}, pass_headers: true}
elsewhere: {of: "another reader"}
`

func TestTheFileDeclaresProvidersAndTargets(t *testing.T) {
	t.Parallel()
	got, err := webhook.ParseYAML("waypost.yaml", []byte(declaredYAML))
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.Declared{
		Providers: []webhook.Registration{
			{Name: "acme", SecretEnv: "ACME_SECRET", Verifier: signature.Scheme{Header: "X-Acme-Signature"}, Extractor: webhook.Fields{TypeField: "kind", IDField: "meta.uid"}, BodyLimit: 1 << 20},
			{Name: "till", SecretEnv: "TILL_SECRET", Verifier: signature.Timestamped{Header: "Till-Signature"}, Extractor: webhook.BodyFields{Type: "type", ID: "id"}, BodyLimit: 2e6},
			{Name: "forge", SecretEnv: "FORGE_SECRET", Verifier: signature.HMAC{Header: "X-Hub-Signature-256", Prefix: "sha256="}, Extractor: webhook.HeaderFields{Type: "X-Codehost-Event", ID: "X-Codehost-Delivery"}, BodyLimit: 512 << 10},
			{Name: "modern", SecretEnv: "MODERN_SECRET", Verifier: signature.Standard{}, Extractor: webhook.StandardFields{}, BodyLimit: 100},
			{Name: "only-type", SecretEnv: "T", Verifier: signature.Timestamped{Header: "Payment-Signature"}, Extractor: webhook.Fields{TypeField: "t"}},
		},
		Forwards: [][]webhook.ForwardTarget{
			{{Provider: "acme", URL: "http://127.0.0.1:9000/in", SecretEnv: "FORWARD_SECRET"}},
			{
				{Provider: "acme", EventType: "paid", Name: "books", URL: "http://127.0.0.1:9001/in", SecretEnv: "BOOKS_SECRET", Attempts: 3, Timeout: 5 * time.Second, Concurrency: 2, Rate: 1.5},
				{Provider: "acme", EventType: "paid", Name: "old.verifier", URL: "http://127.0.0.1:9002/in", SecretEnv: "OLD_SECRET", Headers: map[string]string{"X-Tenant": "7"}, PassHeaders: true},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, empty := range []string{"", "\n# nothing\n", "webhooks:\n", "webhooks: {}", "other: 1"} {
		if got, err := webhook.ParseYAML("f", []byte(empty)); err != nil || len(got.Providers)+len(got.Forwards) != 0 {
			t.Errorf("%q: %+v, %v", empty, got, err)
		}
	}
}

func TestAFaultyEntryIsNamedByFileLineAndNameAndNoSecretIsShown(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	provider := func(fields string) string {
		return "webhooks:\n  providers:\n    - {name: ok, secret_env: A, verifier: {type: code-host}, extractor: {type: json, id_field: id}}\n    - " + fields
	}
	handler := func(fields string) string { return "webhooks:\n  handlers:\n    - " + fields }
	for name, c := range map[string]struct{ file, want string }{
		"upper case name":     {provider(`{name: Acme, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}`), `c.yaml:4: webhook provider "Acme": a name is`},
		"51 characters":       {provider(`{name: ` + strings.Repeat("a", 51) + `, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}`), "c.yaml:4"},
		"no name":             {provider(`{secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}`), `c.yaml:4: webhook provider ""`},
		"twice":               {provider(`{name: ok, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}}`), `c.yaml:4: webhook provider "ok": registered twice`},
		"no secret_env":       {provider(`{name: a, verifier: {type: code-host}, extractor: {type: payment}}`), `"a": no name for its secret's`},
		"the secret itself":   {provider(`{name: a, secret_env: ` + secret + `, verifier: {type: code-host}, extractor: {type: payment}}`), `"a": its secret_env is the secret itself`},
		"secret, other form":  {provider(`{name: a, secret_env: "` + secret + `=", verifier: {type: code-host}, extractor: {type: payment}}`), `"a": the name of its secret's environment variable is not a valid name`},
		"secret field":        {provider(`{name: a, secret: ` + secret + `}`), `c.yaml:4: webhooks.providers[1]: unknown member "secret"; did you mean secret_env? it may be about, body_limit, challenge, extractor, name, preset, secret_env, verifier`},
		"secret as verifier":  {provider(`{name: a, verifier: ` + secret + `}`), "c.yaml:4: webhooks.providers[1].verifier: this is a single value; it should be a mapping with digest, encoding, header, id_header"},
		"no verifier":         {provider(`{name: a, secret_env: A, extractor: {type: payment}}`), `c.yaml:4: webhook provider "a": verifier: its type is not one of`},
		"unknown verifier":    {provider(`{name: a, secret_env: A, verifier: {type: rsa}, extractor: {type: payment}}`), "verifier: its type is not one of hmac, token, timestamped-hmac, code-host, standard-webhooks"},
		"misspelt verifier":   {provider(`{name: a, secret_env: A, verifier: {type: hmca}, extractor: {type: payment}}`), "standard-webhooks; did you mean hmac?"},
		"hmac without header": {provider(`{name: a, secret_env: A, verifier: {type: hmac}, extractor: {type: payment}}`), "no name for the signature's header"},
		"bad header":          {provider(`{name: a, secret_env: A, verifier: {type: hmac, header: "X Y"}, extractor: {type: payment}}`), "no name for the signature's header"},
		"header of standard":  {provider(`{name: a, secret_env: A, verifier: {type: standard-webhooks, header: X}, extractor: {type: payment}}`), "leave header out"},
		"unknown extractor":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: xml}}`), "extractor: its type is not one of"},
		"no fields":           {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: json}}`), "it says neither where the type is nor where the id is"},
		"bad path":            {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: json, id_field: a..b}}`), `"a..b" is no path`},
		"fields of payment":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment, id_field: a}}`), "payment has fixed places; only json, form and headers take"},
		"body limit":          {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 1 GiB}`), "body_limit: write"},
		"body limit 0":        {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 0}`), "body_limit: it is 1 to"},
		"body limit 65 MiB":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 65MiB}`), "body_limit: it is 1 to"},
		"unknown field":       {provider(`{name: a, secret_evn: A}`), `c.yaml:4: webhooks.providers[1]: unknown member "secret_evn"; did you mean secret_env?`},
		"not YAML":            {"webhooks: [", "c.yaml: "},
		"a list for a map":    {"webhooks: []", "c.yaml:1: webhooks: this is a list; it should be a mapping with handlers, providers"},
		"no url":              {handler(`{provider: a, forward: {secret_env: S}}`), `c.yaml:3: webhook handler of provider "a", event "": forward: no url`},
		"relative url":        {handler(`{provider: a, event: paid, forward: {url: /in, secret_env: S}}`), `event "paid": forward: its url`},
		"url with a password": {handler(`{provider: a, forward: {url: "http://u:` + secret + `@h/", secret_env: S}}`), "its url holds a user"},
		"other scheme":        {handler(`{provider: a, forward: {url: "ftp://h/", secret_env: S}}`), "http(s)"},
		"no forward secret":   {handler(`{provider: a, forward: {url: "http://h/"}}`), "no secret_env"},
		"forward's secret":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: ` + secret + `}}`), "not a valid name of an environment variable"},
		"timeout":             {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, timeout: 31s}}`), "timeout is at most 30s"},
		"timeout, no unit":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, timeout: 5}}`), "timeout: write a duration"},
		"rate":                {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, rate: fast}}`), "rate: write a number of attempts"},
		"rate 0":              {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, rate: 0/s}}`), "pause it"},
		"attempts":            {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, attempts: 101}}`), "attempts is 1 to 100"},
		"concurrency":         {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, concurrency: 1000}}`), "concurrency is 1 to"},
		"nameless of two":     {handler(`{provider: a, forward: [{url: "http://h/", secret_env: S}, {name: b, url: "http://h/", secret_env: S}]}`), "each of several targets has a name"},
		"two of a name":       {handler(`{provider: a, forward: [{name: b, url: "http://h/", secret_env: S}, {name: b, url: "http://h/", secret_env: S}]}`), `target "b": forward: two targets have this name`},
		"a bad name":          {handler(`{provider: a, forward: {name: "a/b", url: "http://h/", secret_env: S}}`), "a name is 1 to 100 of letters"},
		"a list of nothing":   {handler(`{provider: a, forward: []}`), "forward: no url"},
		"a header of ours":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, headers: {webhook-id: ` + secret + `}}}`), "Waypost sets Webhook-Id itself"},
		"a header's value":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, headers: {X-A: "` + secret + `\n"}}}`), "the value of X-A can't be sent"},
		"a field of a list":   {handler(`{provider: a, forward: [{name: b, url: "http://h/", secret_env: S, retries: 1}]}`), `c.yaml:3: webhooks.handlers[0].forward[0]: unknown member "retries"`},
		"a field of a map":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: S, retries: 1}}`), `c.yaml:3: webhooks.handlers[0].forward: unknown member "retries"`},
		"no mapping":          {handler(`{provider: a, forward: "http://h/"}`), "c.yaml:3: webhooks.handlers[0].forward: this is a single value; it should be a mapping with"},
	} {
		_, err := webhook.ParseYAML("c.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret[6:12]) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

func TestEveryFaultyEntryOfTheFileIsNamed(t *testing.T) {
	t.Parallel()
	_, err := webhook.ParseYAML("c.yaml", []byte("webhooks:\n  providers:\n    - {name: One}\n    - {name: Two}\n  handlers:\n    - {provider: three}\n"))
	for _, want := range []string{"c.yaml:3", `"One"`, "c.yaml:4", `"Two"`, "c.yaml:6", `"three"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestTheExamplesOfTheDocumentationAreAccepted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(page), "```yaml\n")[1:]
	var all webhook.Declared
	for _, example := range examples {
		example, _, _ := strings.Cut(example, "```")
		got, err := webhook.ParseYAML("example", []byte(example))
		if err != nil || len(got.Providers)+len(got.Forwards) == 0 {
			t.Errorf("%s\n%+v, %v", example, got, err)
		}
		all.Providers, all.Forwards = append(all.Providers, got.Providers...), append(all.Forwards, got.Forwards...)
	}
	if len(examples) < 3 || len(all.Forwards) == 0 {
		t.Errorf("%d examples with %d targets", len(examples), len(all.Forwards))
	}
	if _, err := webhook.NewRegistry(append(webhook.BuiltIn(), all.Providers...)); err != nil {
		t.Error(err)
	}
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(declaredYAML))
	f.Add([]byte("webhooks:\n  providers:\n  - {name: a, secret_env: A, preset: slack, verifier: {template: '{id}{body}', id_header: I}, extractor: {type: form, id_field: a.b}}\n"))
	f.Add([]byte("webhooks: &a\n  providers: [*a]\n"))
	f.Add([]byte("webhooks:\n  handlers:\n  - {provider: p, forward: [{name: a, url: 'http://a', secret_env: S, timeout: 1s, rate: 2/s, headers: {A: b}}, {name: a}]}\n  - {provider: p, forward: []}\n"))
	f.Add([]byte("webhooks:\n  providers:\n  - {name: a, secret_env: A, preset: github, challenge: {method: GET, token_field: t, token_env: T, field: c}}\n"))
	f.Add([]byte("webhooks:\n  providers:\n  - &p {name: a}\n  - *p\n  - {<<: *p, name: b}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := webhook.ParseYAML("f", data)
		if err != nil {
			return
		}
		if _, err := webhook.NewRegistry(got.Providers); err != nil {
			t.Fatalf("accepted what the registry refuses: %v", err)
		}
		for _, targets := range got.Forwards {
			b, err := webhook.ForwardAll(targets, webhook.ForwardOptions{LookupSecret: func(string) string { return "" }})
			if err == nil && b.Provider != targets[0].Provider {
				t.Fatalf("targets of %q are bound to %q", targets[0].Provider, b.Provider)
			}
		}
	})
}
