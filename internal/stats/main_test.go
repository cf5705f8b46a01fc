package stats_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Most properties here ask a database for many answers at each of their checks: two dozen
// of them take two minutes on two processors, and every run draws others. The flag
// -rapid.checks still says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
