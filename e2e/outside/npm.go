//go:build external || browser

package outside

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Installed is a copy of source's named programs with the packages of its lock
// file, installed once for each state of these files. It needs Node.js 20 and npm.
func Installed(t *testing.T, source string, programs ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	files := map[string][]byte{}
	for _, name := range append([]string{"package.json", "package-lock.json"}, programs...) {
		if files[name], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
		sum.Write(files[name])
	}
	parent := filepath.Join(cache, "waypost")
	dir := filepath.Join(parent, "npm-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	// Complete or not there at all: a run that was broken off leaves no half.
	fresh, err := os.MkdirTemp(parent, "npm-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	Run(t, fresh, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	if err := os.Rename(fresh, dir); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return dir
}

// Run returns what a command prints; it must succeed.
func Run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, tail(string(out), 12000), tail(stderr.String(), 4000))
	}
	return out
}

// tail is the end of what was printed.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }
