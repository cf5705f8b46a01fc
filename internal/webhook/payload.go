package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/text"
)

// maxNesting bounds how deep arrays and objects lie in each other: far above real
// deliveries, and below the depth at which readers of the stored body give up.
const maxNesting = 1000

// checkBody accepts well-formed JSON (RFC 8259) in UTF-8.
func checkBody(body []byte) error {
	fail := func(reason string) error { return &FieldError{Field: "body", Reason: reason} }
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return fail("It is empty.")
	case !utf8.Valid(body):
		return fail("It is not valid UTF-8.")
	case nesting(body) > maxNesting:
		return fail(fmt.Sprintf("It nests deeper than %d levels.", maxNesting))
	case !json.Valid(body):
		return fail("It is not well-formed JSON.")
	}
	return nil
}

// extract judges the body and finds the event's type and external id. It returns
// a *FieldError, or what the provider's extractor returns.
func extract(p Registration, body []byte, h http.Header) (string, string, error) {
	check := checkBody
	if takesForms(p.Extractor) {
		check = checkForm
	}
	if err := check(body); err != nil {
		return "", "", err
	}
	eventType, externalID, err := p.Extractor.Extract(body, h)
	if err != nil {
		return "", "", err
	}
	if err := checkField("event_type", eventType, maxEventType); err != nil {
		return "", "", err
	}
	if err := checkField("external_id", externalID, maxExternalID); err != nil {
		return "", "", err
	}
	return eventType, externalID, nil
}

// nesting returns how many arrays and objects are open at the deepest point.
func nesting(body []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// members reads the top level of a well-formed body. Names are case-sensitive and
// the last of equal names counts; a body that is no object has none.
func members(body []byte) map[string]json.RawMessage {
	if b := bytes.TrimLeft(body, " \t\r\n"); len(b) == 0 || b[0] != '{' {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return nil
	}
	return m
}

// scalar turns a member into text: a string's content, a number as it is spelled,
// "" for null and for a member that is not there.
func scalar(field string, raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return "", nil
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), nil
	case raw[0] != '"':
		return "", &FieldError{Field: field, Reason: "It is neither a string nor a number."}
	case hasLoneSurrogate(raw):
		// encoding/json would quietly put U+FFFD in its place, and two ids would be one.
		return "", &FieldError{Field: field, Reason: "It holds an unpaired surrogate."}
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", &FieldError{Field: field, Reason: "It is not a well-formed string."}
	}
	return s, nil
}

// hasLoneSurrogate looks at the \u escapes of a well-formed JSON string.
func hasLoneSurrogate(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		if s[i] != 'u' {
			continue
		}
		unit := escapedUnit(s[i-1:])
		i += 4
		if !utf16.IsSurrogate(unit) {
			continue
		}
		if utf16.DecodeRune(unit, escapedUnit(s[i+1:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads the \uXXXX that s starts with, -1 when it starts with none.
func escapedUnit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// checkField holds an extracted value against what is stored of it, never
// shortening it: two long ids would become one.
func checkField(field, value string, limit int) error {
	switch {
	case !text.Storable(value):
		return &FieldError{Field: field, Reason: "It holds U+0000 or is not valid UTF-8."}
	case utf8.RuneCountInString(value) > limit:
		return &FieldError{Field: field, Reason: fmt.Sprintf("It has more than %d characters.", limit)}
	}
	return nil
}
