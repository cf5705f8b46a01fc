// Package e2e_test runs the built program and speaks to it over HTTP alone.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

// Most tests here wait for processes more than they work, so three of them run at once
// on two processors as well. The flag -parallel still says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "3"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// build makes the program under test, once for the package.
var build = sync.OnceValues(func() (string, error) {
	dir, err := dbtest.Dir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "waypost")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/waypost").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
})

// binary is the path of the program under test.
func binary(t *testing.T) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}
