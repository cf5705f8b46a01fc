//go:build external

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

// What a reader types in a clone is the program that is tested here. Where a page starts dev
// in another terminal, it runs already.
const readersShell = `set -eu
go() { shift 2; waypost "$@"; }
waypost() { if [ "$1" = dev ]; then return; fi; command waypost "$@"; }
`

func TestTheCommandsOfReadmeAndDocsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	here := dbtest.TempDir(t)
	for name, text := range map[string]string{"README.md": "# Waypost\n", "waypost.yaml": snippetOf(t, "webhooks.md", "meta.uid}\n      body_limit")} {
		if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startDev(t, filepath.Join(here, ".waypost"), "WAYPOST_CONFIG="+filepath.Join(here, "waypost.yaml"),
		"WAYPOST_AUDIT_CHECKPOINT_FILE="+filepath.Join(here, "checkpoints.txt"), "FORWARD_SECRET=whsec_YSBrZXkgb2YgdGhlIGZvcndhcmQsIGxvbmcgZW5vdWdo")
	script := readersShell
	for i, c := range commands {
		text := strings.NewReplacer(c.replace...).Replace(snippetOf(t, c.page, c.has))
		script += fmt.Sprintf("%s\necho '@@@ %d'\n%s\n", c.before, i, text)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = here
	path := "PATH=" + filepath.Dir(binary(t)) + ":" + os.Getenv("PATH")
	code, out, errOut := runToEnd(t, cmd, []string{path}, "")
	if code != 0 {
		t.Errorf("exit %d\n%s\n%s", code, tail(out, 2000), tail(errOut, 2000))
	}
	for i, c := range commands {
		_, said, found := strings.Cut(out, fmt.Sprintf("@@@ %d\n", i))
		said, _, _ = strings.Cut(said, "@@@ ")
		if !found {
			t.Errorf("%s, the block with %q was not reached", c.page, c.has)
			continue
		}
		for _, want := range c.wants {
			if !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%s, the block with %q: nothing like %s in\n%s", c.page, c.has, want, tail(said, 3000))
			}
		}
		// A replay of nothing is over before it can be cancelled.
		if n := strings.Count(said, `"error":{"code"`) - strings.Count(said, `"code":"replay_ended"`); n != c.errors {
			t.Errorf("%s, the block with %q: %d errors, want %d:\n%s", c.page, c.has, n, c.errors, tail(said, 3000))
		}
	}
}
