package api

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/stats"
)

// filterParameter describes filter[path], filter[source] and so on.
func filterParameter() *huma.Param {
	properties := map[string]*huma.Schema{}
	for _, f := range stats.AllFilters() {
		properties[string(f)] = &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(2048)}
	}
	explode := true
	return &huma.Param{
		Name: "filter", In: "query", Style: "deepObject", Explode: &explode,
		Description: "Counts only what matches: `filter[country]=PT`, `filter[path]=/blog/*`. `*` stands for any text, everything else for itself. " +
			"Several filters must all match; one given several times, up to 20, must match once. " +
			"Counted are the events that match `path` and `event` and whose session matches the rest; and, whole, the sessions that match the rest and in which such an event happened.",
		Schema:  &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: false},
		Example: map[string]any{"country": "PT"},
	}
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
		if !ok || !slices.Contains(stats.AllFilters(), stats.Filter(field)) {
			errs = append(errs, &huma.ErrorDetail{Location: "query." + name, Message: "is no filter"})
			continue
		}
		if filters == nil {
			filters = stats.Filters{}
		}
		filters[stats.Filter(field)] = query[name]
	}
	return filters, errs
}
