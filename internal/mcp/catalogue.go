package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// tool is an operation as an assistant sees it, and as it is called.
type tool struct {
	listed       *sdk.Tool
	method, path string
	tags         []string
	parameters   map[string]parameter
	takesBody    bool
	openTo       func(identity.Principal) bool
}

// parameter says where an argument goes.
type parameter struct {
	in    string // path, query or header
	deep  bool   // an object whose members are parameters of their own: name[member]
	comma bool   // a list in one value
}

// catalogue is every tool, in the order of their names.
type catalogue struct {
	tools []*tool
	tags  map[string]string // names as they are declared, by their keys
}

// object is a JSON object; numbers in it are as they were written.
type object = map[string]any

// newCatalogue reads the tools from the description.
func newCatalogue(o Options) (*catalogue, error) {
	raw, err := o.Description()
	if err != nil {
		return nil, fmt.Errorf("mcp: the description: %w", err)
	}
	doc, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("mcp: the description: %w", err)
	}
	offers := map[string]Offer{}
	for _, offer := range o.Offers {
		offers[offer.Name] = offer
	}
	c := &catalogue{tags: map[string]string{}}
	for path, item := range objects(doc["paths"]) {
		for method, op := range objects(item) {
			for _, tag := range texts(op["tags"]) {
				c.tags[tagKey(tag)] = tag
			}
			offer, offered := offers[text(op["operationId"])]
			if !offered {
				continue
			}
			t, err := newTool(doc, strings.ToUpper(method), path, op, offer)
			if err != nil {
				return nil, fmt.Errorf("mcp: %s %s: %w", method, path, err)
			}
			c.tools = append(c.tools, t)
		}
	}
	slices.SortFunc(c.tools, func(a, b *tool) int { return strings.Compare(a.listed.Name, b.listed.Name) })
	return c, nil
}

func newTool(doc object, method, path string, op object, offer Offer) (*tool, error) {
	t := &tool{method: method, path: path, tags: texts(op["tags"]), parameters: map[string]parameter{}, openTo: offer.OpenTo}
	input, err := t.input(doc, op, offer.Without)
	if err != nil {
		return nil, err
	}
	t.listed = &sdk.Tool{
		Name: offer.Name, Title: text(op["summary"]), Description: text(op["description"]),
		InputSchema: input, Annotations: hints(method),
	}
	output, err := outputSchema(doc, op)
	if err != nil {
		return nil, err
	}
	if output != nil {
		t.listed.OutputSchema = output
	}
	return t, nil
}

// hints say what a method does to the service (RFC 9110, section 9.2), and nothing to the
// world. All of them are said, since their absence means the worst.
func hints(method string) *sdk.ToolAnnotations {
	idempotent := method == "PUT" || method == "PATCH" || method == "DELETE"
	return &sdk.ToolAnnotations{
		ReadOnlyHint: method == "GET", IdempotentHint: idempotent,
		DestructiveHint: new(method == "DELETE"), OpenWorldHint: new(false),
	}
}

// tagged are the tools with the tags that a query names, all of them if it names none.
func (c *catalogue) tagged(query url.Values) ([]*tool, error) {
	if !query.Has("tags") {
		return c.tools, nil
	}
	wanted := map[string]bool{}
	for _, list := range query["tags"] {
		for name := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(name) == "" {
				continue
			}
			tag, ok := c.tags[tagKey(name)]
			if !ok {
				return nil, fault.Validation(map[string]string{"query.tags": fmt.Sprintf("There is no tag %q. There are %s.",
					name, strings.Join(slices.Sorted(maps.Keys(c.tags)), ", "))})
			}
			wanted[tag] = true
		}
	}
	if len(wanted) == 0 {
		return nil, errNoTags
	}
	var list []*tool
	for _, t := range c.tools {
		if slices.ContainsFunc(t.tags, func(tag string) bool { return wanted[tag] }) {
			list = append(list, t)
		}
	}
	return list, nil
}

// tagKey is a tag as addresses have it: in lower case, with - for spaces.
func tagKey(name string) string {
	return strings.Join(strings.Fields(strings.ToLower(name)), "-")
}

func readObject(raw []byte) (object, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var o object
	err := d.Decode(&o)
	return o, err
}

// objects yields the members of v that are objects, if v is one.
func objects(v any) func(yield func(string, object) bool) {
	return func(yield func(string, object) bool) {
		o, _ := v.(object)
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if member, ok := o[name].(object); ok && !yield(name, member) {
				return
			}
		}
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) []string {
	values, _ := v.([]any)
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = text(value)
	}
	return list
}
