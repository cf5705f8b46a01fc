//go:build external || browser

package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// npmTools is a directory with the packages and programs that read the exports.
func npmTools(t *testing.T) string {
	t.Helper()
	return npmInstalled(t, filepath.Join("..", "tools", "npm"), "collection.cjs", "exports.cjs", "insomnia.cjs")
}

func npmInstalled(t *testing.T, source string, programs ...string) string {
	t.Helper()
	return outside.Installed(t, source, programs...)
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	return outside.Run(t, dir, name, args...)
}
