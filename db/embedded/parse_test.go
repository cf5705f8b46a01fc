package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/embedded/process"
)

const pidFileText = "4711\n/srv/data\n1732196460\n5432\n/srv/run\n\n  5432001         7\nready   \n"

func TestThePidFileIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	want := postmaster{pid: 4711, socketDir: "/srv/run", ready: true}
	if got := parsePostmaster(pidFileText); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := parsePostmaster(strings.Replace(pidFileText, "ready   ", "starting", 1)); got.ready {
		t.Error("a starting server counts as ready")
	}
}

func FuzzParsePostmaster(f *testing.F) {
	f.Add(pidFileText)
	f.Add("")
	f.Add("-1\n\n\n\n\n\n\nready")
	f.Fuzz(func(t *testing.T, text string) {
		pm := parsePostmaster(text)
		if pm.pid < 0 {
			t.Errorf("pid %d", pm.pid) // kill(2) would take it for a process group
		}
		if pm.ready && strings.Count(text, "\n") < 7 {
			t.Error("ready before its line")
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	f.Add("postgres (PostgreSQL) 15.10 (Debian 15.10-0+deb12u1)\n")
	f.Add("postgres (PostgreSQL) 18devel")
	f.Add("postgres (PostgreSQL) 99999999999999999999")
	f.Fuzz(func(t *testing.T, line string) {
		major, err := parseVersion(line)
		if err == nil && (major < 0 || !strings.HasPrefix(line, "postgres (PostgreSQL) ")) {
			t.Errorf("version %d in %q", major, line)
		}
	})
}

func FuzzReadLayout(f *testing.F) {
	f.Add([]byte(`{"id":"0123456789abcdef0123456789abcdef","home":"/var/lib/waypost/0123456789abcdef0123456789abcdef"}`))
	f.Add([]byte(`{"id":"../.."}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, identityFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := readLayout(dir)
		if err != nil {
			return
		}
		if l.home != filepath.Join(dir, homeDir) && filepath.Base(l.home) != l.id {
			t.Errorf("the cluster would lie in %q", l.home)
		}
		if len(l.title()) > 63 || len(l.socketDir())+1+len(socketName) > maxSocketPath {
			t.Errorf("title %q or socket %q is too long", l.title(), l.socketDir())
		}
	})
}

func TestAServerIsKnownByItsCommandLine(t *testing.T) {
	t.Parallel()
	const cluster = "/srv/my data/postgres/data"
	for command, want := range map[string]bool{
		"/usr/lib/postgresql/15/bin/postgres -D " + cluster + " -c port=5432":  true,
		"/opt/my programs/postmaster -D " + cluster:                            true,
		"/usr/lib/postgresql/15/bin/postgres -D " + cluster + "2 -c port=5432": false,
		"postgres: waypost-0123456789abcdef: checkpointer":                     false,
		"vi -D " + cluster:                false,
		"postgres":                        false,
		"":                                false,
		"pg_ctl -D " + cluster + " start": false,
	} {
		if got := serves(process.Process{PID: 1 << 30, Command: command}, cluster); got != want {
			t.Errorf("%q: %t, want %t", command, got, want)
		}
	}
}
