package api

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/stats"
)

// filterValue is the schema of what a filter is compared with: one value or several.
const filterValue = "FilterValue"

func describeFilterValue(r huma.Registry) {
	value := func() *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(2048)}
	}
	r.Map()[filterValue] = &huma.Schema{
		Description: "A value, or several, one of which must match: `*` matches any text, `(none)` what is empty, and `!` in front excludes.",
		OneOf:       []*huma.Schema{value(), {Type: huma.TypeArray, MaxItems: new(20), Items: value()}},
	}
}

// filterTexts say what each filter compares.
var filterTexts = map[stats.Filter]string{
	"path": "The page's path.", "hostname": "The page's host.", "event": "The custom event's name.",
	"entry": "The session's first page.", "exit": "The session's last page.",
	"source": "Where the session came from.", "country": "The two-letter code of the country.",
	"device": "desktop, mobile or tablet.", "browser": "The browser's name.", "os": "The operating system's name.",
	"utm_source": "utm_source of the first page.", "utm_medium": "utm_medium of the first page.",
	"utm_campaign": "utm_campaign of the first page.", "utm_term": "utm_term of the first page.", "utm_content": "utm_content of the first page.",
}

// filterParameter describes filter[path], filter[source] and so on.
func filterParameter() *huma.Param {
	properties := map[string]*huma.Schema{}
	for _, f := range stats.AllFilters() {
		properties[string(f)] = &huma.Schema{Description: filterTexts[f], Extensions: map[string]any{"$ref": "#/components/schemas/" + filterValue}}
	}
	explode := true
	return &huma.Param{
		Name: "filter", In: "query", Style: "deepObject", Explode: &explode,
		Description: "Restrict results, for example `filter[country]=PT` or `filter[path]=/blog/*`. Different filters combine with AND, a repeated one (up to 20 values) with OR.\n\n" +
			"`*` matches any text, `(none)` what is empty; `!` in front excludes; a backslash before `!`, `*` or `(` takes it literally. " +
			"`path`, `hostname`, `event` and `filter[prop:<key>]`, a property of custom events, are of an event, the others of its session.",
		Schema: &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: true},
		// Empty, because what stands here is what a reader's first attempt sends.
		Example: map[string]any{},
	}
}

// nearestFilter is the parameter that a misspelt field of a filter may mean.
func nearestFilter(field string) string {
	known := []string{"prop:<key>"}
	for _, f := range stats.AllFilters() {
		known = append(known, string(f))
	}
	return "filter[" + nearest(strings.TrimSuffix(field, "]"), known) + "]"
}

// readFilters reads filter[name]=pattern from a query.
func readFilters(query url.Values) (stats.Filters, []error) {
	var filters stats.Filters
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(query)) {
		rest, ok := strings.CutPrefix(name, "filter[")
		if !ok {
			continue
		}
		field, ok := strings.CutSuffix(rest, "]")
		if !ok || !stats.IsFilter(stats.Filter(field)) {
			if len(errs) < maxUnknown {
				errs = append(errs, &huma.ErrorDetail{Location: "query." + name, Message: "is not a filter; the nearest is " + nearestFilter(rest)})
			}
			continue
		}
		if filters == nil {
			filters = stats.Filters{}
		}
		filters[stats.Filter(field)] = query[name]
	}
	return filters, errs
}
