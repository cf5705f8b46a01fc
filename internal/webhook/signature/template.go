package signature

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Placeholders of a Template.
const (
	placeBody      = "{body}"
	placeTimestamp = "{timestamp}"
	placeID        = "{id}"
)

func (s Scheme) template() string { return cmp.Or(s.Template, placeBody) }

// pieces takes a template apart: each text with the placeholder behind it, "" behind
// the last.
func pieces(template string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for {
			open := strings.IndexByte(template, '{')
			length := strings.IndexByte(template[open+1:], '}')
			if open < 0 || length < 0 {
				yield(template, "")
				return
			}
			end := open + 1 + length + 1
			if !yield(template[:open], template[open:end]) {
				return
			}
			template = template[end:]
		}
	}
}

// ambiguous says whether an id holds the text next to its place: then one signature
// would stand for two readings of what it covers. (A timestamp is nothing but digits,
// and its value is held against the clock.)
func (s Scheme) ambiguous(id string) bool {
	_, behind, _ := strings.Cut(s.template(), placeID)
	behind, _, _ = strings.Cut(behind, "{")
	return behind != "" && strings.Contains(id, behind)
}

// Validate returns an error that says what of the scheme is incomplete or
// contradictory, in the words of the configuration file.
func (s Scheme) Validate() error {
	if err := checkHeaderName(s.Header); err != nil {
		return err
	}
	for field, name := range map[string]string{"timestamp_header": s.TimestampHeader, "id_header": s.IDHeader} {
		if name != "" && !headerName.MatchString(name) {
			return fmt.Errorf("%s: it is no name for a header", field)
		}
	}
	switch {
	case !oneOf(s.Digest, "", SHA1, SHA256, SHA512):
		return errors.New("digest: it is one of sha1, sha256, sha512")
	case !oneOf(s.Encoding, "", Hex, Base64):
		return errors.New("encoding: it is one of hex, base64")
	case !oneOf(s.Key, "", TextKey, Base64Key):
		return errors.New("key: it is one of text, base64")
	}
	return cmp.Or(s.checkParts(), s.checkTimestamp(), s.checkTemplate())
}

func oneOf[T comparable](v T, allowed ...T) bool {
	for _, a := range allowed {
		if v == a {
			return true
		}
	}
	return false
}

// inSums are the characters that sums are written with.
const inSums = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func (s Scheme) checkParts() error {
	switch {
	case strings.ContainsAny(s.Separator, inSums):
		return errors.New("separator: it can't be of letters, digits, + or /, which signatures consist of")
	case s.Separator == "" && s.TimestampPrefix != "":
		return errors.New("timestamp_prefix: the header needs a separator between the timestamp and the signature")
	case s.TimestampPrefix != "" && strings.HasPrefix(s.Prefix, s.TimestampPrefix):
		return errors.New("timestamp_prefix: it is also the beginning of prefix, so that the parts can't be told apart")
	case s.Separator != "" && (strings.Contains(s.Prefix, s.Separator) || strings.Contains(s.TimestampPrefix, s.Separator)):
		return errors.New("separator: it occurs in a prefix")
	}
	return nil
}

func (s Scheme) checkTimestamp() error {
	sources := 0
	for _, source := range []string{s.TimestampPrefix, s.TimestampHeader, s.TimestampField} {
		if source != "" {
			sources++
		}
	}
	covered := strings.Contains(s.template(), placeTimestamp)
	switch {
	case sources > 1:
		return errors.New("timestamp: give one of timestamp_header, timestamp_prefix and timestamp_field")
	case sources == 0 && s.Tolerance != 0:
		return errors.New("tolerance: there is no timestamp; give timestamp_header, timestamp_prefix or timestamp_field")
	case sources == 0 && s.Milliseconds:
		return errors.New("timestamp_unit: there is no timestamp; give timestamp_header, timestamp_prefix or timestamp_field")
	case s.Tolerance != 0 && (s.Tolerance < time.Second || s.Tolerance > maxTolerance):
		return errors.New("tolerance: it is 1s to 24h")
	case covered && (sources == 0 || s.TimestampField != ""):
		return errors.New("template: it has {timestamp}; say where that is, with timestamp_header or timestamp_prefix")
	case !covered && sources == 1 && s.TimestampField == "":
		return errors.New("template: without {timestamp} in it, anybody can change the timestamp")
	}
	return nil
}

func (s Scheme) checkTemplate() error {
	count := map[string]int{}
	last := ""
	for text, name := range pieces(s.template()) {
		switch {
		case text == "" && (last == placeID && name == placeBody || last == placeBody && name == placeID):
			return errors.New("template: put something between {id} and {body}, else one signature stands for two readings")
		case name != "" && name != placeBody && name != placeTimestamp && name != placeID:
			return errors.New("template: its placeholders are {body}, {timestamp} and {id}")
		}
		count[name]++
		last = name
	}
	switch {
	case count[placeBody] != 1 || count[placeTimestamp] > 1 || count[placeID] > 1:
		return errors.New("template: {body} stands in it once, {timestamp} and {id} at most once")
	case (count[placeID] == 1) != (s.IDHeader != ""):
		return errors.New("template: {id} and id_header go together")
	}
	return nil
}

// timestampOf is the literal number at a member of the body's top level. The body is
// the provider's, since its signature held.
func timestampOf(body []byte, member string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return "", ErrMalformed
	}
	t, ok := members[member]
	if !ok {
		return "", ErrMissing
	}
	return string(bytes.TrimSpace(t)), nil
}

// Stamp puts the time now where the scheme looks for it in the body, which is a JSON
// object; with a scheme that doesn't look there, the body stays as it is.
func (s Scheme) Stamp(body []byte, now time.Time) ([]byte, error) {
	if s.TimestampField == "" {
		return body, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, fmt.Errorf("the data is not a JSON object, so there is no place for %q", s.TimestampField)
	}
	if _, ok := members[s.TimestampField]; ok {
		return body, nil
	}
	comma := ","
	if len(members) == 0 {
		comma = ""
	}
	rest := bytes.TrimSpace(body)[1:]
	return fmt.Appendf(nil, "{%q:%d%s%s", s.TimestampField, s.stamp(now), comma, rest), nil
}
