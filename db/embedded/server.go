package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waypost/waypost/db/embedded/filelock"
	"github.com/waypost/waypost/db/embedded/process"
)

// attachPoll paces AttachOrStart while somebody else starts or stops the server.
const attachPoll = 20 * time.Millisecond

// Server is a private server that this process holds or is attached to.
type Server struct {
	o         Options
	layout    layout
	account   account
	bin       binaries
	socketDir string

	lease  *filelock.Lock
	holder *filelock.Lock // nil while only attached; the supervision's alone

	cancel     context.CancelFunc
	supervised chan struct{} // closed when the supervision has ended
	instance   *instance     // what runs; nil while attached or between restarts; the supervision's alone

	stopOnce sync.Once
	stopErr  error
}

// Start makes the cluster when there is none and starts its server. It returns
// when the server answers and its roles exist; ctx bounds that and nothing later.
// The server runs, restarted when it dies, until Stop. It returns an *InUseError
// when a living process holds the data directory.
func Start(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.DataDir, err = o.makeDataDir(); err != nil {
		return nil, err
	}
	s := &Server{o: o}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.supervise()
	return s, nil
}

// Attach joins the server that another process holds. It returns ErrNotRunning
// when there is none that is ready.
func Attach(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.DataDir, err = filepath.EvalSymlinks(o.DataDir); err != nil {
		return nil, ErrNotRunning
	}
	s := &Server{o: o}
	if err := s.attach(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.supervise()
	return s, nil
}

// AttachOrStart is for a command that needs the database for as long as it runs:
// it joins the server of the process that holds it, waiting while that starts or
// stops, or else starts it.
func AttachOrStart(ctx context.Context, o Options) (*Server, error) {
	for {
		s, err := Start(ctx, o)
		if _, inUse := errors.AsType[*InUseError](err); !inUse {
			return s, err
		}
		s, err = Attach(ctx, o)
		if err == nil || !errors.Is(err, ErrNotRunning) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("embedded: waiting for the server of %s: %w", o.DataDir, context.Cause(ctx))
		case <-time.After(attachPoll):
		}
	}
}

func (s *Server) start(ctx context.Context) error {
	held, err := s.takeHold()
	if err != nil {
		return err
	}
	if !held {
		return &InUseError{DataDir: s.o.DataDir, PID: s.holderPID()}
	}
	// Alone, the lease stays exclusive until the server is ready: nobody attaches
	// to one that is about to be stopped.
	lease, alone, err := filelock.TryExclusive(s.path(leaseFile))
	if err == nil && !alone {
		lease, err = filelock.Shared(ctx, s.path(leaseFile))
	}
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	s.lease = lease
	if err := s.resolve(ctx); err != nil {
		return err
	}
	if err := s.layout.prepare(s.account); err != nil {
		return err
	}
	if err := s.makeCluster(ctx); err != nil {
		return err
	}
	if err := s.runOrAdopt(ctx, !alone); err != nil {
		return err
	}
	if err := s.ensureRoles(ctx); err != nil {
		return errors.Join(err, s.instance.shutdown(ctx))
	}
	if alone {
		if err := lease.Downgrade(); err != nil {
			return errors.Join(err, s.instance.shutdown(ctx))
		}
	}
	return nil
}

// takeHold makes this process the holder, or reports false.
func (s *Server) takeHold() (bool, error) {
	lock, ok, err := filelock.TryExclusive(s.path(holderFile))
	if err != nil || !ok {
		return false, err
	}
	s.holder = lock
	return true, lock.WriteOwner(os.Getpid())
}

// resolve finds out as whom, with what and where the server runs.
func (s *Server) resolve(ctx context.Context) error {
	var err error
	s.layout, err = readLayout(s.o.DataDir)
	isNew := errors.Is(err, os.ErrNotExist)
	if err != nil && !isNew {
		return err
	}
	major := 0
	cluster := filepath.Join(s.o.DataDir, homeDir, "data")
	if !isNew {
		cluster = s.layout.cluster()
		if major, err = s.layout.clusterMajor(); err != nil {
			return err
		}
	}
	if s.account, err = serverAccount(cluster); err != nil {
		return err
	}
	if s.bin, err = findBinaries(ctx, s.o, s.account, major); err != nil {
		return err
	}
	if isNew {
		if s.layout, err = newLayout(s.o, s.account, s.bin); err != nil {
			return err
		}
	}
	s.socketDir = s.layout.socketDir()
	return nil
}

// makeCluster does nothing when there is one.
func (s *Server) makeCluster(ctx context.Context) error {
	if err := s.layout.removeUnfinished(); err != nil {
		s.o.Logger.Debug("an interrupted initdb's files remain for the next start to remove", "error", err)
	}
	if major, err := s.layout.clusterMajor(); err != nil || major != 0 {
		return err
	}
	if err := s.endLeftovers(ctx); err != nil {
		return err
	}
	return s.layout.initCluster(s.o, s.account, s.bin)
}

// runOrAdopt leaves s.instance running. A server left by a killed holder is
// stopped, since it may be of other programs and settings than these, unless
// somebody uses it.
func (s *Server) runOrAdopt(ctx context.Context, keep bool) error {
	p, pm, alive, err := running(s.layout.cluster())
	if err != nil {
		return err
	}
	if alive {
		s.instance = adopt(p)
		if keep && pm.socketDir == s.socketDir {
			return s.awaitReady(ctx, s.instance)
		}
		s.o.Logger.Warn("stopping the database server that a killed waypost left behind", "pid", p.PID)
		if err := s.instance.shutdown(ctx); err != nil {
			return err
		}
	}
	s.instance, err = s.launch(ctx)
	return err
}

func (s *Server) attach(ctx context.Context) error {
	var err error
	if s.lease, err = filelock.Shared(ctx, s.path(leaseFile)); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	s.layout, err = readLayout(s.o.DataDir)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotRunning
	}
	if err != nil {
		return err
	}
	_, pm, alive, err := running(s.layout.cluster())
	if err != nil {
		return err
	}
	if !alive || !pm.ready {
		return ErrNotRunning
	}
	s.socketDir = pm.socketDir
	return nil
}

func (s *Server) path(name string) string { return filepath.Join(s.o.DataDir, name) }

func (s *Server) release() error {
	return errors.Join(s.lease.Release(), s.holder.Release())
}

// holderPID is the process that holds the lock, which writes that down a moment
// after it took it; on a busy machine that may be long. 0 when it is not known.
func (s *Server) holderPID() int {
	for range 400 {
		pid := filelock.HolderPID(s.path(holderFile))
		if _, err := process.Lookup(pid); err == nil {
			return pid
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}
