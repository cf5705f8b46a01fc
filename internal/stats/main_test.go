package stats_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Most properties here ask a database for many answers at each of their checks: a dozen of
// them take a minute on two processors, and every run draws others. The flag
// -rapid.checks still says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
