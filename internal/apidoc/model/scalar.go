package model

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waypost/waypost/internal/text"
)

// emailForm is RFC 5321's Dot-string "@" Domain, as a pattern that RE2 and
// ECMA-262 read alike, so that the schema can carry it. \x27 is an apostrophe:
// there are readers that put a pattern between apostrophes.
const emailForm = "^[A-Za-z0-9!#$%&\\x27*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&\\x27*+/=?^_`{|}~-]+)*" +
	"@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"

// hostForm is a host name, in ASCII or not, or an IP address. What is not in ASCII is left
// to the reader of the name: no pattern has the rules of internationalised names.
const hostForm = `^(` + hostLabel + `([.]` + hostLabel + `)*[.]?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)$`

// hostLabel has letters and digits, with hyphens among them.
const (
	hostLabel  = hostLetter + `([^\x00-,.\x2F:-@\x5B-\x60\x7B-\xA0]{0,61}` + hostLetter + `)?`
	hostLetter = `[^\x00-\x2F:-@\x5B-\x60\x7B-\xA0]`
)

var (
	hostPattern = regexp.MustCompile(hostForm)
	uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

const (
	// noNUL: PostgreSQL's text cannot hold U+0000.
	noNUL = `^[^\x00]*$`
	// fourDigitYear keeps a time inside RFC 3339 after any change of zone.
	fourDigitYear = `^[1-8][0-9]{3}-`
)

var emailPattern = regexp.MustCompile(emailForm)

// Text with a character that is no white space, of which ECMA-262 and RE2 each
// have their own idea in \s: these are Unicode's. lineForm and namedForm are one
// line of text, and one that is not blank.
const (
	nonblankForm = `^[^\x00]*[^\x00\x09-\x0D\x85\u2028\u2029` + text.Spaces + `][^\x00]*$`
	lineForm     = `^[^` + text.RefusedInLine + `]*$`
	namedForm    = `^[^` + text.RefusedInLine + `]*[^` + text.RefusedInLine + text.Spaces + `][^` + text.RefusedInLine + `]*$`
)

const maxLocalPart = 64 // RFC 5321, section 4.5.3.1.1

func isEmail(s string) bool {
	return emailPattern.MatchString(s) && strings.IndexByte(s, '@') <= maxLocalPart
}

// maxNumberLength bounds the digits that are looked at exactly.
const maxNumberLength = 1000

// namedOf is namedForm for at least so many characters, white space around them apart.
func namedOf(least int) string {
	if least < 2 {
		return namedForm
	}
	inside := `[^` + text.RefusedInLine + text.Spaces + `]`
	return `^[^` + text.RefusedInLine + `]*` + inside + `[^` + text.RefusedInLine + `]{` + strconv.Itoa(least-2) + `,}` + inside + `[^` + text.RefusedInLine + `]*$`
}

// unquote reads a JSON string. encoding/json would turn bad UTF-8 and lone
// surrogates into U+FFFD without a word.
func (c *check) unquote(path string, raw json.RawMessage) (string, bool) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		c.report(path, "Must be a string.")
		return "", false
	}
	if !utf8.Valid(raw) || hasLoneSurrogate(raw) {
		c.report(path, "Must be valid Unicode: it has a lone surrogate or bytes that are not UTF-8.")
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		c.report(path, "Must not contain the character U+0000.")
		return "", false
	}
	return s, true
}

// hasLoneSurrogate looks at the escapes of a valid JSON string (RFC 8259, section 7).
func hasLoneSurrogate(raw []byte) bool {
	high := false // the previous escape was a high surrogate
	for i := 0; i < len(raw); {
		if raw[i] != '\\' || i+1 == len(raw) || raw[i+1] != 'u' {
			if high {
				return true
			}
			if raw[i] == '\\' {
				i++
			}
			i++
			continue
		}
		unit, err := strconv.ParseUint(string(raw[i+2:min(i+6, len(raw))]), 16, 16)
		if err != nil {
			return false // no JSON at all: its parser will say so
		}
		low := unit >= 0xDC00 && unit <= 0xDFFF
		if low != high {
			return true
		}
		high = unit >= 0xD800 && unit <= 0xDBFF
		i += 6
	}
	return high
}

// number takes every spelling of a value, as JSON Schema does: 1, 1.0 and 10e-1
// are one whole number.
func (c *check) number(r *rules, path string, raw json.RawMessage, target reflect.Value) {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		c.report(path, "Must be a %s.", numberName(r))
		return
	}
	exact, ok := exactNumber(string(raw))
	switch {
	case !ok || exact.Cmp(rational(*r.min)) < 0 || exact.Cmp(rational(*r.max)) > 0:
		c.report(path, "Must be a %s from %s to %s.", numberName(r), plain(*r.min), plain(*r.max))
	case r.kind == kindInteger && !exact.IsInt():
		c.report(path, "Must be a whole number.")
	case !target.IsValid():
	case r.kind == kindNumber:
		f, _ := strconv.ParseFloat(string(raw), 64)
		target.SetFloat(f)
	case target.CanUint():
		target.SetUint(exact.Num().Uint64())
	default:
		target.SetInt(exact.Num().Int64())
	}
}

// exactNumber refuses what is outside a float64's range before a long exponent
// can cost memory. What is closer to zero than any float64 counts as such.
func exactNumber(s string) (*big.Rat, bool) {
	if len(s) > maxNumberLength {
		return nil, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, false
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	if math.Abs(f) < 1e-300 {
		if !strings.ContainsAny(mantissa, "123456789") {
			return new(big.Rat), true
		}
		return new(big.Rat).SetFloat64(math.Copysign(1e-300, f)), true
	}
	return new(big.Rat).SetString(s)
}

func rational(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }

func plain(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }

func numberName(r *rules) string {
	if r.kind == kindInteger {
		return "whole number"
	}
	return "number"
}

func (c *check) time(path string, raw json.RawMessage, target reflect.Value) {
	text, ok := c.unquote(path, raw)
	if !ok {
		return
	}
	t, ok := parseTime(text)
	switch {
	case !ok:
		c.report(path, "Must be an RFC 3339 time of the years 1000 to 8999, like 2026-01-02T15:04:05Z.")
	case target.IsValid():
		target.Set(reflect.ValueOf(t))
	}
}

// parseTime reads RFC 3339 whole, lower-case letters and leap seconds included
// (section 5.6); a leap second is the last instant that Go can name before it.
func parseTime(s string) (time.Time, bool) {
	s = strings.ToUpper(s)
	leap := len(s) > 19 && s[16:19] == ":60"
	if leap {
		s = s[:16] + ":59" + s[19:]
	}
	var t time.Time
	if len(s) < 20 || s[0] < '1' || s[0] > '8' || t.UnmarshalText([]byte(s)) != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	if leap && (t.Hour() != 23 || t.Minute() != 59) {
		return time.Time{}, false
	}
	return t, true
}
