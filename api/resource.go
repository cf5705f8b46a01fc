package api

import (
	"cmp"
	"maps"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/apidoc/export"
)

// Resource is a group of operations, with everything that the service and its
// description need to know about the group. Functions such as Posts make one; the list
// of all resources is in internal/app.
type Resource struct {
	// Tag names the group in the description and the exports. Area names the part of
	// the API under which menus show it. Description says what the group is about.
	Tag, Area, Description string
	// Models are structs whose schemas are described: one for answers, one to create,
	// one to update.
	Models []any
	// Aliases are prefixes of paths under which the operations also answer without
	// /api, such as "/posts". The description leaves them out.
	Aliases []string
	// Register adds the operations. Operations without a tag of their own get Tag.
	Register func(huma.API)
	// Routes adds handlers that are not Huma operations; nil for none.
	Routes func(chi.Router)
	// Webhooks are the deliveries that others send to these operations.
	Webhooks []apidoc.Webhook
	// Schemes are security schemes that only these operations use, by name.
	Schemes map[string]*huma.SecurityScheme
	// Variables are values that people fill in before they run an exported collection.
	Variables []export.Variable
}

// resources are a service's, in the order of the description's tags.
type resources []Resource

func (list resources) tags() []*huma.Tag {
	tags := make([]*huma.Tag, len(list))
	for i, r := range list {
		tags[i] = &huma.Tag{Name: r.Tag, Description: r.Description}
	}
	return tags
}

// groups are the areas with their tags, for readers with a menu.
func (list resources) groups() []map[string]any {
	var names []string
	tags := map[string][]string{}
	for _, r := range list {
		if !slices.Contains(names, r.Area) {
			names = append(names, r.Area)
		}
		tags[r.Area] = append(tags[r.Area], r.Tag)
	}
	groups := make([]map[string]any, len(names))
	for i, name := range names {
		groups[i] = map[string]any{"name": name, "tags": tags[name]}
	}
	return groups
}

func (list resources) aliases() []string {
	var paths []string
	for _, r := range list {
		paths = append(paths, r.Aliases...)
	}
	return paths
}

// turnKey holds in an operation's metadata how many were added before it.
const turnKey = "waypost.turn"

// Sequence are the operationIds in the order in which resources add their operations, which
// is that of their use: what one needs first comes first.
func Sequence(doc *huma.OpenAPI) []string {
	turns := map[string]int{}
	for _, item := range doc.Paths {
		for _, op := range methodsOf(item) {
			turns[op.OperationID], _ = op.Metadata[turnKey].(int)
		}
	}
	return slices.SortedFunc(maps.Keys(turns), func(a, b string) int { return cmp.Compare(turns[a], turns[b]) })
}

// register adds all operations and plain handlers.
func (list resources) register(a huma.API, router chi.Router) {
	var current Resource
	doc := a.OpenAPI()
	turn := 0
	doc.OnAddOperation = append(doc.OnAddOperation, func(_ *huma.OpenAPI, op *huma.Operation) {
		if op.Metadata == nil {
			op.Metadata = map[string]any{}
		}
		op.Metadata[turnKey] = turn
		turn++
		if len(op.Tags) == 0 {
			op.Tags = []string{current.Tag}
		}
	})
	for _, current = range list {
		current.Register(a)
		if current.Routes != nil {
			current.Routes(router.With(apidoc.Describe().Tags(current.Tag).Middleware))
		}
	}
}
