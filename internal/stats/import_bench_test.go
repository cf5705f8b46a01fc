package stats

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/stats/imports"
)

// agents are what visitors of writeLog use.
var agents = []string{
	firefox, safari,
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
	"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 Edg/124.0.0.0",
}

// writeLog writes a combined log of lines in the order of time, some 50,000 a day:
// of 20 lines 19 count, visitors have three pageviews on average and come from many
// addresses, and pages and referrers are as unevenly liked as they are elsewhere.
func writeLog(w io.Writer, lines int, start time.Time) error {
	random := rand.New(rand.NewPCG(8, 1))
	pages, sources := rand.NewZipf(random, 1.15, 3, 2999), rand.NewZipf(random, 1.3, 3, 599)
	type visitor struct{ address, agent, referrer string }
	var here []visitor
	out := bufio.NewWriter(w)
	at := start
	for n := range lines {
		at = at.Add(time.Duration(random.IntN(3457)) * time.Millisecond)
		if len(here) < 300 || random.IntN(3) == 0 {
			v := visitor{fmt.Sprintf("10.%d.%d.%d", random.IntN(256), random.IntN(256), random.IntN(256)), agents[random.IntN(len(agents))], "-"}
			if random.IntN(2) == 0 {
				v.referrer = fmt.Sprintf("https://www.referrer-%d.example/path", sources.Uint64())
			}
			if here = append(here, v); len(here) > 300 {
				here = here[1:]
			}
		}
		v, path := here[random.IntN(len(here))], fmt.Sprintf("/articles/%d/a-title-of-common-length", pages.Uint64())
		if n%20 == 0 {
			path = "/assets/style.css"
		}
		if _, err := fmt.Fprintf(out, "%s - - [%s] \"GET %s HTTP/1.1\" 200 5120 \"%s\" \"%s\"\n", v.address, at.Format("02/Jan/2006:15:04:05 -0700"), path, v.referrer, v.agent); err != nil {
			return err
		}
	}
	return out.Flush()
}

// BenchmarkImportingALog imports b.N lines; -benchtime=500000x gives it as many.
func BenchmarkImportingALog(b *testing.B) {
	bench := newBench(b, "Europe/Lisbon", time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC))
	in, out := io.Pipe()
	go func() { out.CloseWithError(writeLog(out, b.N, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))) }()
	b.ResetTimer()
	report, err := bench.importer.Import(b.Context(), bench.site, in, imports.Combined, nil)
	if err != nil || report.Lines != b.N {
		b.Fatalf("%+v, %v", report, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
