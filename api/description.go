package api

import (
	"maps"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/httpedge"
)

// Description introduces the API, in Markdown.
const Description = `A JSON-over-HTTP backend: sign-in and roles, a webhook receiver that never loses a delivery,
and cookie-less site statistics.

**Answers.** Lists are ` + "`{data, meta}`" + `, single resources ` + "`{data, message}`" + `, errors ` + "`{error: {code, message, details}}`" + `.
Statistics, webhook receipts and collection answer without this envelope, as described; their errors have it.

**Signing in.** ` + "`POST /api/auth/login`" + ` answers with an access token that is valid for 15 minutes; send it as
` + "`Authorization: Bearer <token>`" + `. Statistics are read with a site's secret key in ` + "`X-Analytics-API-Key`" + `.`

// describe fills in what the API says of itself as a whole.
func describe(config *huma.Config, baseURL string, list resources) {
	config.Info.Description = Description
	config.Info.Contact = &huma.Contact{Name: "The operator of this service", URL: baseURL}
	config.Servers = []*huma.Server{{URL: baseURL, Description: "This service"}}
	config.Tags = list.tags()
	config.Extensions = map[string]any{"x-tagGroups": list.groups(), export.Extension: exportVariables(list)}
	config.Components.SecuritySchemes = securitySchemes(list)
	config.Components.Headers = headers()
	config.OnAddOperation = append(config.OnAddOperation, describeRow, describeAnswers)
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
			Description: "The id of the request in logs and traces. A client's own id is used if it is well-formed.",
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

func securitySchemes(list resources) map[string]*huma.SecurityScheme {
	schemes := map[string]*huma.SecurityScheme{
		schemeBearer:   {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "The access token from `POST /api/auth/login`."},
		schemeAPIToken: {Type: "http", Scheme: "bearer", Description: "An API token (`wp_...`) from `POST /api/auth/tokens`. Each operation names the scopes that it needs."},
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
