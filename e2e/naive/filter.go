package naive

import (
	"regexp"
	"strings"
)

// Filtered is the site as far as filters leave it. A filter names path, hostname, event,
// prop: and a key, entry, exit or another of the labels of a hit, and has values: those
// that begin with ! must not match, one of the others must, if there are any. In a value *
// stands for any text, also none, and (none) for what is empty; a backslash before !, * or
// ( takes it literally. What is no event, or lacks a property, has no text. What is of sessions (all but the first four) is
// that of a session's first hit. Left are the hits that match the filters of hits, of
// sessions that match the rest; and such sessions, whole, as have a hit that is left.
func (s *Site) Filtered(filters map[string][]string) *Site {
	left := &Site{rules: s.rules}
	for _, one := range s.sessions {
		matches := true
		for name, values := range filters {
			if !ofHits(name) {
				matches = matches && matchesValues(values, one.filtered(name), false)
			}
		}
		if !matches {
			continue
		}
		before := len(left.hits)
		for _, h := range one.hits {
			if h.matches(filters) {
				left.hits = append(left.hits, h)
			}
		}
		if len(left.hits) > before {
			left.sessions = append(left.sessions, one)
		}
	}
	return left
}

func ofHits(name string) bool {
	return name == "path" || name == "hostname" || name == "event" || strings.HasPrefix(name, "prop:")
}

// filtered is what the filter called name looks at.
func (s session) filtered(name string) string {
	views := s.pageviews()
	switch {
	case name != "entry" && name != "exit":
		return s.first().Labels[name]
	case len(views) == 0:
		return ""
	case name == "entry":
		return views[0].Path
	default:
		return views[len(views)-1].Path
	}
}

func (h Hit) matches(filters map[string][]string) bool {
	for name, values := range filters {
		if !ofHits(name) {
			continue
		}
		var text string
		switch name {
		case "path":
			text = h.Path
		case "hostname":
			text = h.Labels["hostname"]
		case "event":
			text = h.Name
		default:
			text = h.Props[strings.TrimPrefix(name, "prop:")]
		}
		if !matchesValues(values, text, text == "" && name != "path" && name != "hostname") {
			return false
		}
	}
	return true
}

func matchesValues(values []string, text string, absent bool) bool {
	wanted, found := false, false
	for _, v := range values {
		positive := strings.TrimPrefix(v, "!")
		if positive != v {
			if matchesValue(positive, text, absent) {
				return false
			}
			continue
		}
		wanted = true
		found = found || matchesValue(v, text, absent)
	}
	return found || !wanted
}

var special = regexp.MustCompile(`(?s)\\[!*(]|.`)

func matchesValue(value, text string, absent bool) bool {
	if value == "(none)" || absent {
		return value == "(none)" && text == ""
	}
	expression := special.ReplaceAllStringFunc(value, func(s string) string {
		switch {
		case s == "*":
			return ".*"
		case len(s) == 2 && s[0] == '\\':
			return regexp.QuoteMeta(s[1:])
		default:
			return regexp.QuoteMeta(s)
		}
	})
	return regexp.MustCompile(`(?s)^(` + expression + `)$`).MatchString(text)
}
