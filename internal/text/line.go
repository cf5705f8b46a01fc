package text

import (
	"strings"
	"unicode"
)

// LineRule is what a client is told whose text is no line.
const LineRule = "Must be one line, without control characters, marks of direction and invisible spaces."

// RefusedInLine is the inside of a character class of what IsLine refuses: control
// characters, separators of lines and paragraphs, embeddings, overrides and
// isolates of direction, the zero-width space and the byte order mark. The
// zero-width joiner and non-joiner stay, for Persian and Indic names need them.
//
// It is in ECMA-262's syntax, as JSON Schema wants it, and written in escapes, for
// generators print patterns into source code, where raw ones end a line.
const RefusedInLine = `\x00-\x1F\x7F-\x9F\u200B\u2028-\u202E\u2066-\u2069\uFEFF`

// Spaces is the inside of a character class of white space that IsLine takes.
const Spaces = `\x20\xA0\u1680\u2000-\u200A\u202F\u205F\u3000`

// IsLine reports whether s is fit for the name of a person or a thing, or for a title:
// one line of text, of which everything that has an effect can be seen. Such text goes
// into mails, terminals, logs and other people's screens, where a line break or a mark
// that turns the direction of writing pretends to be something else.
func IsLine(s string) bool { return strings.IndexFunc(s, refused) < 0 }

// Blank reports whether s has nothing but white space.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// Trim returns s without white space around it, of the kind that IsLine takes: what it
// refuses stays, and is refused.
func Trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) && !refused(r) })
}

func refused(r rune) bool {
	switch {
	case unicode.IsControl(r), r >= 0x2028 && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200B, r == 0xFEFF:
		return true
	}
	return false
}
