package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/waypost/waypost/db/embedded/process"
)

const (
	readyPoll   = 2 * time.Millisecond
	adoptedPoll = 100 * time.Millisecond
	// patience is how long children of a killed server may take to notice.
	patience  = 3 * time.Second
	maxLog    = 8 << 20 // bytes of server.log before a start begins a new one
	logShown  = 4 << 10 // bytes of it in an error
	killGrace = 5 * time.Second
)

// instance is one running server process, a child of ours or an adopted one.
type instance struct {
	pid  int
	done chan struct{} // closed when the process is gone
}

// launch starts a server and returns when it accepts connections.
func (s *Server) launch(ctx context.Context) (*instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.StartTimeout, fmt.Errorf("embedded: the server was not ready within %v", s.o.StartTimeout))
	defer cancel()
	if err := s.layout.prepare(s.account); err != nil {
		return nil, err
	}
	if err := s.clearRemains(ctx); err != nil {
		return nil, err
	}
	log, err := s.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	cmd := s.account.command(s.layout.home, s.bin.postgres(), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	in := child(cmd)
	if err := s.awaitReady(ctx, in); err != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
		defer cancel()
		_ = in.shutdown(grace) // why it isn't ready matters more than how it went
		return nil, fmt.Errorf("%w\n%s says:\n%s", err, s.layout.log(), tail(log, begin))
	}
	return in, nil
}

func child(cmd *exec.Cmd) *instance {
	in := &instance{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in server.log
		close(in.done)
	}()
	return in
}

// adopt watches a server that somebody else started.
func adopt(p process.Process) *instance {
	in := &instance{pid: p.PID, done: make(chan struct{})}
	go func() {
		for p.Alive() {
			time.Sleep(adoptedPoll)
		}
		close(in.done)
	}()
	return in
}

// arguments begin with -D, by which the server is recognised later.
func (s *Server) arguments() []string {
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": `"` + strings.ReplaceAll(s.layout.socketDir(), `"`, `""`) + `"`,
		"unix_socket_permissions": "0700",
		"port":                    "5432",
		"cluster_name":            s.layout.title(),
		"update_process_title":    "on",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		"log_line_prefix":         "%m [%p] ",
		"log_checkpoints":         "off",
	}
	if s.o.Disposable {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	for name, value := range s.o.Settings {
		settings[name] = value
	}
	args := []string{"-D", s.layout.cluster()}
	for _, name := range sortedNames(settings) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// awaitReady watches the pid file, which the server marks when it is ready:
// cheaper and quieter in the log than failing connections.
func (s *Server) awaitReady(ctx context.Context, in *instance) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if pm, err := readPostmaster(s.layout.cluster()); err == nil && pm.ready && pm.pid == in.pid {
			return nil
		}
		select {
		case <-in.done:
			return errors.New("embedded: the server ended instead of starting")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// clearRemains makes way after a crash: it ends what is left of the dead server
// and removes the stale pid files, for PostgreSQL takes any process of its own
// user with that pid, a zombie even, for a server.
func (s *Server) clearRemains(ctx context.Context) error {
	if err := s.endLeftovers(ctx); err != nil {
		return err
	}
	for _, path := range []string{pidFile(s.layout.cluster()), filepath.Join(s.socketDir, socketName+".lock")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("embedded: %w", err)
		}
	}
	return nil
}

// endLeftovers waits for the leftovers, most of which end by themselves, and
// kills those that stay. A whole server among them is ended without a last
// checkpoint: the data directory may have been deleted or moved under it, and
// PostgreSQL would write that into the control file of whatever cluster is at the
// old path now. For the same reason this comes before a cluster is made there.
func (s *Server) endLeftovers(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	asked := map[int]bool{}
	for {
		left, err := s.layout.leftovers()
		if err != nil {
			return fmt.Errorf("embedded: %w", err)
		}
		if len(left) == 0 {
			return nil
		}
		for _, p := range left {
			switch {
			case time.Now().After(deadline):
				s.o.Logger.Warn("killing a process that outlived its server", "pid", p.PID, "title", p.Command)
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			case !asked[p.PID] && serves(p, s.layout.cluster()):
				asked[p.PID] = true
				_ = syscall.Kill(p.PID, syscall.SIGQUIT)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// openLog opens server.log for the server to append to, beginning anew when the
// last one grew large. The one before is kept.
func (s *Server) openLog() (*os.File, error) {
	path := s.layout.log()
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("embedded: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return f, nil
}

func tail(log *os.File, from int64) string {
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from = max(from, end-logShown)
	text := make([]byte, end-from)
	n, _ := log.ReadAt(text, from)
	return strings.TrimSpace(string(text[:n]))
}

// shutdown ends the server: fast (clients disconnected, everything written), and
// when ctx ends before that, by force, which the next start recovers from.
func (in *instance) shutdown(ctx context.Context) error {
	in.signal(syscall.SIGINT)
	select {
	case <-in.done:
		return nil
	case <-ctx.Done():
	}
	in.signal(syscall.SIGQUIT)
	select {
	case <-in.done:
	case <-time.After(killGrace):
		in.kill()
	}
	return fmt.Errorf("embedded: the server had to be stopped by force and will recover at its next start: %w", context.Cause(ctx))
}

func (in *instance) kill() {
	in.signal(syscall.SIGKILL)
	<-in.done
}

// signal does nothing once the process is gone, when its pid may be another's.
func (in *instance) signal(sig syscall.Signal) {
	select {
	case <-in.done:
	default:
		_ = syscall.Kill(in.pid, sig)
	}
}
