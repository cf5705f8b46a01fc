package stats

import (
	"slices"
	"strings"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/text"
)

// propFilter begins the filter of a property.
const propFilter = "prop:"

// AllFilters lists them in the order of their description, without those of properties.
func AllFilters() []Filter {
	var of [2][]Filter
	for _, d := range dimensionTable {
		of[d.of] = append(of[d.of], d.filter)
	}
	return append(of[ofEvents], of[ofSessions]...)
}

// IsFilter reports whether f is one of AllFilters, or that of a property.
func IsFilter(f Filter) bool {
	key, isProp := f.prop()
	return isProp && text.Within(key, 1, hit.MaxPropKey) || slices.Contains(AllFilters(), f)
}

// prop returns the key when f is the filter of a property.
func (f Filter) prop() (string, bool) { return strings.CutPrefix(string(f), propFilter) }

// Filters restrict an answer to events and sessions that match each of them. Values that
// begin with ! exclude: a text matches when it is none of these and, if there are others,
// one of them. In a value * stands for any text, also none, and (none) is for what is
// empty. What is no custom event, or lacks a property, matches (none) and exclusions
// alone. A backslash before !, * or ( takes it literally.
//
// Counted are the events that match the filters of events and whose session matches the
// rest; and of the sessions that match the rest, whole, those in which such an event
// happened.
type Filters map[Filter][]string

// Limits of a filter.
const (
	maxPattern  = 2048 // bytes
	maxPatterns = 20   // of a filter
	maxFilters  = 20
)

// check returns a fault of kind Invalid whose details name the filters.
func (f Filters) check() error {
	details := map[string]string{}
	for name, patterns := range f {
		field := "filter[" + string(name) + "]"
		if !IsFilter(name) {
			details[field] = "There is no such filter."
			continue
		}
		if len(patterns) > maxPatterns {
			details[field] = "At most 20 values."
		}
		for _, p := range patterns {
			if p == "" || len(p) > maxPattern || !text.Storable(p) {
				details[field] = "From 1 to 2,048 bytes of UTF-8, without U+0000; leave it out for no filter."
			} else if p == "!" {
				details[field] = "A value must follow the !; \\! stands for the character itself."
			}
		}
	}
	if len(f) > maxFilters {
		details["filter"] = "At most 20 filters."
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

// pattern is a value of a filter: the texts between its stars. One without a star matches
// a single text.
type pattern []string

// exact returns the only text that p matches.
func (p pattern) exact() (string, bool) { return p[0], len(p) == 1 }

// matches reports whether p, whose stars stand for any text, is all of s.
func (p pattern) matches(s string) bool {
	if len(p) == 1 {
		return s == p[0]
	}
	last := len(p) - 1
	if len(s) < len(p[0])+len(p[last]) || !strings.HasPrefix(s, p[0]) || !strings.HasSuffix(s, p[last]) {
		return false
	}
	s = s[len(p[0]) : len(s)-len(p[last])]
	for _, part := range p[1:last] {
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return true
}

// rule is what a filter says about a text.
type rule struct {
	yes, no         []pattern
	none, neverNone bool // (none), !(none)
	// absent says that what is empty has no text at all, not even one that * stands for.
	absent bool
}

// parseRule reads a filter's values, which check has let through.
func parseRule(values []string) rule {
	var r rule
	for _, v := range values {
		rest, excluded := strings.CutPrefix(v, "!")
		switch {
		case rest == noneValue && excluded:
			r.neverNone = true
		case rest == noneValue:
			r.none = true
		case excluded:
			r.no = append(r.no, parsePattern(rest))
		default:
			r.yes = append(r.yes, parsePattern(rest))
		}
	}
	return r
}

// noneValue is for what is empty.
const noneValue = "(none)"

// Exactly is the value of a filter that matches a row's label alone. It takes the label of
// a row without one, and what Breakdowns writes so that it isn't taken for that, as they are.
func Exactly(label string, withEmpty bool) string {
	if withEmpty && (label == Unlabelled || label == `\`+Unlabelled) {
		return label
	}
	return strings.NewReplacer("*", `\*`, "!", `\!`, "(", `\(`).Replace(label)
}

func parsePattern(value string) pattern {
	p := pattern{}
	var part strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value) && strings.IndexByte("!*(", value[i+1]) >= 0:
			i++
			part.WriteByte(value[i])
		case c == '*':
			p = append(p, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(p, part.String())
}

// any reports whether r has positive values, of which one must match.
func (r rule) any() bool { return len(r.yes) > 0 || r.none }

// matchesNone reports whether what is empty matches.
func (r rule) matchesNone() bool {
	if r.neverNone || !r.absent && matchesAny(r.no, "") {
		return false
	}
	return r.none || !r.any() || !r.absent && matchesAny(r.yes, "")
}

// matches reports whether a text that is not empty matches.
func (r rule) matches(s string) bool {
	return !matchesAny(r.no, s) && (!r.any() || matchesAny(r.yes, s))
}

func matchesAny(patterns []pattern, s string) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(s) })
}
