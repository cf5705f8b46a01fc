package words_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/content/words"
)

func TestWordsAreRunsOfLettersAndDigitsWithoutCaseAndAccents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                         {},
		"Crème BRÛLÉE, crème!":     {"creme", "brulee"},
		"don't stop-it x2 3.5 a_b": {"don", "t", "stop", "it", "x2", "3", "5", "a", "b"},
		"Straße STRASSE":           {"strasse"},
		"Łódź Ørsted Đà Nẵng ısı İstan": {"lodz", "orsted", "da", "nang", "isi", "istan"},
		"Ὀδυσσεύς ΟΔΥΣΣΕΥΣ":             {"οδυσσευσ"},
		"ﬁle Ａ１ x²":                     {"file", "a1", "x2"},
		"हिन्दी":                        {"हिन्दी"},
		"مُحَمَّد محمد":                 {"محمد"},
		"the the The":                   {"the"},
		"日本語 テスト":                       {"日本語", "テスト"},
		"\u0301 -- \u200d":              {},
	} {
		if diff := cmp.Diff(want, words.Of(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestComposedAndDecomposedTextHaveTheSameWords(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"é", "e\u0301"}, {"각", "\u1100\u1161\u11a8"}, {"Å", "\u212b"}, {"ガ", "カ\u3099"}} {
		if diff := cmp.Diff(words.Of(pair[0]), words.Of(pair[1])); diff != "" {
			t.Errorf("%q: %s", pair, diff)
		}
	}
}

// anyText leans towards what is rare in text.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`([A-Za-z]{1,8}[ ,.'-]){0,20}`), rapid.StringOf(rapid.RuneFrom(nil, unicode.L, unicode.M, unicode.N)))
}

func TestWordsOfWordsAreThemselves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anyText().Draw(t, "text")
		list := words.Of(text)
		if diff := cmp.Diff(list, words.Of(strings.Join(list, " "))); diff != "" {
			t.Fatal(diff)
		}
		for _, w := range list {
			if w == "" || len(w) > words.MaxWord || !utf8.ValidString(w) || strings.ContainsAny(w, `' \:&|!()*`) {
				t.Fatalf("%q", w)
			}
		}
	})
}

func TestATextIsFoundByItsWordsInAnyCaseAndByTheBeginningOfOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anyText().Draw(t, "text")
		list := words.Of(text)
		if len(list) == 0 {
			return
		}
		some := rapid.SliceOfN(rapid.SampledFrom(list), 1, 4).Draw(t, "words")
		last := []rune(some[len(some)-1])
		some[len(some)-1] = string(last[:rapid.IntRange(1, len(last)).Draw(t, "length")])
		if q := words.Parse(strings.ToUpper(strings.Join(some, " ")) + ""); !q.Matches(list) {
			// Upper case can be of another length and meaning (ŉ, ΐ); then as it is.
			if q = words.Parse(strings.Join(some, " ")); !q.Matches(list) {
				t.Fatalf("%q is not found by %q", list, q)
			}
		}
		if words.Parse(strings.Join(some, " ")+" \u2603 nosuchword").Matches(list) && !slices.ContainsFunc(list, func(w string) bool { return strings.HasPrefix(w, "nosuchword") }) {
			t.Fatal("found by a word that is not there")
		}
	})
}

func TestHugeAndHostileTextsStayWithinBounds(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one long word":        strings.Repeat("x", 2<<20),
		"one long word of 4":   strings.Repeat("𐐀", 200_000),
		"words that expand":    strings.Repeat("\ufdfa", 100_000),
		"many words":           distinct(400_000),
		"many that expand":     distinctExpanding(60_000),
		"marks without end":    "a" + strings.Repeat("\u0301", 500_000),
		"vowel signs":          "क" + strings.Repeat("\u093f", 500_000),
		"invalid UTF-8 at all": strings.Repeat("\xff", 300_000),
	} {
		all := 0
		for _, w := range words.Of(text) {
			if len(w) > words.MaxWord || !utf8.ValidString(w) {
				t.Errorf("%s: a word of %d bytes", name, len(w))
			}
			all += len(w)
		}
		if all >= 1<<20 {
			t.Errorf("%s: %d bytes of words", name, all)
		}
	}
	beyond := strings.Repeat("x ", words.MaxText/2-3) + "halfway last"
	if list := words.Of(beyond); slices.Contains(list, "last") || slices.Contains(list, "halfw") {
		t.Errorf("%q", list)
	}
	if q := words.Parse(strings.Repeat("x", 300)); !q.Matches(words.Of(strings.Repeat("x", 1000))) {
		t.Error("a long word is not found by its beginning")
	}
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ToLower(string(rune('a'+i%26))) + string(rune(0x4e00+i%20000)) + " ")
	}
	return b.String()
}

func distinctExpanding(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(string(rune(0x4e00+i%20000)) + "\u3316\ufdfb ")
	}
	return b.String()
}

func FuzzQueriesNeedNoEscape(f *testing.F) {
	for _, seed := range []string{"", "a b", `it's \ & | ! :* ( )`, "\x00\xff", "ﷺ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, q string) {
		for _, w := range words.Parse(q) {
			if strings.ContainsAny(w, `'\`) || !utf8.ValidString(w) || len(w) > words.MaxWord {
				t.Errorf("%q", w)
			}
		}
	})
}
