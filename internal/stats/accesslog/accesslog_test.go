package accesslog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/stats/accesslog"
)

const combinedLine = `203.0.113.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://example.org/" "Mozilla/5.0 (X11)"`

func TestLinesOfKnownServersAreRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 10, 10, 20, 55, 36, 0, time.UTC)
	base := accesslog.Record{Host: "203.0.113.7", Time: at, Method: "GET", Target: "/a?b=c", Status: 200, Referrer: "http://example.org/", UserAgent: "Mozilla/5.0 (X11)"}
	with := func(change func(*accesslog.Record)) accesslog.Record { r := base; change(&r); return r }
	replaced := func(old, new string) string { return strings.Replace(combinedLine, old, new, 1) }
	for name, c := range map[string]struct {
		line   string
		format accesslog.Format
		want   accesslog.Record
	}{
		"combined":                           {combinedLine, accesslog.Combined, base},
		"combined with fields of one's own":  {combinedLine + ` 0.013 "a.example"`, accesslog.Combined, base},
		"common":                             {combinedLine[:strings.Index(combinedLine, ` "http://`)], accesslog.Common, with(func(r *accesslog.Record) { r.Referrer, r.UserAgent = "", "" })},
		"common from a combined log":         {combinedLine, accesslog.Common, with(func(r *accesslog.Record) { r.Referrer, r.UserAgent = "", "" })},
		"absent fields":                      {replaced(`"http://example.org/" "Mozilla/5.0 (X11)"`, `"-" ""`), accesslog.Combined, with(func(r *accesslog.Record) { r.Referrer, r.UserAgent = "", "" })},
		"no size":                            {replaced("2326", "-"), accesslog.Combined, base},
		"a name instead of an address":       {replaced("203.0.113.7", "host.example"), accesslog.Combined, with(func(r *accesslog.Record) { r.Host = "host.example" })},
		"IPv6":                               {replaced("203.0.113.7", "2001:db8::1"), accesslog.Combined, with(func(r *accesslog.Record) { r.Host = "2001:db8::1" })},
		"a user name with blanks":            {replaced("frank", "frank the first"), accesslog.Combined, base},
		"HTTP/0.9":                           {replaced(" HTTP/1.1", ""), accesslog.Combined, base},
		"blanks in the target":               {replaced("/a?b=c", "/a b  c"), accesslog.Combined, with(func(r *accesslog.Record) { r.Target = "/a b  c" })},
		"httpd's escapes":                    {replaced("Mozilla/5.0 (X11)", `say \"hi\" \\ \xe4\t\q`), accesslog.Combined, with(func(r *accesslog.Record) { r.UserAgent = "say \"hi\" \\ \xe4\t\\q" })},
		"nginx's escapes":                    {replaced("/a?b=c", `/\x22\xC3\xA9`), accesslog.Combined, with(func(r *accesslog.Record) { r.Target = `/"é` })},
		"an escape cut short stays":          {replaced("/a?b=c", `/\x2`), accesslog.Combined, with(func(r *accesslog.Record) { r.Target = `/\x2` })},
		"brackets and quotes of the request": {replaced("/a?b=c", `/[x] \"y\"`), accesslog.Combined, with(func(r *accesslog.Record) { r.Target = `/[x] "y"` })},
	} {
		got, err := accesslog.Parse(c.line, c.format)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestHostileLinesAreMalformed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", " ", "\x00", `"`, `\`, strings.Repeat("[", 1000), combinedLine[:len(combinedLine)-1], combinedLine[:len(combinedLine)-20],
		strings.Replace(combinedLine, "Oct", "Okt", 1), strings.Replace(combinedLine, "10/Oct", "32/Oct", 1), strings.Replace(combinedLine, "-0700", "", 1),
		strings.Replace(combinedLine, "13:55", "25:55", 1), strings.Replace(combinedLine, " 200 ", " 2000 ", 1), strings.Replace(combinedLine, " 200 ", " -20 ", 1),
		strings.Replace(combinedLine, " 200 ", " ２００ ", 1), strings.Replace(combinedLine, "2326", "2k", 1), strings.Replace(combinedLine, "2326 ", "", 1),
		strings.Replace(combinedLine, "GET /a?b=c HTTP/1.1", "-", 1), strings.Replace(combinedLine, "GET /a?b=c HTTP/1.1", "GET HTTP/1.1", 1),
		strings.Replace(combinedLine, "GET /a?b=c HTTP/1.1", `GET /" HTTP/1.1`, 1), strings.Replace(combinedLine, "- frank", "-", 1),
		"203.0.113.7", " - - " + combinedLine[len("203.0.113.7 - frank "):],
	} {
		if got, err := accesslog.Parse(line, accesslog.Combined); !errors.Is(err, accesslog.ErrMalformed) {
			t.Errorf("Parse(%.80q) = %+v, %v", line, got, err)
		}
	}
}

func TestAssetsAreToldByTheirExtension(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": false, "": false, "/a": false, "/a.css/": false, "/a.css/b": false, "/index.html": false, "/a.php": false, "/v1.2": false, "/.css": true,
		"/a.css": true, "/A.CSS": true, "/a.min.js": true, "/robots.txt": true, "/favicon.ico": true, "/a.woff2": true, "/css": false, "/a.": false,
	} {
		if got := accesslog.IsAsset(path); got != want {
			t.Errorf("IsAsset(%q) = %v", path, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(combinedLine)
	f.Add(`h - - [10/Oct/2000:13:55:36 +0000] "GET /\x00\" HTTP/1.1" 304 - "-" "\\"`)
	f.Add(`h - - [] "" 200 0`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []accesslog.Format{accesslog.Common, accesslog.Combined} {
			r, err := accesslog.Parse(line, format)
			if err != nil {
				if !errors.Is(err, accesslog.ErrMalformed) || r != (accesslog.Record{}) {
					t.Fatalf("Parse(%q) = %+v, %v", line, r, err)
				}
				continue
			}
			if r.Host == "" || r.Method == "" || r.Target == "" || r.Time.IsZero() || r.Status < 0 || r.Status > 999 {
				t.Errorf("Parse(%q) = %+v", line, r)
			}
			if len(r.Target)+len(r.Referrer)+len(r.UserAgent) > len(line) {
				t.Errorf("Parse(%q) made more than it was given: %+v", line, r)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := accesslog.Parse(combinedLine, accesslog.Combined); err != nil {
			b.Fatal(err)
		}
	}
}
