// Package slug makes names for addresses out of titles.
package slug

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gosimple/slug"
)

// Max is the most characters of a slug.
const Max = 200

// Rule is what a client is told whose slug is none.
const Rule = "Must be 1 to 200 characters: words of a to z and 0 to 9 with single hyphens between them, not digits alone."

var (
	form   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// Valid reports whether s is a slug. Digits alone are none: they are an id.
func Valid(s string) bool { return len(s) <= Max && form.MatchString(s) && !digits.MatchString(s) }

// Of transliterates a title to a slug. Where the title leaves nothing, or digits alone,
// the slug is of kind, a word such as "blog".
func Of(title, kind string) string {
	made := strings.Join(strings.FieldsFunc(slug.Make(title), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
	switch {
	case made == "":
		return kind
	case digits.MatchString(made):
		made = kind + "-" + made
	}
	return shorten(made, Max)
}

// Numbered is the n-th slug like base: base itself, then base-2, base-3 and so on.
func Numbered(base string, n int) string {
	if n < 2 {
		return base
	}
	number := "-" + strconv.Itoa(n)
	return shorten(base, Max-len(number)) + number
}

// shorten cuts at most to a length, between words where it can.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	if i := strings.LastIndexByte(s, '-'); i > most/2 {
		s = s[:i]
	}
	s = strings.Trim(s, "-")
	return s
}
