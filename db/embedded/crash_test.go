package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/embedded/process"
)

func TestTerminationLeavesNothingRunningAndKeepsTheData(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			o := newOptions(t)
			a := play(t, script{Options: o})
			a.mustSay(t, "ready")
			remember(t, adminURL(t, o))
			// To the whole group, as the terminal does with Ctrl-C.
			if err := syscall.Kill(-a.cmd.Process.Pid, sig); err != nil {
				t.Fatal(err)
			}
			a.mustSay(t, "stopped")
			wantServers(t, o, 0)
			l, err := readLayout(o.DataDir)
			if err != nil {
				t.Fatal(err)
			}
			if left, err := l.leftovers(); err != nil || len(left) != 0 {
				t.Errorf("left running: %v (%v)", left, err)
			}
			recall(t, mustStart(t, o).AdminURL("postgres"))
		})
	}
}

func TestAKilledWaypostLeavesNoSecondServerAndLosesNothing(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	a := play(t, script{Options: o})
	a.mustSay(t, "ready")
	remember(t, adminURL(t, o))
	a.kill(t)
	orphans := servers(t, o)
	if len(orphans) != 1 {
		t.Fatalf("servers after the kill: %v; the test needs one orphan", orphans)
	}
	s := mustStart(t, o)
	wantServers(t, o, 1)
	if orphans[0].Alive() {
		t.Error("the orphaned server still runs")
	}
	recall(t, s.AdminURL("postgres"))
	mustStop(t, s)
	wantServers(t, o, 0)
}

func TestAKilledServerIsRestartedOnItsData(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	url := s.AdminURL("postgres")
	remember(t, url)
	// Three in a row: the supervision outlasts its own restarts.
	for range 3 {
		before := servers(t, o)
		if len(before) != 1 {
			t.Fatalf("servers: %v", before)
		}
		if err := syscall.Kill(before[0].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another server answers", func() bool {
			now := servers(t, o)
			if len(now) != 1 || now[0].PID == before[0].PID {
				return false
			}
			_, err := query(t.Context(), url, `select 'ok'`)
			return err == nil
		})
		recall(t, url)
	}
	mustStop(t, s)
	wantServers(t, o, 0)
}

func TestABackendThatOutlivesItsServerNeverWorksBesideTheNext(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	url := s.AdminURL("postgres")
	remember(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	// A computing backend looks at nothing else, least of all at its parent.
	broken := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), `select count(*) from generate_series(1, 1000000000000) a`)
		broken <- err
	}()
	backend := int(conn.PgConn().PID())
	eventually(t, "the backend computes", func() bool {
		state, err := query(t.Context(), url, `select state from pg_stat_activity where pid = `+strconv.Itoa(backend))
		return err == nil && state == "active"
	})
	p, err := process.Lookup(backend)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(servers(t, o)[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server answers", func() bool {
		_, err := query(t.Context(), url, `select 'ok'`)
		return err == nil
	})
	if p.Alive() {
		t.Error("a backend of the killed server works beside its successor")
	}
	if err := <-broken; err == nil {
		t.Error("the killed server's query succeeded")
	}
	recall(t, url)
}

func TestAKillOfBothIsRecovered(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	a := play(t, script{Options: o})
	a.mustSay(t, "ready")
	remember(t, adminURL(t, o))
	server := servers(t, o)
	a.kill(t)
	if err := syscall.Kill(server[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	recall(t, mustStart(t, o).AdminURL("postgres"))
}

func TestAServerWithoutAPidFileIsNotJoinedByASecond(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	a := play(t, script{Options: o})
	a.mustSay(t, "ready")
	remember(t, adminURL(t, o))
	orphan := servers(t, o)
	a.kill(t)
	l, err := readLayout(o.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pidFile(l.cluster())); err != nil {
		t.Fatal(err)
	}
	s := mustStart(t, o)
	wantServers(t, o, 1)
	if orphan[0].Alive() {
		t.Error("the orphaned server still runs")
	}
	recall(t, s.AdminURL("postgres"))
}

func TestAStalePidFileNamingAnotherProcessIsNoServer(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	remember(t, s.AdminURL("postgres"))
	pidfile := pidFile(s.layout.cluster())
	text, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	mustStop(t, s)

	// PostgreSQL itself refuses to start beside a living process of its own user.
	bystander := s.account.command("/", "/bin/sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	zombie := s.account.command("/", "/bin/true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zombie.Wait() })

	for name, pid := range map[string]int{"a bystander": bystander.Process.Pid, "a zombie": zombie.Process.Pid, "this process": os.Getpid(), "init": 1} {
		// The server keeps a second such file beside its socket.
		if err := s.layout.prepare(s.account); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{pidfile, filepath.Join(s.socketDir, socketName+".lock")} {
			if err := os.WriteFile(file, []byte(strconv.Itoa(pid)+"\n"+rest), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.account.give(file); err != nil {
				t.Fatal(err)
			}
		}
		s := mustStart(t, o)
		recall(t, s.AdminURL("postgres"))
		wantServers(t, o, 1)
		mustStop(t, s)
		if t.Failed() {
			t.Fatalf("with a pid file that names %s", name)
		}
	}
	if _, err := process.Lookup(bystander.Process.Pid); err != nil {
		t.Errorf("the bystander was harmed: %v", err)
	}
}

func TestAnIllegiblePidFileIsNoServer(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	mustStop(t, s)
	for _, text := range []string{"", "\n", "-1\n", "99999999999999999999\n", "\x00\xff"} {
		if err := os.WriteFile(pidFile(s.layout.cluster()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		mustStop(t, mustStart(t, o))
	}
}

func TestAKillDuringInitialisationLeavesNoHalfCluster(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	a := play(t, script{Options: o})
	eventually(t, "initdb has begun", func() bool {
		begun, err := filepath.Glob(filepath.Join(o.DataDir, homeDir, "initdb-*", "*"))
		return err == nil && len(begun) > 0
	})
	a.kill(t)
	s := mustStart(t, o)
	remember(t, s.AdminURL("postgres"))
	recall(t, s.AdminURL("postgres"))
	mustStop(t, s)
	// The killed start's initdb may have gone on for a while.
	eventually(t, "a later start removes the interrupted one's files", func() bool {
		mustStop(t, mustStart(t, o))
		left, err := filepath.Glob(filepath.Join(o.DataDir, homeDir, "initdb-*"))
		return err == nil && len(left) == 0
	})
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	o.Settings = map[string]string{"max_connections": "many"}
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Fatalf("Start: %v; want the server's own words", err)
	}
	wantServers(t, o, 0)
	o.Settings = inDataDir()
	mustStart(t, o) // nothing is held or broken by the failure
}

func TestAStartGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("Start: %v, want the context's error", err)
	}
	wantServers(t, o, 0)
	mustStart(t, o)
}

func TestADeletedDataDirectoryIsNotResurrected(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	remember(t, s.AdminURL("postgres"))
	old := servers(t, o)
	// While it runs, so that the supervision must notice, too.
	if err := os.RemoveAll(o.DataDir); err != nil {
		t.Fatal(err)
	}
	fresh := mustStart(t, o)
	if old[0].Alive() {
		t.Error("the deleted cluster's server still runs, and would write into the new cluster by its path")
	}
	<-s.supervised // gives up rather than start a server on the new directory
	wantServers(t, o, 1)
	if got := mustQuery(t, fresh.AdminURL("postgres"), `select (to_regclass('kept') is null)::text`); got != "true" {
		t.Error("the deleted table is back")
	}
}
