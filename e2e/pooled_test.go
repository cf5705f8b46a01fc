package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// pooledVariable is set for a run in which PgBouncer, in transaction mode, stands before
// every database, and two instances behind every address (.ci/pooled).
const pooledVariable = "E2E_PGBOUNCER"

// alone are the tests whose service has no second instance in such a run, and why.
var alone = map[string]string{
	"TestAPeriodicTaskThatKeepsFailingIsSeenUntilItSucceeds":   "it counts the lines of one process's log",
	"TestAStopTellsReadinessFirstAndLosesNoRequest":            "it signals the process itself",
	"TestCase58MetricsAreOffUntilAnAddressOrATokenIsSet":       "metrics are of one process",
	"TestAProviderOfTheFileWorksFromTheCommandLineToTheTarget": "metrics are of one process",
	"TestThePageOnObservabilityShowsWhatAnyProcessMeasured":    "it looks for requests of one process",
}

// bouncer is a running PgBouncer.
type bouncer struct {
	program, file, address string
	as                     *syscall.SysProcAttr
	said                   *output
	cmd                    *exec.Cmd
	exited                 chan struct{}
	killed                 atomic.Bool
}

// newBouncer starts PgBouncer with files in dir, before the server whose socket lies in a
// directory.
func newBouncer(dir, socket, databases, settings string) (*bouncer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	ini := fmt.Sprintf("[databases]\n%s[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\npool_mode = transaction\nmax_client_conn = 2000\nlog_connections = 0\nlog_disconnections = 0\n%s", databases, port, settings)
	b := &bouncer{file: filepath.Join(dir, "pgbouncer.ini"), address: net.JoinHostPort("127.0.0.1", port), said: newOutput()}
	if err := os.WriteFile(b.file, []byte(ini), 0o644); err != nil {
		return nil, err
	}
	if b.program, err = exec.LookPath("pgbouncer"); err != nil {
		b.program = "/usr/sbin/pgbouncer" // not in everybody's PATH
	}
	at, err := os.Stat(socket)
	if err != nil {
		return nil, err
	}
	b.as = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if owner := at.Sys().(*syscall.Stat_t); os.Getuid() == 0 { // PgBouncer refuses root, and only the owner reaches the socket
		b.as.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return b, b.start()
}

// start starts it, until kill or the end of the tests.
func (b *bouncer) start() error {
	b.killed.Store(false)
	b.cmd, b.exited = exec.Command(b.program, b.file), make(chan struct{})
	b.cmd.SysProcAttr, b.cmd.Stdout, b.cmd.Stderr = b.as, b.said, b.said
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // with whose end it would be killed
		err := b.cmd.Start()
		started <- err
		if err == nil {
			if err := b.cmd.Wait(); !b.killed.Load() {
				fmt.Fprintf(os.Stderr, "pgbouncer ended: %v\n%s\n", err, tail(b.said.String(), 4000))
			}
			close(b.exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	for limit := time.Now().Add(outside.Patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", b.address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(limit) {
			return fmt.Errorf("pgbouncer does not listen: %s", b.said)
		}
	}
}

// poolers are the run's, by the sockets of the servers that they stand before. They end with
// the tests.
var poolers struct {
	mu sync.Mutex
	of map[string]*bouncer
}

// poolerFor is the pooler before a server, which hands every database and user through.
func poolerFor(socket, port string) (*bouncer, error) {
	poolers.mu.Lock()
	defer poolers.mu.Unlock()
	at := filepath.Join(socket, port)
	if p := poolers.of[at]; p != nil {
		return p, nil
	}
	parent, err := dbtest.Dir()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "pgbouncer-")
	if err != nil {
		return nil, err
	}
	users := filepath.Join(dir, "users.txt")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(users, []byte("\"waypost_app\" \"\"\n"), 0o644)); err != nil {
		return nil, err
	}
	// Many databases, one for each test: connections that nobody uses go soon.
	p, err := newBouncer(dir, socket, fmt.Sprintf("* = host=%s port=%s\n", socket, port), "auth_type = trust\nauth_file = "+users+"\ndefault_pool_size = 40\nserver_idle_timeout = 2\nserver_login_retry = 1\n")
	if err == nil {
		if poolers.of == nil {
			poolers.of = map[string]*bouncer{}
		}
		poolers.of[at] = p
	}
	return p, err
}

// pooled leads the service's connections through a pooler, where the run is such a one.
// Those of other users and those that a test leads through a proxy of its own stay.
func pooled(env []string) []string {
	if os.Getenv(pooledVariable) == "" {
		return env
	}
	direct, all := "", strings.Join(env, "\n")
	for _, variable := range env { // the last one counts
		if value, found := strings.CutPrefix(variable, "DATABASE_URL="); found {
			direct = value
		}
	}
	u, err := url.Parse(direct)
	if err != nil || u.User.Username() != "waypost_app" || u.Host != "" || strings.Contains(all, "WAYPOST_DATABASE_POOLED=") {
		return env
	}
	q := u.Query()
	p, err := poolerFor(q.Get("host"), q.Get("port"))
	if err != nil {
		panic(err) // the run can't be what was asked for
	}
	u.Host, u.User = p.address, url.User("waypost_app")
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	env = append(slices.Clone(env), "DATABASE_URL="+u.String(), "WAYPOST_DATABASE_POOLED=true")
	if !strings.Contains(all, "WAYPOST_DATABASE_DIRECT_URL=") {
		env = append(env, "WAYPOST_DATABASE_DIRECT_URL="+direct)
	}
	return env
}

// double gives p a second instance, which its address leads to with every other connection,
// where the run is such a one. Both log as one, and end as one.
func (p *process) double(t *testing.T, program, databaseURL string, env []string) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if os.Getenv(pooledVariable) == "" || alone[name] != "" {
		return
	}
	p.twin = startProgram(t, program, append(serveSettings(databaseURL), env...), "serve", "--addr", "127.0.0.1:0")
	p.twin.waitReady(t, func() string { return listeningURL(p.twin.stderr.String()) })
	p.twin.stderr.follow(p.stderr)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	addresses := []string{strings.TrimPrefix(p.url, "http://"), strings.TrimPrefix(p.twin.url, "http://")}
	p.url = "http://" + l.Addr().String()
	var n atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go alternate(c.(*net.TCPConn), addresses, int(n.Add(1)))
		}
	}()
}

// alternate hands a connection on to the nth address, or the other.
func alternate(c *net.TCPConn, addresses []string, n int) {
	defer c.Close()
	for i := range addresses {
		to, err := net.Dial("tcp", addresses[(n+i)%len(addresses)])
		if err != nil {
			continue
		}
		defer to.Close()
		answered := make(chan struct{})
		go func() {
			_, _ = io.Copy(c, to)
			_ = c.CloseWrite()
			close(answered)
		}()
		_, err = io.Copy(to, c)
		_ = to.(*net.TCPConn).CloseWrite()
		if err != nil {
			_ = to.Close()
		}
		<-answered
		return
	}
}
