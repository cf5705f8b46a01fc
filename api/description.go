package api

import "github.com/danielgtaylor/huma/v2"

// Tags group the operations.
const (
	tagAuth     = "Sign-in"
	tagUsers    = "Users"
	tagPosts    = "Posts"
	tagWebhooks = "Webhooks"
	tagStats    = "Statistics"
	tagService  = "Service"
)

// Description introduces the API, in Markdown.
const Description = `A JSON-over-HTTP backend: sign-in and roles, a webhook receiver that never loses a delivery,
and cookie-less site statistics.

**Answers.** Lists are ` + "`{data, meta}`" + `, single resources ` + "`{data, message}`" + `, errors ` + "`{error: {code, message, details}}`" + `.
Statistics, webhook receipts and collection answer bare bodies as described; their errors keep the envelope.

**Signing in.** ` + "`POST /api/auth/login`" + ` answers an access token that lives 15 minutes; send it as
` + "`Authorization: Bearer <token>`" + `. Statistics are read with a site's secret key in ` + "`X-Analytics-API-Key`" + `.`

var tags = []*huma.Tag{
	{Name: tagAuth, Description: "Sign in, and who is signed in."},
	{Name: tagUsers, Description: "Accounts and their roles."},
	{Name: tagPosts, Description: "Short texts with tags, by signed-in people."},
	{Name: tagWebhooks, Description: "Deliveries from external providers: verified, stored before they are acknowledged, dispatched once."},
	{Name: tagStats, Description: "A site's traffic: counted without cookies, read with the site's secret key."},
	{Name: tagService, Description: "Whether the service is alive and ready, and where its entry points are."},
}

var securitySchemes = map[string]*huma.SecurityScheme{
	schemeBearer:  {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "The access token of `POST /api/auth/login`."},
	schemeSiteKey: {Type: "apiKey", In: "header", Name: siteKeyHeader, Description: "A secret API key of one site, with scope `read`."},
}
