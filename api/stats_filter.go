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
		Description: "Counts only matching traffic: `filter[country]=PT`, `filter[path]=/blog/*`. `*` stands for any text, every other character for itself. " +
			"Several filters must all match. If one filter is given several times (up to 20), one of its values must match. " +
			"An event counts if it matches `path` and `event` and its session matches the other filters. A session counts, as a whole, if it matches the other filters and such an event happened in it.",
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
			errs = append(errs, &huma.ErrorDetail{Location: "query." + name, Message: "is not a filter"})
			continue
		}
		if filters == nil {
			filters = stats.Filters{}
		}
		filters[stats.Filter(field)] = query[name]
	}
	return filters, errs
}
