package export

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// request is one of a collection. Texts hold variables as {{name}}.
type request struct {
	key               string // for its id
	order             int
	name, description string
	method            string // in capitals
	path              []segment
	query, header     []field
	body              *body
	auth              auth
	statuses          []int // that count as success; none: any below 400
	capture           map[string]string
	signature         *Signature
	totp              *TOTP
	optional          bool
	answers           []answer
}

// segment is one part of a path between slashes: a literal, or a parameter's
// name with its value.
type segment struct {
	literal string
	param   *field
}

// field is a parameter, a header or a part of a form.
type field struct {
	name, value, description string
	disabled                 bool
	file                     bool // a part that is a file
}

// requests of an operation: one, or one for each variant.
func (d *description) requests(o located) ([]request, error) {
	if err := o.Hints.validate(); err != nil {
		return nil, err
	}
	variants := o.Hints.Variants
	if len(variants) == 0 {
		variants = []Variant{{}}
	}
	out := make([]request, len(variants))
	for i, v := range variants {
		var err error
		if out[i], err = d.request(o, v.over(o.Hints.Variant)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// over completes a variant by what all of them share.
func (v Variant) over(shared Variant) Variant {
	merge := func(base, top map[string]string) map[string]string {
		out := maps.Clone(base)
		if out == nil {
			out = map[string]string{}
		}
		maps.Copy(out, top)
		return out
	}
	v.Summary = cmp.Or(v.Summary, shared.Summary)
	v.Parameters = merge(shared.Parameters, v.Parameters)
	v.Headers = merge(shared.Headers, v.Headers)
	v.Example = cmp.Or(v.Example, shared.Example)
	v.Order = cmp.Or(v.Order, shared.Order)
	v.Credential = cmp.Or(v.Credential, shared.Credential)
	v.Signature = cmp.Or(v.Signature, shared.Signature)
	v.TOTP = cmp.Or(v.TOTP, shared.TOTP)
	if v.Body == nil {
		v.Body = shared.Body
	}
	if v.Status == nil {
		v.Status = shared.Status
	}
	v.Optional = v.Optional || shared.Optional
	if v.Capture == nil {
		v.Capture = shared.Capture
	}
	return v
}

func (d *description) request(o located, v Variant) (request, error) {
	r := request{
		key:         strings.TrimSuffix(o.OperationID+"/"+v.Name, "/"),
		name:        cmp.Or(v.Summary, o.Summary, o.OperationID),
		description: o.Description,
		method:      strings.ToUpper(o.method),
		order:       v.Order,
		auth:        d.auth(o, v),
		capture:     v.Capture,
		optional:    v.Optional,
		signature:   v.Signature,
		totp:        v.TOTP,
		answers:     d.answers(o),
	}
	if v.Name != "" && v.Summary == "" {
		r.name += " (" + v.Name + ")"
	}
	if r.order == 0 && o.method == "delete" {
		r.order = removalOrder
	}
	if o.Deprecated {
		r.description = strings.TrimSpace("**Deprecated.** " + r.description)
	}
	if err := d.addParameters(&r, o, v); err != nil {
		return request{}, err
	}
	var err error
	if r.statuses, err = statuses(o, v); err != nil {
		return request{}, err
	}
	if r.body, err = d.requestBody(o, v); err != nil {
		return request{}, err
	}
	if r.body != nil && len(r.body.form) == 0 {
		r.addHeader(field{name: "Content-Type", value: r.body.mediaType})
	}
	if accept := d.accepted(o); accept != "" {
		r.addHeader(field{name: "Accept", value: accept})
	}
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		r.addHeader(field{name: name, value: v.Headers[name]})
	}
	return r, nil
}

// addHeader keeps a header that is there already, unless that is disabled.
func (r *request) addHeader(f field) {
	for i, h := range r.header {
		if strings.EqualFold(h.name, f.name) {
			if h.disabled {
				r.header[i] = f
			}
			return
		}
	}
	r.header = append(r.header, f)
}

// addParameters fills the path, the query and the headers.
func (d *description) addParameters(r *request, o located, v Variant) error {
	inPath := map[string]*field{}
	unused := maps.Clone(v.Parameters)
	for _, p := range o.Parameters {
		value, given := v.Parameters[p.Name]
		delete(unused, p.Name)
		if !given {
			value = d.parameterText(p)
		}
		f := field{name: p.Name, value: value, description: p.Description, disabled: !p.Required && !given}
		switch p.In {
		case "path":
			inPath[p.Name] = &f
		case "query":
			r.query = append(r.query, members(p, f)...)
		case "header":
			ownByAuth := strings.EqualFold(p.Name, "Authorization") || r.auth.kind == authAPIKey && strings.EqualFold(p.Name, r.auth.name)
			if !ownByAuth && !v.Signature.sets(p.Name) {
				r.header = append(r.header, f)
			}
		}
	}
	for name := range unused {
		return fmt.Errorf("the hints name a parameter %q, which is not documented", name)
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(o.path, "/"), "/") {
		r.path = append(r.path, newSegment(part, inPath))
	}
	return nil
}

// members are what is written of a query's parameter: of an object in the style deepObject
// (OpenAPI 3.1, section 4.8.12.3) each member of its example, as name[member].
func members(p parameter, f field) []field {
	object, ok := decode(p.Example).(map[string]any)
	if p.Style != "deepObject" || !ok {
		return []field{f}
	}
	var list []field
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := f
		one.name, one.value = p.Name+"["+name+"]", text(object[name])
		list = append(list, one)
	}
	return list
}

// newSegment makes one part of a path. Where a parameter is not the whole part,
// which no tool has a variable for, its value is put in.
func newSegment(part string, params map[string]*field) segment {
	for name, p := range params {
		if part == "{"+name+"}" {
			return segment{param: p}
		}
	}
	for name, p := range params {
		part = strings.ReplaceAll(part, "{"+name+"}", p.value)
	}
	return segment{literal: part}
}

func (d *description) parameterText(p parameter) string {
	for _, name := range slices.Sorted(maps.Keys(p.Examples)) {
		if raw := d.example(p.Examples[name]).Value; len(raw) > 0 && len(p.Example) == 0 {
			return text(decode(raw))
		}
	}
	if len(p.Example) > 0 {
		return text(decode(p.Example))
	}
	if p.Schema == nil {
		return ""
	}
	if v, ok := p.Schema.stated(); ok && (p.Required || len(p.Schema.Enum) == 0 || len(p.Schema.Examples) > 0 || len(p.Schema.Default) > 0) {
		return text(v)
	}
	if v, ok := d.sampler(true).sample(p.Schema); ok && p.Required {
		return text(v)
	}
	return ""
}

// text is a value as it stands in a URL or a header: lists in the simple style.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = text(item)
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// statuses lists those that count as success: the hint's, or all documented 2xx,
// or else all documented 3xx.
func statuses(o located, v Variant) ([]int, error) {
	documented := documentedStatuses(o)
	for _, s := range v.Status {
		if !slices.Contains(documented, s) {
			return nil, fmt.Errorf("the hints expect status %d, which is not documented", s)
		}
	}
	if len(v.Status) > 0 {
		return v.Status, nil
	}
	for _, class := range []int{2, 3} {
		if of := slices.DeleteFunc(slices.Clone(documented), func(s int) bool { return s/100 != class }); len(of) > 0 {
			return of, nil
		}
	}
	return nil, nil
}

// documentedStatuses are in ascending order; "default" is none.
func documentedStatuses(o located) []int {
	var out []int
	for code := range o.Responses {
		if n, err := strconv.Atoi(code); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// follows says whether the tools may follow a redirect: not when that is the
// answer to look at.
func (r *request) follows() bool {
	return !slices.ContainsFunc(r.statuses, func(s int) bool { return s/100 == 3 })
}

// accepted is the media type of the first answer that counts as success.
func (d *description) accepted(o located) string {
	for _, status := range documentedStatuses(o) {
		if status >= http.StatusOK && status < http.StatusMultipleChoices {
			kind, _ := preferred(d.response(o.Responses[strconv.Itoa(status)]).Content)
			return kind
		}
	}
	return ""
}
