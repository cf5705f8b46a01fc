// Tests of the program that start it often, kill it or build another: in a package of
// their own, since the time for one package's tests is bounded. What they share with those
// of package e2e is one source, linked here.
package e2e_test

import "os"

// Paths are as in package e2e.
func init() {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
}
