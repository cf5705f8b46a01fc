package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields extracts the type and the id, each from the body or from a header. A header
// that is missing is "", one sent twice an error. A body's field is a path as
// BodyFields has it.
type Fields struct {
	TypeField, IDField   string
	TypeHeader, IDHeader string
	// Form says that bodies are forms (application/x-www-form-urlencoded) in place of
	// JSON. A field is then a field of the form; behind a full stop, a path into the JSON
	// that it holds: "payload.type". A field sent twice is an error.
	Form bool
}

// Validate returns an error that says what is missing or contradictory.
func (f Fields) Validate() error {
	switch {
	case f.TypeField+f.IDField+f.TypeHeader+f.IDHeader == "":
		return errors.New("extractor: it says neither where the type is nor where the id is")
	case f.TypeField != "" && f.TypeHeader != "":
		return errors.New("extractor: give type_field or type_header, not both")
	case f.IDField != "" && f.IDHeader != "":
		return errors.New("extractor: give id_field or id_header, not both")
	}
	if f.TypeField+f.IDField != "" {
		if err := (BodyFields{Type: f.TypeField, ID: f.IDField}).Validate(); err != nil {
			return fmt.Errorf("extractor: %w", err)
		}
	}
	return errors.Join(headerNamed("type_header", f.TypeHeader), headerNamed("id_header", f.IDHeader))
}

func headerNamed(field, name string) error {
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= utf8.RuneSelf || c == ':' }) {
		return fmt.Errorf("extractor: %s: it is no name for a header", field)
	}
	return nil
}

// Extract implements Extractor.
func (f Fields) Extract(body []byte, h http.Header) (string, string, error) {
	eventType, externalID, err := HeaderFields{Type: f.TypeHeader, ID: f.IDHeader}.Extract(body, h)
	if err != nil || f.TypeField+f.IDField == "" {
		return eventType, externalID, err
	}
	read := f.members(body)
	if f.TypeField != "" {
		if eventType, err = read("event_type", f.TypeField); err != nil {
			return "", "", err
		}
	}
	if f.IDField != "" {
		if externalID, err = read("external_id", f.IDField); err != nil {
			return "", "", err
		}
	}
	return eventType, externalID, nil
}

// members reads paths of the body; field is what an error names.
func (f Fields) members(body []byte) func(field, path string) (string, error) {
	if !f.Form {
		top := members(body)
		return func(field, path string) (string, error) { return scalar(field, follow(top, path)) }
	}
	form, _ := url.ParseQuery(string(body)) // checkForm has looked at it
	return func(field, path string) (string, error) {
		if _, whole := form[path]; whole {
			return once(field, form[path])
		}
		name, rest, _ := strings.Cut(path, ".")
		text, err := once(field, form[name])
		if err != nil || rest == "" || !json.Valid([]byte(text)) || nesting([]byte(text)) > maxNesting {
			return "", err
		}
		return scalar(field, follow(members([]byte(text)), rest))
	}
}

// once is the value of a form's field, "" without one.
func once(field string, values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", &FieldError{Field: field, Reason: "Its field was sent more than once."}
}

// Compose implements Composer.
func (f Fields) Compose(eventType, externalID string, data []byte, h http.Header) ([]byte, error) {
	if f.TypeHeader != "" {
		h.Set(f.TypeHeader, eventType)
	}
	if f.IDHeader != "" {
		h.Set(f.IDHeader, externalID)
	}
	if !f.Form {
		return BodyFields{Type: f.TypeField, ID: f.IDField}.Compose(eventType, externalID, data, nil)
	}
	h.Set("Content-Type", formType)
	form, err := formOf(data)
	if err != nil {
		return nil, err
	}
	for path, value := range map[string]string{f.TypeField: eventType, f.IDField: externalID} {
		switch got, err := f.members([]byte(form.Encode()))("data", path); {
		case path == "":
		case err != nil || got != "" && got != value && value != "":
			return nil, fmt.Errorf("the data already has another %q", path)
		case got == "":
			form.Set(path, value)
		}
	}
	if len(form) == 0 {
		form.Set("test", "1") // an empty form is none
	}
	return []byte(form.Encode()), nil
}

// objectOf is a form as a JSON object of its fields' names to their first values.
func objectOf(form []byte) ([]byte, error) {
	values, err := url.ParseQuery(string(form))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for name := range values {
		fields[name] = values.Get(name)
	}
	return json.Marshal(fields)
}

const formType = "application/x-www-form-urlencoded"

// formOf reads the data of a test delivery: a form, or a JSON object of its fields.
func formOf(data []byte) (url.Values, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return url.Values{}, nil
	}
	if data[0] != '{' {
		return url.ParseQuery(string(data))
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, errors.New("the data is neither a form nor a JSON object")
	}
	form := url.Values{}
	for name, value := range fields {
		if list, ok := value.([]any); ok {
			for _, v := range list {
				form.Add(name, fmt.Sprint(v))
			}
			continue
		}
		form.Set(name, fmt.Sprint(value))
	}
	return form, nil
}

// TakesForms says whether the provider's deliveries are forms in place of JSON.
func (r Registration) TakesForms() bool { return takesForms(r.Extractor) }

// takesForms says whether an extractor's bodies are forms.
func takesForms(e Extractor) bool {
	f, ok := e.(Fields)
	return ok && f.Form
}

// checkForm accepts a form in UTF-8 that has a field. JSON is refused: it would be a
// form as well, of one field with an odd name.
func checkForm(body []byte) error {
	fail := func(reason string) error { return &FieldError{Field: "body", Reason: reason} }
	form, err := url.ParseQuery(string(body))
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return fail("It is empty.")
	case !utf8.Valid(body):
		return fail("It is not valid UTF-8.")
	case json.Valid(body):
		return fail("It is JSON, but the provider sends forms.")
	case err != nil || len(form) == 0:
		return fail("It is not a well-formed form.")
	}
	return nil
}

// Payload is a stored body as JSON: itself, or for a form an object of the names of its
// fields to the lists of their values. It is null for a body that is neither.
func Payload(body []byte) json.RawMessage {
	if json.Valid(body) {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form) == 0 {
		return json.RawMessage("null")
	}
	// Names are written sorted, so that it is the same each time.
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(form)) {
		out.WriteByte([]byte("{,")[min(i, 1)])
		writeJSON(&out, name)
		out.WriteByte(':')
		writeJSON(&out, form[name])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// writeJSON writes text or texts without escaping what is special in HTML alone.
func writeJSON(out *bytes.Buffer, v any) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts always marshal, into memory
	out.Truncate(out.Len() - 1)
}

// mediaType is what a body is sent on as.
func mediaType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return formType
}
