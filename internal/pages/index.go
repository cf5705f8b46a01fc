package pages

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// IndexOptions say what the page of / leads to.
type IndexOptions struct {
	Version string
	// Docs is the path of the documentation.
	Docs string
}

// indexPage is what a service offers.
type indexPage struct {
	Version string
	Groups  []group
}

type group struct {
	Title string
	Links []Link
}

// Index is the page of / for browsers. Its links are relative, so that they also work
// behind a proxy that adds a path.
func (p *Pages) Index(o IndexOptions) http.Handler {
	docs := strings.TrimPrefix(o.Docs, "/")
	view := indexPage{Version: o.Version, Groups: []group{
		{"Try the API", []Link{
			{"Interactive reference", docs + "?ui=primary", "Scalar: read, and send requests"},
			{"Swagger UI", docs + "?ui=alternate", "the same, as others know it"},
		}},
		{"Run the service", []Link{
			{"Operator pages", strings.TrimPrefix(DeskPath, "/"), "for administrators"},
			{"Readiness", "readyz", "database, jobs, mail and what else it needs"},
			{"Health", "healthz", "the process answers"},
		}},
		{"Import it", []Link{
			{"Postman collection", docs + "/export/collection", "v2.1; newman runs it as it is"},
			{"Insomnia workspace", docs + "/export/workspace", "v4; ?format=5 for the YAML of v5"},
			{"OpenAPI 3.1, JSON", docs + "/openapi.json", ""},
			{"OpenAPI 3.1, YAML", docs + "/openapi.yaml", ""},
			{"OpenAPI 3.0, JSON", docs + "/openapi-3.0.json", "for tools that lag"},
		}},
		{"Read it elsewhere", []Link{
			{"llms.txt", docs + "/llms.txt", "an index for language models and terminals"},
			{"llms-full.txt", docs + "/llms-full.txt", "the whole API as Markdown"},
		}},
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { p.render(w, http.StatusOK, "index", view) })
}

// WantsPage reports whether who sent r would rather have a page than JSON: its Accept
// (RFC 9110 section 12.5.1) names text/html, and application/json not before it.
func WantsPage(r *http.Request) bool {
	var page, data float64
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			media, parameters, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			quality := 1.0
			if q, given := parameters["q"]; given {
				if quality, err = strconv.ParseFloat(q, 64); err != nil {
					continue
				}
			}
			switch media {
			case "text/html", "application/xhtml+xml":
				page = max(page, quality)
			case "application/json":
				data = max(data, quality)
			}
		}
	}
	return page > 0 && page >= data
}
