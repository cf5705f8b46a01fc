//go:build external

// Package s3test runs a real S3 server (Versity's gateway to a directory, from
// tools/versitygw) for tests with the build tag external.
package s3test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
)

// The credentials that a Server accepts.
const (
	AccessKey = "waypost-test"
	SecretKey = "waypost-test-secret-4711"
	Region    = "us-east-1"
)

// Server is an S3 server with an address of its own, which stays the same when the
// server is killed and started again, as its objects do.
type Server struct {
	Address string // host:port
	Dir     string // one directory per bucket
	t       testing.TB
	program string
	mu      sync.Mutex
	cmd     *exec.Cmd // nil while it doesn't run
	log     bytes.Buffer
}

// Start builds the server, which takes minutes the first time on a machine, and
// starts it. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, program: build(t), Dir: t.TempDir(), Address: freeAddress(t)}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the S3 server said:\n%s", s.log.Bytes())
		}
	})
	s.Restart()
	return s
}

// Bucket makes a bucket; making it again is no error.
func (s *Server) Bucket(name string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// Options are those of a store in a bucket of the server.
func (s *Server) Options(bucket string) blob.S3Options {
	return blob.S3Options{
		Endpoint: "http://" + s.Address, Region: Region, Bucket: bucket,
		AccessKey: AccessKey, SecretKey: SecretKey, PathStyle: true,
	}
}

// Environment are the settings of Waypost for a bucket of the server.
func (s *Server) Environment(bucket string) []string {
	return []string{
		"WAYPOST_UPLOAD_BACKEND=s3", "WAYPOST_S3_ENDPOINT=http://" + s.Address, "WAYPOST_S3_REGION=" + Region, "WAYPOST_S3_BUCKET=" + bucket,
		"WAYPOST_S3_ACCESS_KEY=" + AccessKey, "WAYPOST_S3_SECRET_KEY=" + SecretKey, "WAYPOST_S3_PATH_STYLE=true",
	}
}

// Kill kills the server at once, as kill -9 does.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Restart starts the server again at its address, unless it runs, and waits until
// it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return
	}
	cmd := exec.Command(s.program, "--port", s.Address, "--keep-alive", "--quiet", "--region", Region, "posix", s.Dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey, "HOME=" + s.Dir, "TMPDIR=" + os.TempDir()}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if r, err := http.Get("http://" + s.Address + "/"); err == nil {
			_ = r.Body.Close()
			return
		} else if time.Now().After(deadline) {
			s.t.Fatalf("the S3 server doesn't answer: %v", err)
		}
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// build returns the program, made once for each state of its module.
func build(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(file), "..", "..", "..", "tools", "versitygw")
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Join(cache, "waypost")
	program := filepath.Join(parent, "versitygw-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	// Complete or not there at all, also when two test binaries build it at once.
	fresh := fmt.Sprintf("%s.%d", program, os.Getpid())
	defer os.Remove(fresh)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", fresh, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, program); err != nil {
		t.Fatal(err)
	}
	return program
}
