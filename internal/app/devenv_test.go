package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAShellAndWaypostReadBackWhatDevWrote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.RuneFrom([]rune(`aZ09 '"$\!#=;&|<>()*?~é`+"`"))).Draw(t, "value")
		e := &devEnv{values: map[string]string{}}
		e.set("FIRST", value)
		e.set("SECOND", "x")
		if err := e.write(dir); err != nil {
			t.Fatal(err)
		}
		again, err := readDevEnv(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.get("FIRST"); got != value {
			t.Fatalf("read back %q, want %q", got, value)
		}
		out, err := exec.Command("sh", "-c", `. "$1"; printf '%s' "$FIRST"`, "sh", filepath.Join(dir, devEnvFile)).Output()
		if err != nil || string(out) != value {
			t.Fatalf("a shell reads %q (%v), want %q", out, err, value)
		}
	})
	info, err := os.Stat(filepath.Join(dir, devEnvFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, devEnvFile+".*")); len(left) > 0 {
		t.Errorf("left behind: %s", strings.Join(left, ", "))
	}
}
