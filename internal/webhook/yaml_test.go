package webhook_test

import (
	"os"
	"strings"
	"testing"

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
			{Name: "acme", SecretEnv: "ACME_SECRET", Verifier: signature.HMAC{Header: "X-Acme-Signature"}, Extractor: webhook.BodyFields{Type: "kind", ID: "meta.uid"}, BodyLimit: 1 << 20},
			{Name: "till", SecretEnv: "TILL_SECRET", Verifier: signature.Timestamped{Header: "Till-Signature"}, Extractor: webhook.BodyFields{Type: "type", ID: "id"}, BodyLimit: 2e6},
			{Name: "forge", SecretEnv: "FORGE_SECRET", Verifier: signature.HMAC{Header: "X-Hub-Signature-256", Prefix: "sha256="}, Extractor: webhook.HeaderFields{Type: "X-Codehost-Event", ID: "X-Codehost-Delivery"}, BodyLimit: 512 << 10},
			{Name: "modern", SecretEnv: "MODERN_SECRET", Verifier: signature.Standard{}, Extractor: webhook.StandardFields{}, BodyLimit: 100},
			{Name: "only-type", SecretEnv: "T", Verifier: signature.Timestamped{Header: "Payment-Signature"}, Extractor: webhook.BodyFields{Type: "t"}},
		},
		Forwards: []webhook.ForwardTarget{{Provider: "acme", URL: "http://127.0.0.1:9000/in", SecretEnv: "FORWARD_SECRET"}},
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
		"secret field":        {provider(`{name: a, secret: ` + secret + `}`), "c.yaml: line 4: field secret is unknown"},
		"secret as verifier":  {provider(`{name: a, verifier: ` + secret + `}`), "line 4: the wrong kind of value: str"},
		"no verifier":         {provider(`{name: a, secret_env: A, extractor: {type: payment}}`), `c.yaml:4: webhook provider "a": verifier: its type is not one of`},
		"unknown verifier":    {provider(`{name: a, secret_env: A, verifier: {type: rsa}, extractor: {type: payment}}`), "verifier: its type is not one of"},
		"hmac without header": {provider(`{name: a, secret_env: A, verifier: {type: hmac}, extractor: {type: payment}}`), "no name for the signature's header"},
		"bad header":          {provider(`{name: a, secret_env: A, verifier: {type: hmac, header: "X Y"}, extractor: {type: payment}}`), "no name for the signature's header"},
		"header of standard":  {provider(`{name: a, secret_env: A, verifier: {type: standard-webhooks, header: X}, extractor: {type: payment}}`), "leave header out"},
		"unknown extractor":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: xml}}`), "extractor: its type is not one of"},
		"no fields":           {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: json}}`), "names neither a field"},
		"bad path":            {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: json, id_field: a..b}}`), `"a..b" is no path`},
		"fields of payment":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment, id_field: a}}`), "only json takes"},
		"body limit":          {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 1 GiB}`), "body_limit: write"},
		"body limit 0":        {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 0}`), "body_limit: it is 1 to"},
		"body limit 65 MiB":   {provider(`{name: a, secret_env: A, verifier: {type: code-host}, extractor: {type: payment}, body_limit: 65MiB}`), "body_limit: it is 1 to"},
		"unknown field":       {provider(`{name: a, secret_evn: A}`), "c.yaml: line 4: field secret_evn is unknown"},
		"not YAML":            {"webhooks: [", "c.yaml: "},
		"a list for a map":    {"webhooks: []", "line 1: the wrong kind of value"},
		"no url":              {handler(`{provider: a, forward: {secret_env: S}}`), `c.yaml:3: webhook handler of provider "a", event "": forward: no url`},
		"relative url":        {handler(`{provider: a, event: paid, forward: {url: /in, secret_env: S}}`), `event "paid": forward: its url`},
		"url with a password": {handler(`{provider: a, forward: {url: "http://u:` + secret + `@h/", secret_env: S}}`), "its url holds a user"},
		"other scheme":        {handler(`{provider: a, forward: {url: "ftp://h/", secret_env: S}}`), "http(s)"},
		"no forward secret":   {handler(`{provider: a, forward: {url: "http://h/"}}`), "no secret_env"},
		"forward's secret":    {handler(`{provider: a, forward: {url: "http://h/", secret_env: ` + secret + `}}`), "not a valid name of an environment variable"},
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

func TestTheExampleOfTheDocumentationIsAccepted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	got, err := webhook.ParseYAML("example", []byte(example))
	if err != nil || len(got.Providers) == 0 || len(got.Forwards) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(declaredYAML))
	f.Add([]byte("webhooks: &a\n  providers: [*a]\n"))
	f.Add([]byte("webhooks:\n  providers:\n  - &p {name: a}\n  - *p\n  - {<<: *p, name: b}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := webhook.ParseYAML("f", data)
		if err != nil {
			return
		}
		if _, err := webhook.NewRegistry(got.Providers); err != nil {
			t.Fatalf("accepted what the registry refuses: %v", err)
		}
	})
}
