// Package words makes the words of texts comparable, for searching. A word is a run of
// letters and digits, in lower case and without accents; nothing is stemmed, and no
// word is too common.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds in bytes.
const (
	// MaxText is as much of a text as is searched.
	MaxText = 256 << 10
	// MaxWord is as much of a word as counts: longer ones that begin alike are alike.
	MaxWord = 255
	// maxAll is less than a tsvector holds (1 MiB). Only texts reach it whose characters
	// become many each.
	maxAll = 900 << 10
)

// Of returns the words of the first MaxText bytes of a text, each once, in the order in
// which they come first.
func Of(text string) []string {
	text = cut(text)
	list, known, all := []string{}, map[string]bool{}, 0
	for _, word := range split(text) {
		if known[word] {
			continue
		}
		if all += len(word); all > maxAll {
			break
		}
		known[word] = true
		list = append(list, word)
	}
	return list
}

// cut leaves no part of a word at the end that is not the word.
func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	n := MaxText
	for !utf8.RuneStart(text[n]) {
		n--
	}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) }
	if end := strings.LastIndexFunc(text[:n], between); end >= 0 {
		n = end
	}
	return text[:n]
}

// split returns all words of a text, in their order.
func split(text string) []string {
	// Compatible characters are one: the ligature fi and the full-width A are not what
	// people type. Folding makes characters that decompose again.
	text = norm.NFKD.String(strings.Map(cherokee, cases.Fold().String(norm.NFKD.String(text))))
	var list []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			list = append(list, clip(word.String()))
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			word.WriteString(plain(r))
		case isAccent(r):
		case unicode.IsMark(r):
			if word.Len() > 0 { // a vowel sign, without which it is another word
				word.WriteRune(r)
			}
		default:
			end()
		}
	}
	end()
	return list
}

// isAccent reports whether a mark is only put on a letter: accents, and the points of
// scripts that are mostly written without them.
func isAccent(r rune) bool {
	return unicode.Is(unicode.Mn, r) && unicode.In(r, unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic)
}

// plain is a letter without its stroke, which Unicode takes for a part of it.
func plain(r rune) string {
	switch r {
	case 'ø':
		return "o"
	case 'ł':
		return "l"
	case 'đ':
		return "d"
	case 'ħ':
		return "h"
	case 'ŧ':
		return "t"
	case 'ı':
		return "i"
	}
	return string(r)
}

func clip(word string) string {
	if len(word) <= MaxWord {
		return word
	}
	n := MaxWord
	for !utf8.RuneStart(word[n]) {
		n--
	}
	return word[:n]
}

// Query is what a text is searched for: every word must occur in it, the last one as
// the beginning of a word. An empty query finds everything.
type Query []string

// Parse reads what somebody searches for.
func Parse(q string) Query { return split(q) }

// Term is the i-th condition of the query as PostgreSQL's tsquery.
func (q Query) Term(i int) string {
	// Letters, digits and marks need no escape between quotes.
	if i == len(q)-1 {
		return "'" + q[i] + "':*"
	}
	return "'" + q[i] + "'"
}

// String is the query as PostgreSQL's tsquery.
func (q Query) String() string {
	terms := make([]string, len(q))
	for i := range q {
		terms[i] = q.Term(i)
	}
	return strings.Join(terms, " & ")
}

// Matches reports whether a text with those words has what the query asks for. It
// says what PostgreSQL does.
func (q Query) Matches(words []string) bool {
	for i, wanted := range q {
		found := false
		for _, word := range words {
			found = found || word == wanted || i == len(q)-1 && strings.HasPrefix(word, wanted)
		}
		if !found {
			return false
		}
	}
	return true
}

// cherokee folds the small letters of Cherokee, which cases.Fold takes for capitals and
// the capitals for small ones (Unicode's CaseFolding.txt folds them to capitals).
func cherokee(r rune) rune {
	switch {
	case r >= 0xAB70 && r <= 0xABBF:
		return r - 0xAB70 + 0x13A0
	case r >= 0x13F8 && r <= 0x13FD:
		return r - 8
	}
	return r
}
