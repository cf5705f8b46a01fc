package api_test

import (
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/webhook"
)

// unmanned are resources without a service, of which no operation can be called.
func unmanned(t *testing.T) []api.Resource {
	t.Helper()
	webhooks, err := api.Webhooks(nil, nil, webhook.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	return []api.Resource{webhooks, api.Statistics(nil, nil, api.Collection{}), api.Sites(nil, nil, nil), api.Mails(nil), api.Audit(nil, nil), api.AI(nil), api.Service(baseURL, "/docs", "/mcp", api.Condition{})}
}

// described is the description of all resources.
func described(t *testing.T) *huma.OpenAPI {
	t.Helper()
	a, err := api.Mount(chi.NewRouter(), api.Options{
		BaseURL:   baseURL,
		Resources: append(unmanned(t), api.SignIn(nil, nil, baseURL), api.APITokens(nil), api.Users(nil), api.ServiceAccounts(nil), api.Posts(nil), api.Blogs(nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.OpenAPI()
}
