package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// A load balancer that knows nothing but readiness loses no request to a rolling restart.
func TestAStopTellsReadinessFirstAndLosesNoRequest(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	var list [2]*process
	for i := range list {
		list[i] = startServe(t, urls.App, "WAYPOST_SHUTDOWN_DELAY=3s")
	}
	// Who is ready, as a balancer sees it that asks ten times a second.
	var ready atomic.Pointer[[]string]
	ask := func() {
		var urls []string
		for _, p := range list {
			if a, err := http.Get(p.url + "/readyz"); err == nil {
				_, _ = io.Copy(io.Discard, a.Body)
				_ = a.Body.Close()
				if a.StatusCode == http.StatusOK {
					urls = append(urls, p.url)
				}
			}
		}
		ready.Store(&urls)
	}
	ask()
	if n := len(*ready.Load()); n != len(list) {
		t.Fatalf("%d of %d are ready", n, len(list))
	}
	done := make(chan struct{})
	var workers sync.WaitGroup
	var answered atomic.Int64
	for i := range 4 {
		workers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: outside.Patience}
			for n := i; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				to := *ready.Load()
				a, err := client.Get(to[n%len(to)] + "/")
				if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, a.Body)
				_ = a.Body.Close()
				if a.StatusCode != http.StatusOK {
					t.Errorf("a request was answered with %d", a.StatusCode)
				}
				answered.Add(1)
			}
		})
	}
	_ = list[0].cmd.Process.Signal(syscall.SIGTERM)
	for stopped := false; !stopped; {
		select {
		case <-list[0].exited:
			stopped = true
		case <-time.After(100 * time.Millisecond):
			ask()
		}
	}
	close(done)
	workers.Wait()
	if log := list[0].stderr.String(); !strings.Contains(log, "readiness answers 503") || list[0].err != nil {
		t.Errorf("the stop: %v\n%s", list[0].err, tail(log, 2000))
	}
	if answered.Load() == 0 || len(*ready.Load()) != 1 {
		t.Errorf("%d requests were answered; ready: %v", answered.Load(), *ready.Load())
	}
}

func TestAClosedTerminalStopsTheServerAndItsPostgreSQL(t *testing.T) {
	t.Parallel()
	dir := dbtest.TempDir(t)
	p := startDev(t, dir)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	select {
	case <-p.exited:
	case <-time.After(outside.Patience):
		t.Fatal("it goes on")
	}
	if p.err != nil {
		t.Errorf("it ended with %v", p.err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "postmaster.pid")); len(left) > 0 {
		t.Errorf("PostgreSQL goes on: %v", left)
	}
}

func TestVariablesThatOrchestratorsSetAreNoErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variable string
		code     int
	}{{"WAYPOST_PORT=tcp://10.0.0.1:8080", 0}, {"WAYPOST_PORT_8080_TCP_ADDR=10.0.0.1", 0}, {"WAYPOST_SERVICE_HOST=10.0.0.1", 0}, {"WAYPOST_SERVICE_PORT_HTTP=80", 0}, {"WAYPOST_PROT=1", 2}} {
		if code, _, errOut := command(t, []string{c.variable}, "", "openapi"); code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.variable, code, c.code, errOut)
		}
	}
}

func TestEveryListIsAlsoJSON(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	env := serveSettings(urls.App)
	code, _, errOut := command(t, env, "", "site", "create", "--name", "Blog", "--domain", "blog.example")
	if code != 0 {
		t.Fatal(errOut)
	}
	rows := func(args string) []map[string]any {
		t.Helper()
		var list []map[string]any
		code, out, errOut := command(t, env, "", append(strings.Fields(args), "--json")...)
		if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
			t.Fatalf("%s: exit %d, %v, %s %s", args, code, err, out, errOut)
		}
		return list
	}
	sites := rows("site list")
	if len(sites) != 1 || sites[0]["domain"] != "blog.example" {
		t.Fatalf("sites: %v", sites)
	}
	id, _ := sites[0]["site"].(string)
	keys := rows("site key list " + id)
	if len(keys) != 1 || keys[0]["name"] != "first" || keys[0]["last_used"] != nil {
		t.Errorf("keys: %v", keys)
	}
	if drops := rows("site drops " + id); drops == nil || len(drops) != 0 {
		t.Errorf("drops: %v, want an empty array", drops)
	}
	if m := rows("migrate status"); len(m) < 30 || m[0]["state"] != "applied" {
		t.Errorf("migrations: %v", m)
	}
	rows("keys list")
}

func TestTheDoctorNamesWhatIsWrongAndTheLineThatMendsIt(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	diagnose := func(env ...string) (int, map[string]string) {
		t.Helper()
		code, out, errOut := command(t, append(serveSettings(urls.App), env...), "", "doctor", "--json")
		var list []struct{ Part, Verdict, Said, Mend string }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%v: %s %s", err, out, errOut)
		}
		found := map[string]string{}
		for _, f := range list {
			found[f.Part] = f.Verdict + ": " + f.Said + " -> " + f.Mend
		}
		return code, found
	}
	code, found := diagnose("WAYPOST_DATABASE_OWNER_URL="+urls.Owner, "WAYPOST_UPLOAD_DIR="+dbtest.TempDir(t))
	for _, part := range []string{"settings", "database", "clock", "migrations", "secret key", "roles", "audit log", "files"} {
		if code != 0 || !strings.HasPrefix(found[part], "ok: ") {
			t.Errorf("healthy, exit %d, %s: %s", code, part, found[part])
		}
	}
	server := startServe(t, urls.App) // makes the signing key
	server.stop(t)
	for _, c := range []struct{ env, part, says string }{
		{"WAYPOST_SECRET_KEY=another secret key for tests, also longer than 32 bytes", "secret key", "WAYPOST_SECRET_KEY_PREVIOUS"},
		{"DATABASE_URL=" + dbtest.Unmigrated(t).Owner, "migrations", "waypost migrate up"},
		{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "database", "check that the server runs"},
		{"WAYPOST_URL=nowhere", "settings", "WAYPOST_URL"},
		{"WAYPOST_DATABASE_MAX_CONNS=11", "connections", "needs 12 at least"},
		{"WAYPOST_SMTP_HOST=127.0.0.1 ", "settings", "WAYPOST_MAIL_FROM"},
		{"WAYPOST_CONFIG=/nonexistent.yaml", "webhooks", "nonexistent.yaml"},
	} {
		code, found := diagnose(c.env)
		if code != 1 || !strings.HasPrefix(found[c.part], "wrong: ") || !strings.Contains(found[c.part], c.says) {
			t.Errorf("%s: exit %d, %s: %q, want %q", c.env, code, c.part, found[c.part], c.says)
		}
	}
	dir := dbtest.TempDir(t)
	if code, _, _ := command(t, []string{"WAYPOST_DATA_DIR=" + dir}, "", "doctor"); code != 1 {
		t.Errorf("an empty directory: exit %d", code)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the doctor left %v, %v", left, err)
	}
}

func TestTooFewConnectionsAreAStartUpErrorThatSaysHowManyAreNeeded(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"WAYPOST_DATABASE_MAX_CONNS=11"}, "give 12 or more"},
		{[]string{"WAYPOST_DATABASE_MAX_CONNS=12", "WAYPOST_DATABASE_VIEWER_URL=" + urls.App}, "give 13 or more"},
	} {
		code, out, errOut := command(t, append(serveSettings(urls.App), c.env...), "", "serve", "--addr", "127.0.0.1:0")
		if code != 1 || !strings.Contains(errOut, "WAYPOST_DATABASE_MAX_CONNS is ") || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, %s%s, want %q", c.env, code, out, errOut, c.want)
		}
	}
	startServe(t, urls.App, "WAYPOST_DATABASE_MAX_CONNS=12")
}

func TestTheProgramSaysWhatItIs(t *testing.T) {
	t.Parallel()
	code, out, _ := command(t, nil, "", "version")
	if code != 0 || !slices.Contains(strings.Fields(out), "commit") || !strings.Contains(out, "go1.") {
		t.Errorf("exit %d, %s", code, out)
	}
}
