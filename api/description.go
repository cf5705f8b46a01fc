package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/webhook"
)

// Tags group the operations.
const (
	tagAuth     = "Sign-in"
	tagTokens   = "API tokens"
	tagUsers    = "Users"
	tagPosts    = "Posts"
	tagWebhooks = "Webhooks"
	tagStats    = "Statistics"
	tagSites    = "Sites"
	tagService  = "Service"
)

// Description introduces the API, in Markdown.
const Description = `A JSON-over-HTTP backend: sign-in and roles, a webhook receiver that never loses a delivery,
and cookie-less site statistics.

**Answers.** Lists are ` + "`{data, meta}`" + `, single resources ` + "`{data, message}`" + `, errors ` + "`{error: {code, message, details}}`" + `.
Statistics, webhook receipts and collection answer bare bodies as described; their errors keep the envelope.

**Signing in.** ` + "`POST /api/auth/login`" + ` answers an access token that lives 15 minutes; send it as
` + "`Authorization: Bearer <token>`" + `. Statistics are read with a site's secret key in ` + "`X-Analytics-API-Key`" + `.`

// describe fills in what the API says of itself as a whole.
func describe(config *huma.Config, baseURL string) {
	config.Info.Description = Description
	config.Info.Contact = &huma.Contact{Name: "The operator of this service", URL: baseURL}
	config.Servers = []*huma.Server{{URL: baseURL, Description: "This service"}}
	config.Tags = tags()
	config.Extensions = map[string]any{"x-tagGroups": tagGroups(), export.Extension: exportVariables()}
	config.Components.SecuritySchemes = securitySchemes()
	config.Components.Headers = headers()
	config.OnAddOperation = append(config.OnAddOperation, describeAnswers)
}

const (
	requestIDHeader = "X-Request-Id"
	challengeHeader = "WWW-Authenticate"
)

var envelopeType = reflect.TypeFor[httpedge.Envelope]()

// headers are those that answers share.
func headers() map[string]*huma.Header {
	return map[string]*huma.Header{
		requestIDHeader: {
			Description: "Names the request in logs and traces. A client's own is taken when it is sane.",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"5YQ2VJ6X7M3K4N5P6Q7R8S9T2U"}},
		},
		"Retry-After": {
			Description: "When to try again, in seconds.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64), Examples: []any{2}},
		},
		challengeHeader: {
			Description: "The scheme to sign in with (RFC 9110, section 11.6.1).",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`Bearer realm="waypost"`}},
		},
	}
}

func headerReference(name string) *huma.Header {
	return &huma.Header{Ref: "#/components/headers/" + name}
}

// tagGroups are the areas, for readers with a menu.
func tagGroups() []map[string]any {
	return []map[string]any{
		{"name": "Accounts", "tags": []string{tagAuth, tagTokens, tagUsers}},
		{"name": "Content", "tags": []string{tagPosts}},
		{"name": "Webhooks", "tags": []string{tagWebhooks}},
		{"name": "Statistics", "tags": []string{tagStats, tagSites}},
		{"name": "Service", "tags": []string{tagService}},
	}
}

func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: tagAuth, Description: "Accounts of one's own: register, sign in and out, sessions, passwords, and the keys that verify access tokens."},
		{Name: tagTokens, Description: "Credentials for bots, which act for their owner within the owner's role and their scopes."},
		{Name: tagUsers, Description: "Accounts and their roles."},
		{Name: tagPosts, Description: "Short texts with tags, by signed-in people."},
		{Name: tagWebhooks, Description: "Deliveries from external providers: verified, stored before they are acknowledged, dispatched once."},
		{Name: tagStats, Description: "A site's traffic: counted without cookies, read with the site's secret key."},
		{Name: tagSites, Description: "The sites that are counted, their keys, and what was not counted."},
		{Name: tagService, Description: "Whether the service is alive and ready, and where its entry points are."},
	}
}

func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		schemeBearer:   {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "The access token of `POST /api/auth/login`."},
		schemeAPIToken: {Type: "http", Scheme: "bearer", Description: "An API token (`wp_...`) of `POST /api/auth/tokens`. Each operation names the scopes that it needs."},
		schemeSiteKey: {
			Type: "apiKey", In: "header", Name: siteKeyHeader, Description: "A secret API key of one site. Each operation names the scope that it needs.",
			Extensions: map[string]any{export.Extension: export.SchemeHints{Variable: "siteApiKey"}},
		},
		schemePaymentSignature: {
			Type: "apiKey", In: "header", Name: webhook.Payment().Verifier.Headers()[0],
			Description: "`t=<unix seconds>,v1=<hex>`, where v1 is the HMAC-SHA256 of `<t>.<body>` under the secret of the provider `payment`. Several v1 are tried.",
		},
		schemeCodehostSignature: {
			Type: "apiKey", In: "header", Name: webhook.CodeHost().Verifier.Headers()[0],
			Description: "`sha256=<hex>`: the HMAC-SHA256 of the body under the secret of the provider `codehost`.",
		},
	}
}
