package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"gopkg.in/yaml.v3"
)

// ReadSection decodes a YAML file into a struct whose members have yaml tags. Its error
// names each thing that the struct has no place for, by file, line and path, says what
// may stand there, and shows no value: it may be a secret. An empty file is no error.
func ReadSection(file string, data []byte, into any) error {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s: %w", file, readableYAML(err))
	}
	if len(document.Content) == 0 {
		return nil
	}
	c := checker{file: file}
	c.check(document.Content[0], reflect.TypeOf(into).Elem(), "", 0)
	if err := errors.Join(c.errs...); err != nil {
		return err
	}
	if err := document.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, readableYAML(err))
	}
	return nil
}

// OneOrMany is a list in whose place a single mapping may stand.
type OneOrMany[T any] []T

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *OneOrMany[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]T)(l))
	}
	var one T
	if err := n.Decode(&one); err != nil {
		return err
	}
	*l = OneOrMany[T]{one}
	return nil
}

func (OneOrMany[T]) orSingle() {}

var single = reflect.TypeFor[interface{ orSingle() }]()

// checker holds a file against the types that it is decoded into.
type checker struct {
	file string
	errs []error
}

// maxDepth bounds how deep a file nests: an alias may stand within what it stands for.
const maxDepth = 32

func (c *checker) fail(n *yaml.Node, path, text string) {
	if path != "" {
		path += ": "
	}
	c.errs = append(c.errs, fmt.Errorf("%s:%d: %s%s", c.file, n.Line, path, text))
}

var decodesItself = reflect.TypeFor[yaml.Unmarshaler]()

func (c *checker) check(n *yaml.Node, t reflect.Type, path string, depth int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case depth > maxDepth:
		c.fail(n, path, "it nests too deep")
	case t == reflect.TypeFor[yaml.Node](), n.Tag == "!!null":
	case !t.Implements(single) && (t.Implements(decodesItself) || reflect.PointerTo(t).Implements(decodesItself)):
	case t.Kind() == reflect.Pointer:
		c.check(n, t.Elem(), path, depth)
	case t.Implements(single) && n.Kind == yaml.MappingNode:
		c.check(n, t.Elem(), path, depth)
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		c.members(n, t, path, depth)
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.check(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value), depth+1)
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, entry := range n.Content {
			c.entry(entry, t.Elem(), fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	case !fits(n, t):
		c.fail(n, path, "this is "+kindOf(n)+"; it should be "+wanted(t))
	}
}

// entry checks one of a list. The library leaves out those without a value, so that all
// behind them would be somewhere else.
func (c *checker) entry(n *yaml.Node, t reflect.Type, path string, depth int) {
	if n.Tag == "!!null" {
		c.fail(n, path, "this entry is empty; it should be "+wanted(t))
		return
	}
	c.check(n, t, path, depth)
}

// members checks a mapping, and mappings that are merged into it.
func (c *checker) members(n *yaml.Node, t reflect.Type, path string, depth int) {
	known, types, others := membersOf(t)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch member, ok := types[key.Value]; {
		case key.Tag == "!!merge":
			c.merged(value, t, path, depth+1)
		case ok:
			c.check(value, member, join(path, key.Value), depth+1)
		case !others:
			c.fail(key, path, fmt.Sprintf("unknown member %.60q; %sit may be %s", key.Value, Suggest(key.Value, known), strings.Join(known, ", ")))
		}
	}
}

func (c *checker) merged(n *yaml.Node, t reflect.Type, path string, depth int) {
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			c.check(one, t, path, depth)
		}
		return
	}
	c.check(n, t, path, depth)
}

// membersOf lists the names of a struct's members, sorted, with their types. others is
// true when an inline map takes every other name.
func membersOf(t reflect.Type) (known []string, types map[string]reflect.Type, others bool) {
	types = map[string]reflect.Type{}
	for i := range t.NumField() {
		name, flags, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch {
		case flags == "inline" && t.Field(i).Type.Kind() == reflect.Map:
			others = true
		case flags == "inline":
			_, more, open := membersOf(t.Field(i).Type)
			for inner, typ := range more {
				types[inner] = typ
				known = append(known, inner)
			}
			others = others || open
		case name != "" && name != "-":
			types[name] = t.Field(i).Type
			known = append(known, name)
		}
	}
	slices.Sort(known)
	return known, types, others
}

// Suggest is "did you mean <name>? " with the known name that is nearest to a written
// one, or nothing when none is near.
func Suggest(written string, known []string) string {
	if len(known) == 0 || len(written) > 60 {
		return ""
	}
	distance := func(name string) int {
		if len(written) > 2 && strings.HasPrefix(name, strings.ToLower(written)) {
			return 1
		}
		return levenshtein.ComputeDistance(strings.ToLower(written), name)
	}
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(a) - distance(b) })
	if distance(nearest) > max(2, len(nearest)/3) {
		return ""
	}
	return "did you mean " + nearest + "? "
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fits says whether a node of one value can become a value of a type; all others
// can't.
func fits(n *yaml.Node, t reflect.Type) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	switch t.Kind() {
	case reflect.String:
		return true // also a number, as it is spelled
	case reflect.Bool:
		return n.Tag == "!!bool"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return n.Tag == "!!int"
	case reflect.Float64:
		return n.Tag == "!!int" || n.Tag == "!!float"
	}
	return false
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		known, _, _ := membersOf(t)
		return "a mapping with " + strings.Join(known, ", ")
	case reflect.Map:
		return "a mapping"
	case reflect.Slice:
		if t.Implements(single) {
			return wanted(t.Elem()) + ", or a list of such"
		}
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// LinesOf tells where things are in a YAML file: the line of what a path of names and
// positions leads to, or of the last thing on the way that is there.
func LinesOf(data []byte) (func(path ...any) int, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, readableYAML(err)
	}
	root := &document
	if len(document.Content) > 0 {
		root = document.Content[0]
	}
	return func(path ...any) int {
		node := root
		for _, step := range path {
			next := child(node, step)
			if next == nil {
				break
			}
			node = next
		}
		return node.Line
	}, nil
}

// child is a mapping's value of that name, or a list's entry at that position; nil when
// there is none.
func child(node *yaml.Node, step any) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	var found *yaml.Node
	switch s := step.(type) {
	case string:
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == s {
				found = node.Content[i+1]
				break
			}
		}
	case int:
		if node.Kind == yaml.SequenceNode && s < len(node.Content) {
			found = node.Content[s]
		}
	}
	return found
}

var (
	goType = regexp.MustCompile(` (in type|into) .*`)
	quoted = regexp.MustCompile("(?s) `.*?`")
)

// readableYAML takes Go's types and the file's values out of the library's messages.
func readableYAML(err error) error {
	text := goType.ReplaceAllString(quoted.ReplaceAllString(err.Error(), ""), "")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n  ", "")
	text = strings.NewReplacer("cannot unmarshal !!", "the wrong kind of value: ").Replace(text)
	return errors.New(text)
}
