package e2e_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// The program stands for what the first step builds: the same sources, as the tests
// build them.
func TestTheGuideToDeploymentEndsWithAServiceThatItsAdministratorSignsInTo(t *testing.T) {
	t.Parallel()
	page := "../docs/deployment.md"
	server := newServer(t)
	here := dbtest.TempDir(t)
	path := strings.Join([]string{filepath.Dir(dbtest.Program(t, "psql")), filepath.Dir(binary(t)), os.Getenv("PATH")}, ":")
	user := func(name string) string {
		u, err := url.Parse(server.AdminURL("waypost"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(name)
		return u.String()
	}
	shell := func(script string, env ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir = here
		code, out, errOut := runToEnd(t, cmd, append(env, "PATH="+path), "")
		if code != 0 {
			t.Fatalf("%s\nexit %d\n%s%s", script, code, out, errOut)
		}
		return out
	}
	shell(guide(t, page, "The database")[0], "ADMIN_URL="+server.AdminURL("postgres"))
	settings := guide(t, page, "The settings")[0] + "\nprintf %s \"$WAYPOST_SECRET_KEY\" > key\n"
	out := shell(settings, "SERVICE_URL="+user("waypost_service"), "OWNER_URL="+user("waypost_owner"), "PASSWORD="+outside.Password)
	if !strings.Contains(out, "Applied 00001") || !strings.Contains(out, "Created user 1, you@example.com, ADMIN.") || strings.Contains(out, "wrong ") {
		t.Errorf("the settings' step:\n%s", out)
	}
	key, err := os.ReadFile(filepath.Join(here, "key"))
	if err != nil {
		t.Fatal(err)
	}
	p := startServe(t, user("waypost_service"), "WAYPOST_SECRET_KEY="+string(key))
	signIn(t, p, "you@example.com", outside.Password)
	if log := p.stderr.String(); strings.Contains(log, "owns the tables") {
		t.Error("the service connects as the tables' owner")
	}
}

// Three lines are another's: the build, as above, what a person types, and the address.
func TestTheReadmesWayToProductionEndsWithAServiceThatItsAdministratorSignsInTo(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	admin, err := url.Parse(server.AdminURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	script := snippetOf(t, "README.md", "./waypost migrate up")
	for from, to := range map[string]string{
		"CGO_ENABLED=0 go build -trimpath -o waypost ./cmd/waypost": "ln -s " + binary(t) + " waypost",
		"@db.internal/waypost?sslmode=verify-full":                  "@/waypost?" + admin.RawQuery,
		"./waypost user create":                                     "echo \"$PASSWORD\" | ./waypost user create",
		"./waypost serve --addr :8080\n":                            "exec ./waypost serve --addr 127.0.0.1:0\n",
	} {
		if !strings.Contains(script, from) {
			t.Fatalf("the README has no %q", from)
		}
		script = strings.ReplaceAll(script, from, to)
	}
	p := &process{stdout: newOutput(), stderr: newOutput(), exited: make(chan struct{})}
	p.cmd = exec.Command("sh", "-euc", script)
	p.cmd.Dir = dbtest.TempDir(t)
	path := strings.Join([]string{filepath.Dir(dbtest.Program(t, "psql")), os.Getenv("PATH")}, ":")
	p.cmd.Env = environment("ADMIN_URL="+server.AdminURL("postgres"), "PASSWORD="+outside.Password, "PATH="+path)
	p.begin(t)
	p.waitReady(t, func() string { return listeningURL(p.stderr.String()) })
	signIn(t, p, "you@example.com", outside.Password)
	if said := p.stdout.String(); strings.Contains(said, "wrong ") || strings.Contains(p.stderr.String(), "owns the tables") {
		t.Errorf("not all is well:\n%s\n%s", said, p.stderr)
	}
}
