package naive

import (
	"regexp"
	"strings"
)

// Filtered is the site as far as filters leave it. A filter names path, event or
// one of the labels of a hit, and has patterns in which * stands for any text; one
// of them must match. What is of sessions (all but path and event) is that of a
// session's first hit. Left are the hits that match path and event, of sessions
// that match the rest; and such sessions, whole, as have a hit that is left.
func (s *Site) Filtered(filters map[string][]string) *Site {
	left := &Site{rules: s.rules}
	for _, one := range s.sessions {
		if !matchesAll(filters, func(name string) (string, bool) {
			return one.first().Labels[name], name != "path" && name != "event"
		}) {
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

// matches judges a hit by path and event; a pageview is no event of any name.
func (h Hit) matches(filters map[string][]string) bool {
	if h.Name == "" && len(filters["event"]) > 0 {
		return false
	}
	return matchesAll(filters, func(name string) (string, bool) {
		switch name {
		case "path":
			return h.Path, true
		case "event":
			return h.Name, true
		}
		return "", false
	})
}

// matchesAll reports whether every filter that concerns somebody matches.
func matchesAll(filters map[string][]string, value func(name string) (string, bool)) bool {
	for name, patterns := range filters {
		text, concerned := value(name)
		if concerned && len(patterns) > 0 && !matchesAny(patterns, text) {
			return false
		}
	}
	return true
}

func matchesAny(patterns []string, text string) bool {
	for _, p := range patterns {
		var literal []string
		for _, part := range strings.Split(p, "*") {
			literal = append(literal, regexp.QuoteMeta(part))
		}
		if regexp.MustCompile(`(?s)^` + strings.Join(literal, `.*`) + `$`).MatchString(text) {
			return true
		}
	}
	return false
}
