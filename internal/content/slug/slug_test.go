package slug_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/content/slug"
)

func TestTitlesBecomeSlugsThatPeopleCanRead(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"Hello, World!":          "hello-world",
		"Crème brûlée à la Zoë":  "creme-brulee-a-la-zoe",
		"Привет мир":             "privet-mir",
		"Ελληνικά":               "ellenika",
		"北京":                     "bei-jing",
		"snake_case and -- more": "snake-case-and-more",
		"2024":                   "blog-2024",
		"2024: a year":           "2024-a-year",
		"🎉":                      "blog",
		"\u0301":                 "blog",
		"":                       "blog",
		"___":                    "blog",
	} {
		if got := slug.Of(title, "blog"); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
	if got := slug.Of(strings.Repeat("word ", 50), "blog"); len(got) > slug.Max || !strings.HasSuffix(got, "word") {
		t.Errorf("%d characters: %s", len(got), got)
	}
}

func TestEveryTitleHasAValidSlugWithEveryNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		title := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-zA-Z _-]{0,300}`), rapid.StringMatching(`[0-9]{1,300}`)).Draw(t, "title")
		base := slug.Of(title, "blog")
		seen := map[string]bool{}
		for _, n := range []int{1, 2, 3, 10, 99, 12345} {
			s := slug.Numbered(base, n)
			if !slug.Valid(s) || seen[s] {
				t.Fatalf("%q, number %d: %q", title, n, s)
			}
			seen[s] = true
		}
	})
}

func TestWhatIsNoSlugIsNotValid(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "-", "a-", "-a", "a--b", "A", "é", "a b", "a_b", "12", "a\n", strings.Repeat("a", 201)} {
		if slug.Valid(s) {
			t.Errorf("%q", s)
		}
	}
	for _, s := range []string{"a", "1a", "12-3", strings.Repeat("a", 200)} {
		if !slug.Valid(s) {
			t.Errorf("%q is refused", s)
		}
	}
}
