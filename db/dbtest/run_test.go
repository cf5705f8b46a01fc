package dbtest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded/process"
)

const (
	// actorVar makes the test binary play the go command: it runs itself as that
	// many test binaries of packages, twice, the second time after the first.
	actorVar = "DBTEST_TEST_PACKAGES"
	patient  = 2 * time.Minute
)

func TestMain(m *testing.M) {
	value, ok := os.LookupEnv(actorVar)
	if !ok {
		os.Exit(m.Run())
	}
	var packages int
	if _, err := fmt.Sscan(value, &packages); err != nil {
		panic(err)
	}
	if err := errors.Join(runPackages(packages), runPackages(packages)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, ok := os.LookupEnv(lingerVar); ok {
		fmt.Println("done")
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test, however that does
			os.Exit(1)
		}()
		<-signals
	}
	os.Exit(0)
}

// lingerVar makes the actor wait for a signal at its end.
const lingerVar = "DBTEST_TEST_LINGER"

func runPackages(n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			self, err := os.Executable() // Args[0] says "go"
			if err != nil {
				errs[i] = err
				return
			}
			cmd := exec.Command(self, "-test.run=^TestADatabaseTellsItsServer$")
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, actorVar+"=") {
					cmd.Env = append(cmd.Env, v)
				}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("%w: %s", err, out)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// goRun is a run of the go command, played by a process of that name.
type goRun struct {
	cmd    *exec.Cmd
	tmp    string
	report string
}

func newGoRun(t *testing.T, name string, env ...string) *goRun {
	t.Helper()
	tmp := dbtest.TempDir(t)
	r := &goRun{tmp: tmp, report: filepath.Join(tmp, "report")}
	r.cmd = r.command(t, name, env...)
	return r
}

func (r *goRun) command(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp, reportVar+"="+r.report, actorVar+"=3")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// processes are those that have to do with the run's directory.
func (r *goRun) processes(t *testing.T) []process.Process {
	t.Helper()
	found, err := process.Matching(func(p process.Process) bool { return strings.Contains(p.Command, r.tmp) })
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (r *goRun) wantNothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "the server and its files are gone", func() bool {
		dirs, err := filepath.Glob(filepath.Join(r.tmp, "waypost-*"))
		return err == nil && len(dirs) == 0 && len(r.processes(t)) == 0
	})
}

// servers are what the packages reported, each once.
func (r *goRun) servers(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(r.report)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		seen[line]++
	}
	return seen
}

func (r *goRun) awaitReport(t *testing.T) {
	t.Helper()
	eventually(t, "a package has met the server", func() bool {
		info, err := os.Stat(r.report)
		return err == nil && info.Size() > 0
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patient)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patient, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestAllPackagesOfARunShareOneServerThatEndsWithTheRun(t *testing.T) {
	t.Parallel()
	r := newGoRun(t, "go")
	if err := r.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	seen := r.servers(t)
	if len(seen) != 1 {
		t.Errorf("servers met by the packages: %v, want one", seen)
	}
	for server, n := range seen {
		if n != 6 {
			t.Errorf("%d of 6 packages met %s", n, server)
		}
	}
	r.wantNothingLeft(t)
}

func TestWithoutTheGoCommandTheServerEndsSoonAfterTheTests(t *testing.T) {
	t.Parallel()
	r := newGoRun(t, "an-ide", lingerVar+"=1")
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	if _, err := out.Read(make([]byte, 16)); err != nil { // "done"
		t.Fatal(err)
	}
	r.wantNothingLeft(t) // while the parent still runs
	if _, err := process.Lookup(r.cmd.Process.Pid); err != nil {
		t.Errorf("the parent: %v; the test proves nothing", err)
	}
}

func TestAKilledRunLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newGoRun(t, "go", lingerVar+"=1", serverVar+"=1")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Wait() })
	r.awaitReport(t)
	// The whole group at once: the go command and its test binaries.
	if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	r.wantNothingLeft(t)
}

func TestWhatAKilledKeeperLeftIsRemovedByTheNextRun(t *testing.T) {
	t.Parallel()
	r := newGoRun(t, "go", lingerVar+"=1")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	r.awaitReport(t)
	holders, err := filepath.Glob(filepath.Join(r.tmp, "waypost-dbtest-*", "data", "postgres.lock"))
	if err != nil || len(holders) != 1 {
		t.Fatalf("the holder's file: %v (%v)", holders, err)
	}
	text, err := os.ReadFile(holders[0])
	if err != nil {
		t.Fatal(err)
	}
	var keeper int
	if _, err := fmt.Sscan(string(text), &keeper); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(keeper, syscall.SIGKILL), syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	if len(r.processes(t)) == 0 {
		t.Fatal("no server was left behind; the test proves nothing")
	}
	if err := r.command(t, "go").Run(); err != nil {
		t.Fatal(err)
	}
	r.wantNothingLeft(t)
}
