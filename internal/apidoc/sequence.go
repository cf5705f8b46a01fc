package apidoc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// sequence is the order in which readers see operations: that of the tags, and within a tag
// that of use, as Options.Sequence has it.
type sequence struct {
	paths   []string
	methods map[string][]string // by path
}

// place is where an operation belongs; nothing is before something.
type place struct{ tag, turn int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.tag, q.tag), cmp.Compare(p.turn, q.turn))
}

func (d *Docs) sequence(doc object) sequence {
	tags, turns := map[string]int{}, map[string]int{}
	for i, tag := range list(doc["tags"]) {
		tags[nameOf(tag)] = i
	}
	for i, id := range d.o.Sequence {
		turns[id] = i + 1
	}
	placeOf := func(op object) place {
		p := place{tag: len(tags), turn: turns[text(op["operationId"])]}
		for _, name := range list(op["tags"]) {
			if i, declared := tags[text(name)]; declared {
				p.tag = min(p.tag, i)
			}
		}
		return p
	}
	s := sequence{methods: map[string][]string{}}
	first := map[string]place{}
	items, _ := doc["paths"].(object)
	for path, item := range items {
		places := map[string]place{}
		for _, method := range methods {
			if op, ok := item.(object)[method].(object); ok {
				places[method] = placeOf(op)
			}
		}
		s.methods[path] = slices.SortedFunc(maps.Keys(places), func(a, b string) int {
			return cmp.Or(places[a].compare(places[b]), cmp.Compare(slices.Index(methods, a), slices.Index(methods, b)))
		})
		if len(places) > 0 {
			first[path] = places[s.methods[path][0]]
		}
	}
	s.paths = slices.SortedFunc(maps.Keys(items), func(a, b string) int {
		return cmp.Or(first[a].compare(first[b]), cmp.Compare(a, b))
	})
	return s
}

// inOrder is an object whose members are written in the order of keys.
type inOrder struct {
	keys    []string
	members object
}

// MarshalJSON writes the members that there are; what the keys lack comes last, sorted.
func (o inOrder) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	out.WriteByte('{')
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(o.members)), func(key string) bool { return slices.Contains(o.keys, key) })
	written := 0
	for _, key := range slices.Concat(o.keys, rest) {
		value, ok := o.members[key]
		if !ok {
			continue
		}
		if written++; written > 1 {
			out.WriteByte(',')
		}
		if err := enc.Encode(key); err != nil {
			return nil, err
		}
		out.WriteByte(':')
		if err := enc.Encode(value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// of are a document's paths in order.
func (s sequence) of(doc document) any {
	items, ok := doc["paths"].(object)
	if !ok {
		return doc["paths"]
	}
	ordered := object{}
	for path, item := range items {
		ordered[path] = inOrder{s.methods[path], item.(object)}
	}
	return inOrder{s.paths, ordered}
}
