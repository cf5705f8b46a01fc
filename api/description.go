package api

import (
	"maps"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/httpedge"
)

// introduction of the API, in Markdown. {url} stands for the service's own URL.
const introduction = `A JSON-over-HTTP backend: accounts and roles, a webhook receiver that never loses a delivery,
and site statistics without cookies.

**Quick start.** Sign in, use the access token, read a site's statistics:

` + "```sh" + `
curl {url}/api/auth/login \
  -H 'Content-Type: application/json' \
  -d '{"email":"ada@example.com","password":"..."}'
curl {url}/api/auth/me \
  -H 'Authorization: Bearer <data.access_token>'
curl '{url}/api/stats/summary?period=7d' \
  -H 'X-Analytics-API-Key: <secret key of the site>'
` + "```" + `

**Credentials.** An access token is valid for 15 minutes; ` + "`POST /api/auth/refresh`" + ` gives the next one. Programs use an API token
(` + "`POST /api/auth/tokens`" + `) in the same header. Each operation says which roles and scopes it needs.

**Answers.** Lists are ` + "`{data, meta}`" + `, single resources ` + "`{data, message}`" + `, errors ` + "`{error: {code, message, details}}`" + `.
Statistics, webhook receipts and collected hits have no envelope; their errors do. New members may be added to answers at any time: ignore those that you don't know.

**Trying again.** A request that creates can be sent again with the same ` + "`Idempotency-Key`" + ` for 24 hours: it gets the first answer, and nothing is created twice.
After a 429 or 503, wait as long as ` + "`Retry-After`" + ` says; limited answers carry ` + "`RateLimit`" + `.

**Assistants.** ` + "`POST /mcp`" + ` offers the operations as tools (Model Context Protocol, streamable HTTP), unless the operator turned it off.
OpenAI's clients find language models at ` + "`/api/ai/v1`" + `.`

// describe fills in what the API says of itself as a whole.
func describe(config *huma.Config, baseURL string, list resources) {
	config.Info.Description = strings.ReplaceAll(introduction, "{url}", baseURL)
	config.Info.Contact = &huma.Contact{Name: "The operator of this service", URL: baseURL}
	config.Servers = []*huma.Server{{URL: baseURL, Description: "This service"}}
	config.Tags = list.tags()
	config.Extensions = map[string]any{"x-tagGroups": list.groups(), export.Extension: exportVariables(list)}
	config.Components.SecuritySchemes = securitySchemes(list)
	config.Components.Headers = headers()
	config.OnAddOperation = append(config.OnAddOperation, describeRow, describeIdempotency, describeNext, describeAnswers, describeRate, describeSuccess, describeHeaders)
}

const (
	requestIDHeader = "X-Request-Id"
	challengeHeader = "WWW-Authenticate"
	linkHeader      = "Link"
)

var (
	envelopeType       = reflect.TypeFor[httpedge.Envelope]()
	openAIEnvelopeType = reflect.TypeFor[httpedge.OpenAIEnvelope]()
)

// headers are those that answers share.
func headers() map[string]*huma.Header {
	return map[string]*huma.Header{
		siteTimezoneHeader: {
			Description: "The site's time zone, in which dates are read and buckets are aligned.",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"Europe/Berlin"}},
		},
		requestIDHeader: {
			Description: "The id of the request in logs and traces. A client's own id is used if it is well-formed.",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"5YQ2VJ6X7M3K4N5P6Q7R8S9T2U"}},
		},
		"Retry-After": {
			Description: "When to try again, in seconds.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64), Examples: []any{2}},
		},
		linkHeader: {
			Description: "Where the next page is, if there is one (RFC 8288).",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`<https://api.example.com/api/posts?cursor=eyJpZCI6N30>; rel="next"`}},
		},
		ratePolicyHeader: {
			Description: "The limit: its name, how many requests (q) in how many seconds (w).",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`"key";q=600;w=60`}},
		},
		rateHeader: {
			Description: "How many requests are left (r), and in how many seconds there are more (t).",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`"key";r=599;t=42`}},
		},
		challengeHeader: {
			Description: "The scheme to sign in with (RFC 9110, section 11.6.1).",
			Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`Bearer realm="waypost"`}},
		},
	}
}

// describeHeaders says of each header itself what Huma says of its schema: that is where
// readers look for it.
func describeHeaders(_ *huma.OpenAPI, op *huma.Operation) {
	for _, r := range op.Responses {
		for _, h := range r.Headers {
			if h.Ref != "" || h.Description != "" || h.Schema == nil {
				continue
			}
			bare := *h.Schema
			h.Description, bare.Description = bare.Description, ""
			h.Schema = &bare
		}
	}
}

func headerReference(name string) *huma.Header {
	return &huma.Header{Ref: "#/components/headers/" + name}
}

func securitySchemes(list resources) map[string]*huma.SecurityScheme {
	schemes := map[string]*huma.SecurityScheme{
		schemeBearer:   {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "The access token from `POST /api/auth/login`."},
		schemeAPIToken: {Type: "http", Scheme: "bearer", Description: "An API token (`wp_...`) from `POST /api/auth/tokens`. Each operation names the scopes that it needs. A token with a rate gets `RateLimit` and `RateLimit-Policy` with every answer."},
		schemeSiteKey: {
			Type: "apiKey", In: "header", Name: siteKeyHeader, Description: "A secret API key of one site. Each operation names the scope that it needs.",
			Extensions: map[string]any{export.Extension: export.SchemeHints{Variable: "siteApiKey"}},
		},
	}
	for _, r := range list {
		maps.Copy(schemes, r.Schemes)
	}
	return schemes
}
