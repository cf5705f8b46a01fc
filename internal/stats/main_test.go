package stats_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Most properties here ask a database for many answers at each of their checks: fewer than
// rapid's hundred keep the package within go test's ten minutes on two processors. The
// flag -rapid.checks still says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
