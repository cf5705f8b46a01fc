package imports

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/hit"
)

var importNow = time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)

// logLine is a combined line of a visit that counts.
func logLine(at time.Time, address, path string) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 123 \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\"\n",
		address, at.Format("02/Jan/2006:15:04:05 -0700"), path)
}

func FuzzImportedLine(f *testing.F) {
	for _, line := range []string{
		logLine(importNow, "203.0.113.7", "/a?utm_source=%ff"), `{"ts":"2024-05-01T10:00:00Z","url":"https://example.com/n","props":{"n":1e999}}`,
		logLine(importNow, "::1", "http://example.com:80/%00"), "\x00",
	} {
		f.Add(line)
	}
	parser := lineParserFor(f)
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []Format{Combined, Common, NDJSON} {
			parser.format = format
			v, skip := parser.parse([]byte(line))
			if skip != "" {
				continue
			}
			for _, stored := range []string{v.Path, v.Name, v.Origin.Source, v.Origin.UTMSource, v.Origin.UTMTerm, v.Origin.Device, v.Origin.Browser, v.Origin.OS} {
				if hit.Label(stored) != stored {
					t.Errorf("%q becomes the label %q, which can't be stored", line, stored)
				}
			}
			if v.At.After(importNow.Add(hit.AheadOfClock)) || v.At.Year() < firstImportYear || !strings.HasPrefix(v.Path, "/") {
				t.Errorf("%q becomes %+v", line, v)
			}
		}
	})
}

func lineParserFor(t testing.TB) lineParser {
	t.Helper()
	clients, err := client.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	return lineParser{site: site.Site{Domain: "example.com", Zone: time.UTC}, clients: clients, now: func() time.Time { return importNow }, country: func(netip.Addr) string { return "" }}
}
