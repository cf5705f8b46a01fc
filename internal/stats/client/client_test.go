package client

import (
	_ "embed"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/crawlers.txt
var crawlers string

//go:embed testdata/browsers.txt
var browsers string

func newParser(t testing.TB) *Parser {
	t.Helper()
	p, err := NewParser()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

func TestEveryPublishedCrawlerIsABot(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	for _, ua := range lines(crawlers) {
		// A few instances are longer than what is looked at.
		if len(ua) <= MaxUserAgent && !p.Parse(ua).Bot {
			t.Errorf("no bot: %q", ua)
		}
	}
}

func TestProgramsThatNoListNamesAreBots(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	for _, ua := range []string{
		"", "-", "Ruby", "Mozilla/5.0", "Mozilla/4.0 (compatible;)", "curl/8.5.0", "Wget/1.21", "python-requests/2.31",
		"Go-http-client/2.0", "UniversalFeedParser/4.2-pre-314-svn +http://feedparser.org/", "Mozilla/5.0 (compatible; BeetleBot; )",
		"LumiBot 2.0", "Mozilla/5.0 (compatible; Ezooms/1.0; help@moz.com)", "fetch libfetch/2.0", "eZ Publish Link Validator",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0 Safari/537.36",
	} {
		if !p.Parse(ua).Bot {
			t.Errorf("no bot: %q", ua)
		}
	}
}

func TestBrowsersAreNoBots(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	for _, line := range lines(browsers) {
		fields := strings.SplitN(line, "\t", 4)
		got := p.Parse(fields[3])
		if diff := cmp.Diff(Client{Device: fields[0], Browser: fields[1], OS: fields[2]}, got); diff != "" {
			t.Errorf("%s\n%s", fields[3], diff)
		}
	}
}

// The fast matcher against the definition: any expression of either file.
func TestMatcherAgreesWithThePatternsOneByOne(t *testing.T) {
	t.Parallel()
	m, err := newBotMatcher(crawlerPatterns, ownRules)
	if err != nil {
		t.Fatal(err)
	}
	var patterns []*regexp.Regexp
	for _, list := range []string{crawlerPatterns, ownRules} {
		for _, line := range lines(list) {
			if line != "" && !strings.HasPrefix(line, "# ") {
				patterns = append(patterns, regexp.MustCompile(line))
			}
		}
	}
	if len(patterns) < 1500 {
		t.Fatalf("%d patterns, want the whole list", len(patterns))
	}
	byDefinition := func(ua string) bool {
		for _, re := range patterns {
			if re.MatchString(ua) {
				return true
			}
		}
		return false
	}
	all := lines(browsers)
	for i, ua := range lines(crawlers) {
		if i%8 == 0 {
			// Also a damaged one, so that both answers occur.
			all = append(all, ua, ua[:len(ua)/3], strings.ToUpper(ua))
		}
	}
	for _, ua := range all {
		if got, want := m.match(ua), byDefinition(ua); got != want {
			t.Errorf("match(%q) = %v, want %v", ua, got, want)
		}
	}
}

func TestCacheIsBoundedAndForgetsTheOldest(t *testing.T) {
	t.Parallel()
	c := newCache(3)
	for _, ua := range []string{"a", "b", "c", "d"} {
		c.put(ua, Client{OS: ua})
	}
	if _, ok := c.get("a"); !ok {
		t.Error("a is gone although its generation is still kept")
	}
	for _, ua := range []string{"e", "f", "g"} {
		c.put(ua, Client{OS: ua})
	}
	if _, ok := c.get("b"); ok {
		t.Error("b is still there after two generations")
	}
	if got, ok := c.get("a"); !ok || got.OS != "a" {
		t.Errorf("a, asked for in between, = %v, %v", got, ok)
	}
	if n := len(c.young) + len(c.old); n > 2*c.size {
		t.Errorf("%d entries, bound %d", n, 2*c.size)
	}
}

func FuzzParse(f *testing.F) {
	p := newParser(f)
	for _, ua := range append(lines(browsers), "", "\xff\xfe", strings.Repeat("bot", 1000)) {
		f.Add(ua)
	}
	f.Fuzz(func(t *testing.T, ua string) {
		first := p.Parse(ua)
		if again := p.Parse(ua); again != first {
			t.Errorf("Parse(%q) = %v, then %v", ua, first, again)
		}
		for _, label := range []string{first.Browser, first.OS, first.Device} {
			if !utf8.ValidString(label) || len(label) > 40 {
				t.Errorf("label %q does not come from a closed list", label)
			}
		}
	})
}

func BenchmarkParseUncached(b *testing.B) {
	p := newParser(b)
	all := lines(browsers)
	for i := range all {
		all[i] = strings.SplitN(all[i], "\t", 4)[3]
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if ua := all[i%len(all)]; !p.bots.match(ua) {
			p.describe(ua)
		}
	}
}
