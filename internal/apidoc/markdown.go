package apidoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds how deep the members of a body are spelled out.
const maxDepth = 6

// markdown writes the document for language models and terminals: one section per
// operation, in the order of the tags (https://llmstxt.org).
type markdown struct {
	bytes.Buffer
	doc, schemas object
	order        sequence
}

func writeMarkdown(doc object, order sequence, prefix string) []byte {
	components, _ := doc["components"].(object)
	schemas, _ := components["schemas"].(object)
	m := &markdown{doc: doc, schemas: schemas, order: order}
	info := member(doc, "info")
	m.line("# %s", text(info["title"]))
	m.line("> Version %s, an OpenAPI description as text.", text(info["version"]))
	m.paragraph(text(info["description"]))
	m.servers(doc, prefix)
	m.schemes(components)
	m.tags(doc, func(description string) { m.paragraph(description) }, m.operation)
	return append(bytes.TrimRight(m.Bytes(), "\n"), '\n')
}

// writeIndex writes a line for each operation, linked to its section of the whole. Links
// are relative, for the index and the whole lie side by side.
func writeIndex(doc object, order sequence, prefix string) []byte {
	m := &markdown{doc: doc, order: order}
	info := member(doc, "info")
	m.line("# %s", text(info["title"]))
	about, _, _ := strings.Cut(text(info["description"]), "\n\n")
	if about = oneLine(about); about != "" {
		m.line("> %s", about)
	}
	m.line("Version %s. How to sign in, what answers look like and every operation: [llms-full.txt](llms-full.txt), in which a section is named after its operationId.",
		text(info["version"]))
	m.servers(doc, prefix)
	m.tags(doc, func(string) {}, func(title string, op object) {
		id := text(op["operationId"])
		summary := text(op["summary"])
		if op["deprecated"] == true {
			summary += " (deprecated)"
		}
		fmt.Fprintf(m, "- [%s](llms-full.txt#%s): %s\n", title, id, oneLine(summary))
	})
	return append(bytes.TrimRight(m.Bytes(), "\n"), '\n')
}

// line writes a block of its own.
func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n\n", args...) }

func (m *markdown) paragraph(s string) {
	if s = strings.TrimSpace(s); s != "" {
		m.line("%s", s)
	}
}

func (m *markdown) servers(doc object, prefix string) {
	base := ""
	for _, s := range list(doc["servers"]) {
		url := text(s.(object)["url"])
		if base == "" {
			base = strings.TrimRight(url, "/")
		}
		fmt.Fprintf(m, "- Server: %s\n", url)
	}
	for _, form := range [][2]string{{"openapi.json", "OpenAPI 3.1"}, {"openapi-3.0.json", "OpenAPI 3.0"}} {
		fmt.Fprintf(m, "- [%s](%s%s/%s)\n", form[1], base, prefix, form[0])
	}
	m.WriteByte('\n')
}

func (m *markdown) schemes(components object) {
	schemes, _ := components["securitySchemes"].(object)
	if len(schemes) == 0 {
		return
	}
	m.line("## Credentials")
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		s := schemes[name].(object)
		how := "an HTTP " + text(s["scheme"]) + " credential in `Authorization`"
		if s["type"] == "apiKey" {
			how = "the " + text(s["in"]) + " `" + text(s["name"]) + "`"
		}
		fmt.Fprintf(m, "%s\n", strings.TrimSpace(fmt.Sprintf("- `%s`: %s. %s", name, how, oneLine(s["description"]))))
	}
	m.WriteByte('\n')
}

// tags writes the operations below the first tag of each: the declared ones in
// their order, then others.
func (m *markdown) tags(doc object, introduce func(description string), write func(title string, op object)) {
	description := map[string]string{}
	var names []string
	for _, tag := range list(doc["tags"]) {
		names = append(names, nameOf(tag))
		description[nameOf(tag)] = text(tag.(object)["description"])
	}
	sections := map[string][]func(){}
	m.eachOperation(func(title string, op object) {
		name := ungrouped
		if tags := list(op["tags"]); len(tags) > 0 {
			name = text(tags[0])
		}
		sections[name] = append(sections[name], func() { write(title, op) })
	})
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if _, declared := description[name]; !declared {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if len(sections[name]) == 0 {
			continue
		}
		m.line("## %s", name)
		introduce(description[name])
		for _, section := range sections[name] {
			section()
		}
		if !bytes.HasSuffix(m.Bytes(), []byte("\n\n")) {
			m.WriteByte('\n')
		}
	}
}

// eachOperation gives the operations in their order with what a reader calls
// them: method and path, or the name of a webhook.
func (m *markdown) eachOperation(f func(title string, op object)) {
	paths, _ := m.doc["paths"].(object)
	for _, path := range m.order.paths {
		for _, method := range m.order.methods[path] {
			f(strings.ToUpper(method)+" "+path, paths[path].(object)[method].(object))
		}
	}
	webhooks, _ := m.doc["webhooks"].(object)
	for _, name := range slices.Sorted(maps.Keys(webhooks)) {
		for _, method := range methods {
			if op, ok := webhooks[name].(object)[method].(object); ok {
				f("Webhook "+name, op)
			}
		}
	}
}

func (m *markdown) operation(title string, op object) {
	m.line("### %s", text(op["operationId"]))
	summary := text(op["summary"])
	if op["deprecated"] == true {
		summary += " (deprecated)"
	}
	m.paragraph("`" + title + "`: " + summary)
	m.paragraph(text(op["description"]))
	m.line("Credential: %s.", credentials(op))
	if parameters := list(op["parameters"]); len(parameters) > 0 {
		m.line("Parameters:")
		for _, p := range parameters {
			m.parameter(p.(object))
		}
		m.WriteByte('\n')
	}
	if body, ok := op["requestBody"].(object); ok {
		m.content("Body", body)
	}
	m.responses(op)
}

func credentials(op object) string {
	var names []string
	for _, requirement := range list(op["security"]) {
		for _, name := range slices.Sorted(maps.Keys(requirement.(object))) {
			names = append(names, "`"+name+"`")
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " or ")
}

func (m *markdown) parameter(p object) {
	schema, _ := p["schema"].(object)
	fmt.Fprintf(m, "- `%s` (%s): %s\n", text(p["name"]), joined(text(p["in"]), traits(schema, p["required"] == true)), oneLine(p["description"]))
}

func (m *markdown) responses(op object) {
	responses, _ := op["responses"].(object)
	var failures []string
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		answer := resolveResponse(m.doc, responses[status].(object))
		if n, err := strconv.Atoi(status); err != nil || n >= 400 {
			failures = append(failures, fmt.Sprintf("- %s: %s", status, oneLine(answer["description"])))
			continue
		}
		m.content("Answer "+status, answer)
	}
	if len(failures) > 0 {
		m.line("Failures:")
		m.line("%s", strings.Join(failures, "\n"))
	}
}

// content writes the members of a body's first media type and an example.
func (m *markdown) content(name string, body object) {
	content, _ := body["content"].(object)
	mediaTypes := slices.Sorted(maps.Keys(content))
	description := oneLine(body["description"])
	if len(mediaTypes) == 0 {
		m.line("%s, without a body: %s", name, description)
		return
	}
	m.line("%s", strings.TrimRight(fmt.Sprintf("%s (%s): %s", name, strings.Join(mediaTypes, ", "), description), ": "))
	media := content[mediaTypes[0]].(object)
	if before := m.Len(); m.members(media["schema"], "", nil) > 0 && m.Len() > before {
		m.WriteByte('\n')
	}
	if value, ok := exampleOf(media); ok {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if enc.Encode(value) == nil {
			m.line("```json\n%s```", &out)
		}
	}
}

func exampleOf(media object) (any, bool) {
	if v, ok := media["example"]; ok {
		return v, true
	}
	named, _ := media["examples"].(object)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		v, ok := named[name].(object)["value"]
		return v, ok
	}
	return nil, false
}

// members lists a schema's properties, indented below each other, and returns how
// many lines that took.
func (m *markdown) members(schema any, indent string, open []string) int {
	s, open := m.resolve(schema, open)
	if s == nil || len(indent) > 2*maxDepth {
		return 0
	}
	if items, ok := s["items"]; ok {
		return m.members(items, indent, open)
	}
	n := 0
	for _, branch := range slices.Concat(list(s["oneOf"]), list(s["anyOf"])) {
		n += m.members(branch, indent, open)
	}
	required := list(s["required"])
	properties, _ := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(object)
		target, _ := m.resolve(p, nil)
		description := oneLine(p["description"])
		if description == "" && target != nil {
			description = oneLine(target["description"])
		}
		fmt.Fprintf(m, "%s\n", strings.TrimRight(fmt.Sprintf("%s- `%s` (%s): %s", indent, name,
			traits(target, slices.Contains(required, any(name))), description), ": "))
		n += 1 + m.members(p, indent+"  ", open)
	}
	return n
}

// resolve follows a reference, unless it leads back to a schema that is open.
func (m *markdown) resolve(schema any, open []string) (object, []string) {
	s, _ := schema.(object)
	name, ok := strings.CutPrefix(text(s["$ref"]), schemaPrefix)
	if !ok {
		return s, open
	}
	if slices.Contains(open, name) {
		return nil, open
	}
	target, _ := m.schemas[name].(object)
	return target, append(slices.Clone(open), name)
}

// traits says in a few words what a schema demands.
func traits(s object, required bool) string {
	kind := text(s["type"])
	for i, t := range list(s["type"]) {
		if i > 0 {
			kind += " or "
		}
		kind += text(t)
	}
	words := []string{kind}
	if format := text(s["format"]); format != "" && !strings.HasPrefix(format, "int") && format != "double" {
		words = append(words, format)
	}
	if values := list(s["enum"]); len(values) > 0 {
		names := make([]string, len(values))
		for i, v := range values {
			names[i] = fmt.Sprint(v)
		}
		words = append(words, "one of "+strings.Join(names, ", "))
	}
	words = append(words, between(s, "minimum", "maximum", ""), between(s, "minLength", "maxLength", " characters"), between(s, "minItems", "maxItems", " items"))
	if v, ok := s["default"]; ok {
		words = append(words, fmt.Sprintf("default %v", v))
	}
	if required {
		words = append(words, "required")
	}
	return joined(words...)
}

// between says two bounds in a few words, "" when there is none.
func between(s object, low, high, unit string) string {
	least, hasLeast := s[low]
	most, hasMost := s[high]
	switch {
	case hasLeast && hasMost:
		return fmt.Sprintf("%v to %v%s", least, most, unit)
	case hasLeast:
		return fmt.Sprintf("at least %v%s", least, unit)
	case hasMost:
		return fmt.Sprintf("at most %v%s", most, unit)
	}
	return ""
}

func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

func oneLine(v any) string { return strings.Join(strings.Fields(text(v)), " ") }
