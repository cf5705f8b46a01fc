// Package text says what text from outside may hold: what PostgreSQL can store, and
// what may stand in a name or a title.
package text

import (
	"strings"
	"unicode/utf8"
)

// Storable reports whether PostgreSQL's text can hold s: valid UTF-8 without U+0000.
func Storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Within reports whether s is Storable and has from least to most characters.
func Within(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return n >= least && n <= most && Storable(s)
}

// MakeStorable returns s with replacement in the place of each U+0000, and of each run
// of bytes that are not UTF-8.
func MakeStorable(s, replacement string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, replacement), "\x00", replacement)
}
