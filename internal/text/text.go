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

// MakeStorable returns s with replacement in the place of each run of bytes that
// PostgreSQL's text can't hold.
func MakeStorable(s, replacement string) string {
	// 0xFF is in no UTF-8, so that U+0000 becomes part of a run.
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\xff"), replacement)
}
