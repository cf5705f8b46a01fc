package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/e2e/outside"
)

// process is a running waypost.
type process struct {
	cmd    *exec.Cmd
	url    string
	stdout *output
	stderr *output
	exited chan struct{}
	err    error    // of Wait, once exited is closed
	twin   *process // the second instance behind url, in a run that has two
}

// output keeps what a process prints and can be waited on.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
	also  *output // gets the same
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	if o.also != nil {
		_, _ = o.also.Write(p)
	}
	return o.b.Write(p)
}

// follow lets another have what is written from now on, too.
func (o *output) follow(other *output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.also = other
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// environment is the little that a fresh machine has, and the tests' additions.
func environment(extra ...string) []string {
	// No proxy has to learn that a test's process goes away.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "WAYPOST_SHUTDOWN_DELAY=0s"}
	if bin := os.Getenv("WAYPOST_POSTGRES_BIN"); bin != "" {
		env = append(env, "WAYPOST_POSTGRES_BIN="+bin)
	}
	return append(env, pooled(extra)...)
}

// start runs waypost with args and gives it up when the test ends.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startProgram(t, binary(t), env, args...)
}

// startProgram is start for another build of waypost.
func startProgram(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{stdout: newOutput(), stderr: newOutput(), exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = environment(env...)
	p.cmd.Dir = dbtest.TempDir(t)
	p.begin(t)
	return p
}

// begin starts the process's command, and gives it up when the test ends.
func (p *process) begin(t *testing.T) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", tail(strings.Join(p.cmd.Args, " "), 200), p.stdout, tail(p.stderr.String(), 4000))
		}
	})
}

// stop asks the process to end, and insists after a while.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.twin != nil {
		p.twin.stop(t)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(outside.Patience):
		t.Errorf("waypost did not stop on SIGTERM within %s", outside.Patience)
		p.kill()
	}
}

// kill is kill -9.
func (p *process) kill() {
	if p.twin != nil {
		p.twin.kill()
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// startServe runs the server on a database of its own.
func startServe(t *testing.T, databaseURL string, env ...string) *process {
	t.Helper()
	return startServeOf(t, binary(t), databaseURL, env...)
}

// serveSettings are what serve demands.
func serveSettings(databaseURL string) []string {
	return []string{
		"DATABASE_URL=" + databaseURL,
		"WAYPOST_URL=https://waypost.example",
		"WAYPOST_SECRET_KEY=a secret key for tests, longer than 32 bytes",
	}
}

// startServeOf is startServe for another build of waypost.
func startServeOf(t *testing.T, program, databaseURL string, env ...string) *process {
	t.Helper()
	p := startProgram(t, program, append(serveSettings(databaseURL), env...), "serve", "--addr", "127.0.0.1:0")
	p.waitReady(t, func() string { return listeningURL(p.stderr.String()) })
	p.double(t, program, databaseURL, env)
	return p
}

// startDevOf is startDev for another build of waypost.
func startDevOf(t *testing.T, program, dir string, env ...string) *process {
	t.Helper()
	removeServer(t, dir)
	p := startProgram(t, program, env, "dev", "--addr", "127.0.0.1:0", "--data-dir", dir)
	p.waitReady(t, devURL(t, p, dir))
	return p
}

// devURL finds the address of a dev that keeps its data in dir, once it is there.
func devURL(t *testing.T, p *process, dir string) func() string {
	return func() string {
		if !strings.Contains(p.stdout.String(), "Waypost is ready") {
			return "" // dev.env may be that of an earlier run
		}
		return devValues(t, dir)["WAYPOST_URL"]
	}
}

// removeServer removes the private server of dir when the test ends.
func removeServer(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		if err := embedded.Remove(context.Background(), dir); err != nil {
			t.Errorf("remove the private server: %v", err)
		}
	})
}

// listeningURL finds the address in the server's log.
func listeningURL(log string) string {
	lines := bufio.NewScanner(strings.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			return line.Address
		}
	}
	return ""
}

func (p *process) waitReady(t *testing.T, url func() string) {
	t.Helper()
	p.waitFor(t, "readiness", func() bool {
		if p.url = url(); p.url == "" {
			return false
		}
		res, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// waitFor polls until done, the process's end, or the end of patience.
func (p *process) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(outside.Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-p.exited:
			t.Fatalf("waypost ended (%v) before %s:\n%s\n%s", p.err, what, p.stdout, p.stderr)
		case <-deadline:
			t.Fatalf("no %s within %s:\n%s\n%s", what, outside.Patience, p.stdout, tail(p.stderr.String(), 4000))
		case <-tick.C:
		}
	}
}

// command runs waypost to its end and returns its exit code and output.
func command(t *testing.T, env []string, stdin string, args ...string) (int, string, string) {
	t.Helper()
	return runToEnd(t, exec.CommandContext(t.Context(), binary(t), args...), env, stdin)
}

// runToEnd runs a program to its end, in an empty directory unless it has one, and
// returns its exit code and output.
func runToEnd(t *testing.T, cmd *exec.Cmd, env []string, stdin string) (int, string, string) {
	t.Helper()
	cmd.Env = environment(env...)
	if cmd.Dir == "" {
		cmd.Dir = dbtest.TempDir(t)
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stdout.String(), stderr.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, stdout.String(), stderr.String()
}

// devValues reads dev.env as a script would.
func devValues(t *testing.T, dir string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "dev.env"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok {
			values[name] = strings.Trim(value, "'")
		}
	}
	return values
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
