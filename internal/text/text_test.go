package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/text"
)

func TestWhatIsMadeStorableIsStorableAndStorableTextStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.SampledFrom([]byte("a\x00\xff\xc3\xa9\xed\xa0\x80\n"))).Draw(t, "bytes"))
		storable := utf8.ValidString(s) && !strings.Contains(s, "\x00")
		if text.Storable(s) != storable {
			t.Fatalf("%q is storable: %v", s, !storable)
		}
		for _, replacement := range []string{"", "\uFFFD"} {
			made := text.MakeStorable(s, replacement)
			if !text.Storable(made) || storable && made != s {
				t.Fatalf("%q became %q", s, made)
			}
		}
	})
	if got := text.MakeStorable("a\x00\xe2\x82\x00b\xffc", "?"); got != "a???b?c" {
		t.Errorf("%q", got)
	}
}

func TestLengthsAreInCharacters(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": false, "é": true, "éé": true, "ééé": false, "\x00": false, "\xff": false} {
		if text.Within(s, 1, 2) != want {
			t.Errorf("%q has 1 or 2 characters: %v", s, !want)
		}
	}
}
