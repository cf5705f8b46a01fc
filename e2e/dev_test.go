package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// madeUp are the values that dev writes for scripts.
var madeUp = []string{
	"WAYPOST_URL", "WAYPOST_ADMIN_EMAIL", "WAYPOST_ADMIN_PASSWORD",
	"ANALYTICS_SITE_KEY", "ANALYTICS_API_KEY", "PAYMENT_WEBHOOK_SECRET", "CODEHOST_WEBHOOK_SECRET",
}

func TestDevKeepsItsDataThroughAStopAndAKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dbtest.TempDir(t), ".waypost") // what commands take without being told
	p := startDev(t, dir)
	values := devValues(t, dir)
	for _, name := range madeUp {
		if values[name] == "" {
			t.Errorf("dev.env lacks %s", name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "dev.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("dev.env: %v, %v", info.Mode(), err)
	}
	before := tryEverything(t, p, values)

	code, _, errOut := command(t, nil, "", "dev", "--addr", "127.0.0.1:0", "--data-dir", dir)
	if code != 1 || !strings.Contains(errOut, "--data-dir") {
		t.Errorf("a second dev on one directory: exit %d, %q", code, errOut)
	}
	code, out, errOut := command(t, nil, "", "site", "list", "--data-dir", dir)
	if code != 0 || !strings.Contains(out, values["ANALYTICS_SITE_KEY"]) {
		t.Errorf("a command beside dev: exit %d, %q %q", code, out, errOut)
	}

	// A database that a dev made before there was a mark goes on as dev's.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `. "$0/dev.env"; exec "$1" --set=ON_ERROR_STOP=1 "$PSQL_URL" -c "set waypost.actor_type = 'cli'; update installation set dev_since = null where dev_since is not null"`, dir, dbtest.Program(t, "psql"))
	if code, out, errOut := runToEnd(t, cmd, nil, ""); code != 0 || !strings.Contains(out, "UPDATE 1") {
		t.Errorf("psql with PSQL_URL: exit %d, %q %q", code, out, errOut)
	}

	p.kill()
	p = startDev(t, dir)
	again := devValues(t, dir)
	if diff := cmp.Diff(without(values, "WAYPOST_URL"), without(again, "WAYPOST_URL")); diff != "" {
		t.Errorf("values changed over a kill: %s", diff)
	}
	if diff := cmp.Diff(before, tryEverything(t, p, again)); diff != "" {
		t.Errorf("data changed over a kill: %s", diff)
	}
	p.stop(t)
	if p.err != nil {
		t.Errorf("dev ended with %v", p.err)
	}

	// The environment wins over what was made up, and commands work without dev.
	p = startDev(t, dir, "WAYPOST_ADMIN_PASSWORD=a password of my own", "ANALYTICS_API_KEY=a-key-of-my-own", "PAYMENT_WEBHOOK_SECRET=whsec_mine")
	chosen := devValues(t, dir)
	want := map[string]string{"WAYPOST_ADMIN_PASSWORD": "a password of my own", "ANALYTICS_API_KEY": "a-key-of-my-own", "PAYMENT_WEBHOOK_SECRET": "whsec_mine"}
	for name, value := range want {
		if chosen[name] != value {
			t.Errorf("%s is %q, want %q", name, chosen[name], value)
		}
	}
	if diff := cmp.Diff(before, tryEverything(t, p, chosen)); diff != "" {
		t.Errorf("data changed: %s", diff)
	}
	p.stop(t)
	code, out, errOut = command(t, nil, "", "site", "list", "--data-dir", dir)
	if code != 0 || !strings.Contains(out, values["ANALYTICS_SITE_KEY"]) {
		t.Errorf("a command without dev: exit %d, %q %q", code, out, errOut)
	}
	cmd = exec.CommandContext(t.Context(), binary(t), "site", "list")
	cmd.Dir = filepath.Dir(dir)
	code, out, errOut = runToEnd(t, cmd, nil, "")
	if code != 0 || !strings.Contains(out, values["ANALYTICS_SITE_KEY"]) || !strings.Contains(errOut, "Database: private PostgreSQL in "+dir) {
		t.Errorf("a command beside .waypost: exit %d, %q %q", code, out, errOut)
	}
}

func TestDevRunsInAPathWithBlanksAndWithoutRoot(t *testing.T) {
	t.Parallel()
	home := filepath.Join(dbtest.TempDir(t), "My Projects, 50% done", "d'été #1")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".waypost")
	removeServer(t, dir)
	p := &process{stdout: newOutput(), stderr: newOutput(), exited: make(chan struct{})}
	p.cmd = exec.Command(binary(t), "dev", "--addr", "127.0.0.1:0")
	p.cmd.Dir, p.cmd.Env = home, environment("HOME="+home)
	if os.Getuid() == 0 { // whoever tests without root is another user already
		const nobody = 65534
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	p.begin(t)
	p.waitReady(t, devURL(t, p, dir))
	tryEverything(t, p, devValues(t, dir))
	p.stop(t)
	if p.err != nil {
		t.Errorf("dev ended with %v", p.err)
	}
}

// tryEverything uses each area with dev's values, and returns what must not
// change between runs.
func tryEverything(t *testing.T, p *process, values map[string]string) string {
	t.Helper()
	token := signIn(t, p, values["WAYPOST_ADMIN_EMAIL"], values["WAYPOST_ADMIN_PASSWORD"])
	if a := outside.Do(t, "GET", p.url+"/api/users", "", "Authorization", "Bearer "+token); a.Status != 200 {
		t.Errorf("users: %d %s", a.Status, a.Body)
	}
	body := `{"id":"evt_dev","type":"payment.succeeded"}`
	a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(values["PAYMENT_WEBHOOK_SECRET"], body))
	var r outside.Receipt
	if a.Into(t, &r); a.Status != 200 {
		t.Errorf("delivery: %d %s", a.Status, a.Body)
	}
	if a := outside.Do(t, "GET", p.url+"/docs/openapi.json", ""); a.Status != 200 || !bytesContain(a.Body, values["WAYPOST_URL"]) {
		t.Errorf("description: %d, %d bytes", a.Status, len(a.Body))
	}
	var summary struct{ Pageviews, Visitors int }
	a = outside.Do(t, "GET", p.url+"/api/stats/summary", "", "X-Analytics-API-Key", values["ANALYTICS_API_KEY"])
	if a.Into(t, &summary); a.Status != 200 || summary.Pageviews < 1000 || summary.Visitors < 500 {
		t.Errorf("summary: %d %s", a.Status, a.Body)
	}
	return r.ID
}

func without(m map[string]string, name string) map[string]string {
	c := map[string]string{}
	for k, v := range m {
		if k != name {
			c[k] = v
		}
	}
	return c
}

// startDev runs dev on dir and returns once it is ready. Its cluster, which may lie
// elsewhere, is removed when the test ends.
func startDev(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	return startDevOf(t, binary(t), dir, env...)
}
