//go:build external

package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestTheUnitFileIsValidAndShutsTheServiceIn(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../deploy/systemd/waypost.service")
	if err != nil {
		t.Fatal(err)
	}
	// The program is not installed here.
	unit := filepath.Join(dbtest.TempDir(t), "waypost.service")
	if err := os.WriteFile(unit, []byte(strings.Replace(string(raw), "/usr/local/bin/waypost", binary(t), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=25", unit).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// What the Containerfile does, without a builder of images: its build command, and its
// last stage as the root of a process that runs as its user.
func TestTheContainersStepsMakeAServiceThatNeedsNothingElse(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("changing a process's root needs root, which CI's runs have")
	}
	file, err := os.ReadFile("../deploy/container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /waypost (\S+)$`).FindSubmatch(file)
	if build == nil {
		t.Fatal("the Containerfile builds in another way")
	}
	root, err := os.MkdirTemp("", "waypost-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "..", "sh", "-c", string(build[1])+" -o "+filepath.Join(root, "waypost")+" "+string(build[2]))
	const volume, user = "COPY --from=build --chown=65532:65532 /uploads /uploads\n", 65532
	if !strings.Contains(string(file), volume) {
		t.Fatal("a volume for files is not its user's")
	}
	uploads := filepath.Join(root, "uploads")
	if err := errors.Join(os.Mkdir(uploads, 0o700), os.Chown(uploads, user, user)); err != nil {
		t.Fatal(err)
	}
	urls := dbtest.NewURL(t)
	database := overTCP(t, urls.App)
	p := &process{stdout: newOutput(), stderr: newOutput(), exited: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), "/waypost", "serve")
	p.cmd.Dir = "/"
	p.cmd.Env = append(serveSettings(database), "WAYPOST_ADDR=127.0.0.1:0", "WAYPOST_SHUTDOWN_DELAY=0s", "WAYPOST_UPLOAD_DIR=/uploads")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.stop(t) })
	p.waitReady(t, func() string { return listeningURL(p.stderr.String()) })
	if a := outside.Do(t, "GET", p.url+"/docs/openapi.json", ""); a.Status != 200 {
		t.Errorf("the description: %d", a.Status)
	}
	if left, err := os.ReadDir(uploads); err != nil || len(left) == 0 {
		t.Errorf("it did not take the directory for files: %v, %v", left, err)
	}
	p.stop(t)
	if p.err != nil {
		t.Errorf("it stopped with %v: %s", p.err, tail(p.stderr.String(), 2000))
	}
}

// overTCP makes a database that listens on a socket in the file system reachable from a
// process that doesn't see it.
func overTCP(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	socket := filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
			go func() { _, _ = io.Copy(c, to); _ = c.Close() }()
		}
	}()
	q.Del("host")
	q.Del("port")
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	return u.String()
}
