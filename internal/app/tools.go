package app

import (
	"cmp"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/mcp"
)

// toolsPath is where assistants find the operations as tools.
const toolsPath = "/mcp"

// pathOfTools is "" where they are turned off.
func pathOfTools(c config.Config) string {
	if c.MCP == "off" {
		return ""
	}
	return toolsPath
}

// offerTools adds the operations of the description as tools for assistants. Their calls are
// requests to r, as those of others. It is no operation itself: it would be a tool of its own.
func offerTools(r chi.Router, c config.Docs, operations api.Options, docs *apidoc.Docs, declared []api.Tool) error {
	o := mcp.Options{
		Title: cmp.Or(c.Title, api.Title), Version: cmp.Or(c.Version, api.Version), BaseURL: operations.BaseURL,
		Description: func() ([]byte, error) { return docs.Bytes(apidoc.JSON) },
		Service:     r,
		Route: func(method, path string) string {
			found := chi.NewRouteContext()
			if !r.Match(found, method, path) {
				return ""
			}
			return found.RoutePattern()
		},
		Caller: api.Caller(operations.Authenticator), ReadBody: api.ReadBody,
	}
	for _, t := range declared {
		if t.Withheld == "" {
			o.Offers = append(o.Offers, mcp.Offer{Name: t.OperationID, Without: t.Without, MaxBody: t.MaxBody, OpenTo: t.OpenTo})
		}
	}
	tools, err := mcp.New(o)
	if err != nil {
		return err
	}
	r.With(httpedge.CheckQuery).Method(http.MethodPost, toolsPath, tools)
	return nil
}
