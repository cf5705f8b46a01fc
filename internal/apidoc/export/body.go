package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const typeJSON = "application/json"

// body is a request's: text of a media type, or the parts of a form.
type body struct {
	mediaType string
	text      string
	form      []field
}

// answer is a documented one, with an example.
type answer struct {
	key       string
	name      string
	status    int
	mediaType string // "" for an answer without a body
	header    []field
	text      string
}

// requestBody is the example that the description has, or one that its schema
// allows, changed as the hints say.
func (d *description) requestBody(o located, v Variant) (*body, error) {
	content := d.body(o.RequestBody).Content
	mediaType, m := preferred(content)
	if mediaType == "" {
		if v.Body == nil {
			return nil, nil
		}
		mediaType = typeJSON
	}
	value, err := d.mediaExample(m, v.Example)
	if err != nil {
		return nil, err
	}
	if value == nil {
		value, _ = d.sampler(true).sample(m.Schema)
	}
	if v.Body != nil {
		value = mergePatch(value, v.Body)
	}
	b := &body{mediaType: mediaType}
	switch {
	case isForm(mediaType):
		b.form = d.form(m.Schema, value)
	case isJSON(mediaType):
		b.text = pretty(value)
	default:
		b.text = text(value)
	}
	return b, nil
}

// preferred is JSON where there is a choice.
func preferred(content map[string]mediaType) (string, mediaType) {
	if m, ok := content[typeJSON]; ok {
		return typeJSON, m
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		return name, content[name]
	}
	return "", mediaType{}
}

func isJSON(mediaType string) bool {
	return mediaType == typeJSON || strings.HasSuffix(mediaType, "+json")
}

func isForm(mediaType string) bool {
	return mediaType == "multipart/form-data" || mediaType == "application/x-www-form-urlencoded"
}

// mediaExample is the named example, or else the one or the first.
func (d *description) mediaExample(m mediaType, name string) (any, error) {
	if name != "" {
		e, ok := m.Examples[name]
		if !ok {
			return nil, fmt.Errorf("the hints name an example %q, which is not documented", name)
		}
		return decode(d.example(e).Value), nil
	}
	if len(m.Example) > 0 {
		return decode(m.Example), nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		return decode(d.example(m.Examples[name]).Value), nil
	}
	return nil, nil
}

// form makes the parts of an object's members; binary ones are files.
func (d *description) form(s *schema, value any) []field {
	if s != nil && s.Ref != "" {
		s = component(d.Components.Schemas, "schemas", s.Ref, s)
	}
	if s == nil {
		s = &schema{}
	}
	members, _ := value.(map[string]any)
	names := maps.Clone(s.Properties)
	if names == nil {
		names = map[string]*schema{}
	}
	for name := range members {
		if names[name] == nil {
			names[name] = &schema{}
		}
	}
	var parts []field
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := field{name: name, file: names[name].Format == "binary"}
		if v, ok := members[name]; ok {
			f.value = text(v)
		} else {
			f.disabled = !slices.Contains(s.Required, name)
		}
		parts = append(parts, f)
	}
	return parts
}

// mergePatch is that of RFC 7396, section 2.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if members, ok := target.(map[string]any); ok {
		maps.Copy(out, members)
	}
	for name, change := range changes {
		if change == nil {
			delete(out, name)
		} else {
			out[name] = mergePatch(out[name], change)
		}
	}
	return out
}

// pretty is JSON for people.
func pretty(v any) string {
	raw, err := indent(v)
	if err != nil { // v was decoded from JSON
		return ""
	}
	return string(bytes.TrimSpace(raw))
}

// answers are the documented ones by status, one for each example.
func (d *description) answers(o located) []answer {
	var out []answer
	for _, status := range documentedStatuses(o) {
		r := d.response(o.Responses[strconv.Itoa(status)])
		kind, m := preferred(r.Content)
		base := answer{
			key: o.OperationID + "/" + strconv.Itoa(status), name: strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status)),
			status: status, mediaType: kind, header: d.answerHeader(r, kind),
		}
		if kind == "" {
			out = append(out, base)
			continue
		}
		if len(m.Examples) == 0 {
			value, _ := d.mediaExample(m, "")
			if value == nil {
				value, _ = d.sampler(false).sample(m.Schema)
			}
			base.text = answerText(kind, value)
			out = append(out, base)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
			a, e := base, d.example(m.Examples[name])
			a.key += "/" + name
			a.name += ": " + cmp.Or(e.Summary, name)
			a.text = answerText(kind, decode(e.Value))
			out = append(out, a)
		}
	}
	return out
}

func (d *description) answerHeader(r response, kind string) []field {
	var out []field
	if kind != "" {
		out = append(out, field{name: "Content-Type", value: kind})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		h := d.header(r.Headers[name])
		raw := h.Example
		if len(raw) == 0 && h.Schema != nil {
			if v, ok := h.Schema.stated(); ok {
				raw, _ = json.Marshal(v)
			}
		}
		if len(raw) > 0 {
			out = append(out, field{name: name, value: text(decode(raw))})
		}
	}
	return out
}

func answerText(kind string, value any) string {
	if isJSON(kind) {
		return pretty(value)
	}
	return text(value)
}
