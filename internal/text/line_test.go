package text_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/waypost/waypost/internal/text"
)

// class compiles the inside of a character class, whose escapes RE2 writes in
// another way.
func class(inside string) *regexp.Regexp {
	return regexp.MustCompile(`^[` + regexp.MustCompile(`\\u([0-9A-F]{4})`).ReplaceAllString(inside, `\x{$1}`) + `]$`)
}

func TestTheClassesSayOfEveryCharacterWhatTheFunctionsDo(t *testing.T) {
	t.Parallel()
	refused, spaces := class(text.RefusedInLine), class(text.Spaces)
	for r := range rune(unicode.MaxRune + 1) {
		if r >= 0xD800 && r <= 0xDFFF { // no text has surrogates
			continue
		}
		s := string(r)
		if got := text.IsLine(s); got == refused.MatchString(s) {
			t.Errorf("%U: valid is %v, and the class says otherwise", r, got)
		}
		if got, want := spaces.MatchString(s), text.Blank(s) && text.IsLine(s); got != want {
			t.Errorf("%U: is among the spaces: %v, want %v", r, got, want)
		}
	}
}

func TestNamesOfAllScriptsStay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Ada", "Zoë", "O'Neil-Mc Gregor", "李小龍", "محمد", "علی\u200cرضا", "क्\u200dष", "👩\u200d🚀", "Дмитрий", "a\u00adb", "\u200eAda", "e\u0301",
	} {
		if !text.IsLine(name) {
			t.Errorf("%+q is refused", name)
		}
	}
	for _, name := range []string{
		"Ada\n", "Ada\r\nYour account: https://evil.example", "\tAda", "Ada\x1b[2J", "\x00", "a\u007f", "a\u0085b", "a\u009b31m", "a\u200bb",
		"a\u2028b", "a\u2029b", "\u202agpj", "\u202egpj.exe", "\u2066a", "a\u2069", "\ufeffa",
	} {
		if text.IsLine(name) {
			t.Errorf("%+q is taken", name)
		}
	}
}

func TestTheClassesHoldNoRawCharacters(t *testing.T) {
	t.Parallel()
	if raw := strings.IndexFunc(text.RefusedInLine+text.Spaces, func(r rune) bool { return r <= ' ' || r > '~' }); raw >= 0 {
		t.Errorf("at %d", raw)
	}
}

func TestTrimTakesNothingAwayThatIsToBeRefused(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": "", "  ": "", " Ada ": "Ada", "\u00a0\u3000Ada King\u2009": "Ada King", "Ada": "Ada",
		"Ada\n": "Ada\n", " \tAda": "\tAda", "Ada\u0085 ": "Ada\u0085", "\u2028Ada": "\u2028Ada", "\u200bAda": "\u200bAda", "علی\u200c": "علی\u200c",
	} {
		if got := text.Trim(s); got != want {
			t.Errorf("%+q became %+q, want %+q", s, got, want)
		}
	}
}
