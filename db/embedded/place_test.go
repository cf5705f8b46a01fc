package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestALongDataPathHasItsSocketElsewhere(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	base := o.DataDir
	for len(o.DataDir) < 120 {
		o.DataDir = filepath.Join(o.DataDir, "a rather long 100% 'name'")
	}
	if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := o.DataDir; len(dir) >= len(base); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	a := play(t, script{Options: o})
	a.mustSay(t, "ready")
	remember(t, adminURL(t, o))
	s, err := Attach(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	socketDir := s.socketDir
	recall(t, s.AdminURL("postgres"))
	mustStop(t, s)
	a.kill(t)
	again := mustStart(t, o)
	recall(t, again.AdminURL("postgres"))
	mustStop(t, again)
	wantServers(t, o, 0)
	if _, err := os.Stat(socketDir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind (%v)", socketDir, err)
	}
	if err := Remove(t.Context(), o.DataDir); err != nil {
		t.Error(err)
	}
}

func TestRootRunsTheServerUnprivilegedEvenFromItsOwnHome(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	home := filepath.Join(filepath.Dir(o.DataDir), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	o.DataDir = filepath.Join(home, "checkout", ".waypost")
	t.Cleanup(func() {
		if err := Remove(t.Context(), o.DataDir); err != nil {
			t.Error(err)
		}
	})
	a := play(t, script{Options: o})
	a.mustSay(t, "ready")
	remember(t, adminURL(t, o))
	l, err := readLayout(o.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	uid, _, err := owner(l.cluster())
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if uid == 0 || filepath.Dir(l.home) != o.RelocationDir {
			t.Errorf("the cluster %s belongs to user id %d, want an unprivileged one under %s", l.home, uid, o.RelocationDir)
		}
	} else if int(uid) != os.Geteuid() || l.home != filepath.Join(o.DataDir, homeDir) {
		t.Errorf("the cluster %s belongs to user id %d, want this user's in the data directory", l.home, uid)
	}
	server := servers(t, o)
	if runner, _, err := owner(filepath.Join("/proc", strconv.Itoa(server[0].PID))); err == nil && runner != uid {
		t.Errorf("the server runs as user id %d, not as the cluster's owner %d", runner, uid)
	}
	a.kill(t)
	s := mustStart(t, o)
	recall(t, s.AdminURL("postgres"))
	mustStop(t, s)
	a = play(t, script{Options: o})
	a.mustSay(t, "ready")
	server = servers(t, o)
	a.kill(t)

	// The directory's deletion is the cluster's end, wherever that lies.
	if err := os.RemoveAll(o.DataDir); err != nil {
		t.Fatal(err)
	}
	s = mustStart(t, o)
	if got := mustQuery(t, s.AdminURL("postgres"), `select (to_regclass('kept') is null)::text`); got != "true" {
		t.Error("a new data directory shows the deleted one's table")
	}
	if server[0].Alive() {
		t.Error("the deleted data directory's server still runs")
	}
	mustStop(t, s)
}

func TestADirectoryThatOthersCanEnterIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := account{uid: uint32(os.Geteuid())}
	for _, c := range []struct {
		name string
		make func(path string) error
		ok   bool
	}{
		{"private", func(p string) error { return os.Mkdir(p, 0o700) }, true},
		{"open to the group", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, 0o750)
		}, false},
		{"a link", func(p string) error { return os.Symlink(dir, p) }, false},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
	} {
		path := filepath.Join(dir, c.name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		if err := private(path, a); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := private(filepath.Join(dir, "private"), account{uid: a.uid + 1}); err == nil {
		t.Error("another user's directory is accepted")
	}
}

func TestNobodyElseCanReachTheSocket(t *testing.T) {
	t.Parallel()
	s := mustStart(t, newOptions(t))
	if err := private(s.socketDir, s.account); err != nil {
		t.Error(err)
	}
	if got := mustQuery(t, s.AdminURL("postgres"), `show listen_addresses`); got != "" {
		t.Errorf("listen_addresses = %q, want none", got)
	}
	if os.Geteuid() == 0 {
		stranger := account{uid: s.account.uid + 54321, gid: s.account.gid + 54321, drop: true}
		if out, err := stranger.command("/", "/bin/ls", s.socketDir).CombinedOutput(); err == nil {
			t.Errorf("a stranger sees the socket: %s", out)
		}
	}
}

func TestRolesOwnWhatTheyShould(t *testing.T) {
	t.Parallel()
	s := mustStart(t, newOptions(t))
	for range 2 {
		if err := s.EnsureDatabase(t.Context(), `way"post`); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for role, url := range map[string]string{"admin": s.AdminURL(`way"post`), "owner": s.OwnerURL(`way"post`), "app": s.AppURL(`way"post`)} {
		got[role] = mustQuery(t, url, `select concat_ws(' ', current_user, current_database(),
			'super', rolsuper, 'createrole', rolcreaterole, 'makes tables', has_schema_privilege('public', 'create'),
			'is app', pg_has_role('waypost_app', 'member')) from pg_roles where rolname = current_user`)
	}
	want := map[string]string{
		"admin": `postgres way"post super t createrole t makes tables t is app t`,
		"owner": `waypost_owner way"post super f createrole f makes tables t is app t`,
		"app":   `waypost_app way"post super f createrole f makes tables f is app t`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTextIsOrderedByBytesAndLettersHaveCase(t *testing.T) {
	t.Parallel()
	s := mustStart(t, newPlace(t))
	if got := mustQuery(t, s.AdminURL("postgres"), `select string_agg(v, '' order by v) from unnest(array['b','A','a','B','ä']) v`); got != "ABabä" {
		t.Errorf("order %q", got)
	}
	if got := mustQuery(t, s.AdminURL("postgres"), `show server_encoding`); got != "UTF8" {
		t.Errorf("encoding %q", got)
	}
}

func TestTheServersVariablesAreNotTheUsers(t *testing.T) {
	t.Parallel()
	a := account{}
	for _, v := range a.command("/", "x").Env {
		if strings.HasPrefix(v, "PG") {
			t.Errorf("the server would see %s", v)
		}
	}
}

func TestAnIdentityCannotPointAtForeignDirectories(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	for text, ok := range map[string]bool{
		`{"id":"` + id + `"}`: true,
		`{"id":"` + id + `","home":"/var/lib/waypost/` + id + `"}`: true,
		`{"id":"` + id + `","home":"/etc"}`:                        false,
		`{"id":"` + id + `","home":"` + id + `"}`:                  false,
		`{"id":"../../../../../../../../../etc/"}`:                 false,
		`{"id":""}`: false,
		``:          false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readLayout(dir); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnyDirectoryWillDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"My Projects", "100%", "a+b %20", "#?&=;", "it's", `say "so"`, "one,two", "größer", `back\slash`, "$HOME", "-D x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOptionsIn(t, name)
			s := mustStart(t, o)
			if exists, err := Exists(o.DataDir); err != nil || !exists {
				t.Errorf("Exists: %t, %v", exists, err)
			}
			remember(t, s.AdminURL("postgres"))
			a, err := Attach(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			recall(t, a.AdminURL("postgres"))
			mustStop(t, a)
			wantServers(t, o, 1)
			mustStop(t, s)
			wantServers(t, o, 0)
			recall(t, mustStart(t, o).AdminURL("postgres"))
		})
	}
}

func TestAskingWhetherThereIsAServerMakesNone(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	if exists, err := Exists(o.DataDir); err != nil || exists {
		t.Errorf("Exists: %t, %v", exists, err)
	}
	if _, err := os.Stat(o.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}
