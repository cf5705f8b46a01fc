package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc"
)

type index struct {
	Name        string            `json:"name" example:"Waypost" doc:"The service's name."`
	Version     string            `json:"version" example:"1.0.0" doc:"The API's version."`
	EntryPoints map[string]string `json:"entry_points" doc:"The URLs of the entry points, by name." example:"{\"docs\":\"https://api.example.com/docs\"}"`
}

type indexOutput struct {
	CacheControl string `header:"Cache-Control" doc:"A copy must be checked before each use." example:"no-cache"`
	Link         string `header:"Link" example:"<https://api.example.com/docs/openapi.json>; rel=\"service-desc\"; type=\"application/json\"" doc:"Where the description of the API is (RFC 8631)."`
	Body         single[index]
}

func registerIndex(a huma.API, baseURL, docs, tools string) {
	entries := map[string]string{
		"docs":         baseURL + docs,
		"openapi":      baseURL + docs + "/openapi.json",
		"sign_in":      baseURL + "/api/auth/login",
		"webhooks":     baseURL + "/webhooks/{provider}",
		"statistics":   baseURL + "/api/stats/summary",
		"collect":      baseURL + "/api/collect",
		"health":       baseURL + "/healthz",
		"readiness":    baseURL + "/readyz",
		"deliveries":   baseURL + "/api/admin/webhooks",
		"users":        baseURL + "/api/users",
		"posts":        baseURL + "/api/posts",
		"blogs":        baseURL + "/api/blogs",
		"openapi_yaml": baseURL + docs + "/openapi.yaml",
	}
	if tools != "" {
		entries["tools"] = baseURL + tools
	}
	huma.Register(a, access(huma.Operation{
		OperationID: "get-service-index",
		Method:      http.MethodGet,
		Path:        "/",
		Summary:     "List the service's entry points",
		Description: "The URLs of the service's entry points, for those who know only its base URL.",
	}, public()), func(context.Context, *struct{}) (*indexOutput, error) {
		return &indexOutput{
			CacheControl: "no-cache",
			Link:         apidoc.ServiceDescription(entries["openapi"]),
			Body:         single[index]{Data: index{Name: "Waypost", Version: Version, EntryPoints: entries}, Message: "Welcome. The documentation is at " + docs + "."},
		}, nil
	})
}
