package client

import (
	_ "embed"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

var (
	//go:embed third_party/crawler-user-agents/patterns.txt
	crawlerPatterns string
	//go:embed rules.txt
	ownRules string
)

// gram is the length of the prefix by which literals are found.
const gram = 3

// botMatcher tells whether any of some 1,500 patterns matches. Joined into one
// regular expression they would cost milliseconds per user agent. But nearly all
// are plain strings, and nearly all others can only match where some plain
// string occurs: one pass over the lower-cased user agent finds those by their
// first three bytes, and only then is the pattern itself asked.
type botMatcher struct {
	literals map[[gram]byte][]literal
	rest     []*regexp.Regexp // patterns in which no literal is required
}

// literal is a string without which a pattern can't match, and that pattern;
// nil when the pattern is that very string, in the spelling of exact.
type literal struct {
	lower, exact string
	pattern      *regexp.Regexp
}

func newBotMatcher(lists ...string) (*botMatcher, error) {
	m := &botMatcher{literals: make(map[[gram]byte][]literal)}
	for _, list := range lists {
		for pattern := range strings.Lines(list) {
			// No other trimming: blanks at the ends of a pattern are part of it.
			pattern = strings.TrimRight(pattern, "\r\n")
			if pattern == "" || strings.HasPrefix(pattern, "# ") {
				continue
			}
			if err := m.add(pattern); err != nil {
				return nil, fmt.Errorf("client: crawler pattern: %w", err)
			}
		}
	}
	return m, nil
}

func (m *botMatcher) add(pattern string) error {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	if parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0 && len(string(parsed.Rune)) >= gram {
		exact := string(parsed.Rune)
		m.index(literal{lower: lowerASCII(exact), exact: exact})
		return nil
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	required := requiredLiterals(parsed)
	for _, lower := range required {
		m.index(literal{lower: lower, pattern: compiled})
	}
	if required == nil {
		m.rest = append(m.rest, compiled)
	}
	return nil
}

func (m *botMatcher) index(l literal) {
	key := [gram]byte([]byte(l.lower[:gram]))
	m.literals[key] = append(m.literals[key], l)
}

func (m *botMatcher) match(userAgent string) bool {
	lower := lowerASCII(userAgent)
	for i := 0; i+gram <= len(lower); i++ {
		for _, l := range m.literals[[gram]byte([]byte(lower[i:i+gram]))] {
			if !strings.HasPrefix(lower[i:], l.lower) {
				continue
			}
			if l.pattern == nil && strings.HasPrefix(userAgent[i:], l.exact) || l.pattern != nil && l.pattern.MatchString(userAgent) {
				return true
			}
		}
	}
	for _, re := range m.rest {
		if re.MatchString(userAgent) {
			return true
		}
	}
	return false
}

// requiredLiterals returns lower-case strings of at least gram bytes of which
// every match of re contains one, nil when there is no such set.
func requiredLiterals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if s := lowerASCII(string(re.Rune)); len(s) >= gram {
			return []string{s}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredLiterals(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if set := requiredLiterals(sub); set != nil {
				return set
			}
		}
	case syntax.OpAlternate:
		var union []string
		for _, sub := range re.Sub {
			set := requiredLiterals(sub)
			if set == nil {
				return nil
			}
			union = append(union, set...)
		}
		return union
	}
	return nil
}

// lowerASCII keeps every byte at its place, which strings.ToLower does not.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
