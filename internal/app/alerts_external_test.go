//go:build external

package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

// promtool is Debian's, of the package prometheus.
func TestPromtoolTakesTheAlertsAndEachFires(t *testing.T) {
	t.Parallel()
	promtool := func(dir string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "promtool", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	dir := filepath.Dir(alertsFile)
	if out, err := promtool(dir, "check", "rules", filepath.Base(alertsFile)); err != nil {
		t.Errorf("check rules: %v\n%s", err, out)
	}
	if out, err := promtool(dir, "test", "rules", filepath.Base(alertsTests)); err != nil {
		t.Errorf("test rules: %v\n%s", err, out)
	}
	// The tests of rules fail where a rule watches something else.
	broken := dbtest.TempDir(t)
	for path, content := range map[string]string{
		filepath.Base(alertsFile):  strings.ReplaceAll(text(t, alertsFile), "waypost_audit_broken", "waypost_audit_whole"),
		filepath.Base(alertsTests): text(t, alertsTests),
	} {
		if err := os.WriteFile(filepath.Join(broken, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := promtool(broken, "test", "rules", filepath.Base(alertsTests)); err == nil || !strings.Contains(out, "alertname: WaypostAuditBroken") {
		t.Errorf("with another metric: %v\n%s", err, out)
	}
}
