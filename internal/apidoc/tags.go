package apidoc

import (
	"maps"
	"slices"
	"strings"
)

// tagGroups is the extension that readers with a menu go by; ungrouped is the
// group of tags that have no other, which some of them would not show.
const (
	tagGroups = "x-tagGroups"
	ungrouped = "Other"
)

// operations yields each operation of the document's paths and webhooks.
func operations(doc object) func(yield func(object) bool) {
	return func(yield func(object) bool) {
		for _, section := range []string{"paths", "webhooks"} {
			items, _ := doc[section].(object)
			for _, name := range slices.Sorted(maps.Keys(items)) {
				item, _ := items[name].(object)
				for _, method := range methods {
					if op, ok := item[method].(object); ok && !yield(op) {
						return
					}
				}
			}
		}
	}
}

// declareTag returns the tag's name as it is declared, in whatever case, and
// declares it when it is not.
func declareTag(doc object, name string) string {
	tags, _ := doc["tags"].([]any)
	for _, tag := range tags {
		if known := nameOf(tag); strings.EqualFold(known, name) {
			return known
		}
	}
	doc["tags"] = append(tags, object{"name": name, "description": "Routes under " + name + "."})
	return name
}

// pruneTags drops declared tags that no operation has, and keeps the groups to
// the tags that are left.
func pruneTags(doc object) {
	used := map[string]bool{}
	for op := range operations(doc) {
		names, _ := op["tags"].([]any)
		for _, name := range names {
			used[text(name)] = true
		}
	}
	tags, _ := doc["tags"].([]any)
	tags = slices.DeleteFunc(tags, func(tag any) bool { return !used[nameOf(tag)] })
	if doc["tags"] = tags; len(tags) == 0 {
		delete(doc, "tags")
	}
	groups, ok := doc[tagGroups].([]any)
	if !ok {
		return
	}
	rest := map[string]bool{}
	for _, tag := range tags {
		rest[nameOf(tag)] = true
	}
	for _, group := range groups {
		g := group.(object)
		members, _ := g["tags"].([]any)
		g["tags"] = slices.DeleteFunc(members, func(name any) bool { return !used[text(name)] })
		for _, name := range g["tags"].([]any) {
			delete(rest, text(name))
		}
	}
	groups = slices.DeleteFunc(groups, func(group any) bool { return len(group.(object)["tags"].([]any)) == 0 })
	if len(rest) > 0 {
		other := []any{}
		for _, name := range slices.Sorted(maps.Keys(rest)) {
			other = append(other, name)
		}
		groups = append(groups, object{"name": ungrouped, "tags": other})
	}
	if doc[tagGroups] = groups; len(groups) == 0 {
		delete(doc, tagGroups)
	}
}

func nameOf(v any) string {
	o, _ := v.(object)
	return text(o["name"])
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
