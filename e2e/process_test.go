package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
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
)

// patience bounds every wait for something that a loaded machine may delay.
const patience = 90 * time.Second

// process is a running waypost.
type process struct {
	cmd    *exec.Cmd
	url    string
	stdout *output
	stderr *output
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// output keeps what a process prints and can be waited on.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// environment is the little that a fresh machine has, and the tests' additions.
func environment(extra ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	if bin := os.Getenv("WAYPOST_POSTGRES_BIN"); bin != "" {
		env = append(env, "WAYPOST_POSTGRES_BIN="+bin)
	}
	return append(env, extra...)
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
			t.Logf("waypost %s\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), p.stdout, tail(p.stderr.String(), 4000))
		}
	})
	return p
}

// stop asks the process to end, and insists after a while.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Errorf("waypost did not stop on SIGTERM within %s", patience)
		p.kill()
	}
}

// kill is kill -9.
func (p *process) kill() {
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
	return p
}

// startDev runs dev on dir and returns once it is ready. Its cluster, which may lie
// elsewhere, is removed when the test ends.
func startDev(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	return startDevOf(t, binary(t), dir, env...)
}

// startDevOf is startDev for another build of waypost.
func startDevOf(t *testing.T, program, dir string, env ...string) *process {
	t.Helper()
	removeServer(t, dir)
	p := startProgram(t, program, env, "dev", "--addr", "127.0.0.1:0", "--data-dir", dir)
	p.waitReady(t, func() string {
		if !strings.Contains(p.stdout.String(), "Waypost is ready") {
			return "" // dev.env may be that of an earlier run
		}
		return devValues(t, dir)["WAYPOST_URL"]
	})
	return p
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
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-p.exited:
			t.Fatalf("waypost ended (%v) before %s:\n%s\n%s", p.err, what, p.stdout, p.stderr)
		case <-deadline:
			t.Fatalf("no %s within %s:\n%s\n%s", what, patience, p.stdout, tail(p.stderr.String(), 4000))
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

// answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request, follows redirects and reads the answer.
func do(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	return exchange(t, http.DefaultClient, method, url, body, header...)
}

// exchange sends a request through a client and reads the answer.
func exchange(t *testing.T, client *http.Client, method, url, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

// into decodes the answer's body, which must be JSON.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("status %d, not the JSON expected (%v): %.500s", a.status, err, a.body)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// serve is startServe on a fresh database, with its connection string.
func serve(t *testing.T, env ...string) (*process, string) {
	t.Helper()
	url := dbtest.NewURL(t).App
	return startServe(t, url, env...), url
}
