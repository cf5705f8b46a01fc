//go:build external

package stats_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats/imports"
)

// TestRealLogsAreCountedToTheUnit needs the logs that lie beside the checkout:
// 10,000 lines of 17 to 20 May 2015, all at minute :05, and 4,000 of 1 July 1995,
// in their natural timing and without referrers and user agents.
func TestRealLogsAreCountedToTheUnit(t *testing.T) {
	t.Parallel()
	for file, log := range map[string]struct {
		format      imports.Format
		domain      string
		first, last string
		zones       []string
	}{
		"apache_combined_10k.log": {imports.Combined, "semicomplete.com", "2015-05-17", "2015-05-20", []string{"UTC", "America/New_York", "Asia/Kolkata"}},
		"nasa_common_4k.log":      {imports.Common, "ksc.nasa.gov", "1995-06-30", "1995-07-02", []string{"UTC", "America/New_York", "Pacific/Honolulu"}},
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, zone := range log.zones {
			t.Run(file+" in "+zone, func(t *testing.T) {
				t.Parallel()
				c := imported(t, counting{content: content, format: log.format, domain: log.domain, rules: naive.Rules{Zone: location(t, zone)}})
				all := naive.Window{From: log.first, To: log.last}
				for day, err := time.Parse(time.DateOnly, log.first); day.Format(time.DateOnly) <= log.last; day = day.AddDate(0, 0, 1) {
					if err != nil {
						t.Fatal(err)
					}
					c.mustAgree(t.Context(), t, naive.Window{From: day.Format(time.DateOnly), To: day.Format(time.DateOnly)})
				}
				c.mustAgree(t.Context(), t, all)
				rapid.Check(t, func(rt *rapid.T) {
					c.mustAgree(t.Context(), rt, windows(c.from, c.to, c.zone).Draw(rt, "window"))
				})
				s := c.count.Summary(all)
				if s.Pageviews == 0 || s.Sessions == 0 {
					t.Errorf("%+v: the test shows nothing", s)
				}
				t.Logf("%s to %s in %s: %+v", log.first, log.last, zone, s)
			})
		}
	}
}
