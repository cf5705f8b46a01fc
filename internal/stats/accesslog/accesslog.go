// Package accesslog reads lines of web servers' access logs in the NCSA common
// and combined formats, as Apache httpd and nginx write them:
//
//	host ident user [02/Jan/2006:15:04:05 -0700] "METHOD target PROTOCOL" status bytes
//
// and, in the combined format, also "referrer" "user agent". What follows the
// last field is ignored.
package accesslog

import (
	"errors"
	"strings"
	"time"
)

// Format says which fields a line has.
type Format string

// The formats.
const (
	Common   Format = "common"
	Combined Format = "combined"
)

// ErrMalformed says that a line is not in the format asked for.
var ErrMalformed = errors.New("accesslog: malformed line")

// Record is one request. Strings are as the client sent them: the escapes of the
// log are resolved, so they may hold any bytes. A field that the log gives as
// "-" is empty.
type Record struct {
	Host      string // an address, or a name where the server resolved it
	Time      time.Time
	Method    string
	Target    string
	Status    int
	Referrer  string // combined only
	UserAgent string // combined only
}

// timeLayout is that of httpd's %t.
const timeLayout = "02/Jan/2006:15:04:05 -0700"

// Parse reads one line without its line break. The only error is ErrMalformed.
func Parse(line string, format Format) (Record, error) {
	var r Record
	host, rest, ok := strings.Cut(line, " ")
	// A user name may hold blanks, but neither it nor ident begins with a bracket.
	names, rest, opened := strings.Cut(rest, " [")
	stamp, rest, closed := strings.Cut(rest, "] ")
	if !ok || !opened || !closed || host == "" || !strings.Contains(names, " ") {
		return Record{}, ErrMalformed
	}
	at, err := time.Parse(timeLayout, stamp)
	if err != nil {
		return Record{}, ErrMalformed
	}
	r.Host, r.Time = host, at.UTC()

	request, rest, ok := quoted(rest)
	if !ok || !r.setRequest(request) {
		return Record{}, ErrMalformed
	}
	status, rest, _ := strings.Cut(rest, " ")
	size, rest, _ := strings.Cut(rest, " ")
	if r.Status, ok = digits(status, 3); !ok || !isSize(size) {
		return Record{}, ErrMalformed
	}
	if format == Common {
		return r, nil
	}
	if r.Referrer, rest, ok = quoted(rest); !ok {
		return Record{}, ErrMalformed
	}
	if r.UserAgent, _, ok = quoted(rest); !ok {
		return Record{}, ErrMalformed
	}
	r.Referrer, r.UserAgent = absentIfDash(r.Referrer), absentIfDash(r.UserAgent)
	return r, nil
}

// setRequest splits a request line. The protocol is missing in HTTP/0.9; a
// target that was sent with blanks keeps them.
func (r *Record) setRequest(line string) bool {
	method, target, ok := strings.Cut(line, " ")
	if at := strings.LastIndex(target, " HTTP/"); at >= 0 {
		target = target[:at]
	}
	r.Method, r.Target = method, target
	return ok && method != "" && target != "" && !strings.HasPrefix(target, "HTTP/")
}

// quoted takes a field in quotation marks and the blank after it off the front
// of s, and resolves its escapes.
func quoted(s string) (field, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			rest := s[i+1:]
			if rest != "" && rest[0] != ' ' {
				return "", "", false
			}
			return unescape(s[1:i]), strings.TrimPrefix(rest, " "), true
		}
	}
	return "", "", false
}

// unescape resolves the escapes of httpd (\" \\ \n \xhh and the like) and nginx
// (\xHH). A backslash before anything else is kept.
func unescape(s string) string {
	at := strings.IndexByte(s, '\\')
	if at < 0 {
		return s
	}
	b := append(make([]byte, 0, len(s)), s[:at]...)
	for i := at; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		if s[i+1] == 'x' && i+3 < len(s) {
			high, okHigh := hexDigit(s[i+2])
			low, okLow := hexDigit(s[i+3])
			if okHigh && okLow {
				b = append(b, high<<4|low)
				i += 3
				continue
			}
		}
		if at := strings.IndexByte(`"\nrtbvf`, s[i+1]); at >= 0 {
			b = append(b, "\"\\\n\r\t\b\v\f"[at])
			i++
			continue
		}
		b = append(b, '\\')
	}
	return string(b)
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	default:
		return 0, false
	}
}

// digits reads a decimal of exactly n digits.
func digits(s string, n int) (int, bool) {
	v := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return v, len(s) == n
}

func isSize(s string) bool {
	return s == "-" || s != "" && strings.Trim(s, "0123456789") == ""
}

func absentIfDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
