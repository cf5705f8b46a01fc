//go:build external

package stats_test

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/internal/stats"
)

// TestARealLogIsCountedToTheUnit needs the log that lies beside the checkout:
// 10,000 lines of 17 to 20 May 2015, all at minute :05.
func TestARealLogIsCountedToTheUnit(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "apache_combined_10k.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"UTC", "America/New_York", "Asia/Kolkata"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := imported(t, counting{content: content, format: stats.Combined, domain: "semicomplete.com", rules: naive.Rules{Zone: location(t, zone)}})
			c.mustAgree(t.Context(), t, naive.Window{From: "2015-05-17", To: "2015-05-20"})
			for _, day := range []string{"2015-05-17", "2015-05-18", "2015-05-19", "2015-05-20"} {
				c.mustAgree(t.Context(), t, naive.Window{From: day, To: day})
			}
			rapid.Check(t, func(rt *rapid.T) {
				c.mustAgree(t.Context(), rt, windows(c.from, c.to, c.zone).Draw(rt, "window"))
			})
			s := c.count.Summary(naive.Window{From: "2015-05-17", To: "2015-05-20"})
			t.Logf("17 to 20 May 2015 in %s: %+v", zone, s)
		})
	}
}
