package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	takeoverPoll = 250 * time.Millisecond
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// stableAfter is how long a server must have run for its next death to count
	// as the first one.
	stableAfter = time.Minute
)

// errAbandoned says that the data directory is no longer the one that was locked.
var errAbandoned = errors.New("embedded: the data directory was removed")

func (s *Server) supervise() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.supervised = make(chan struct{})
	go func() {
		defer close(s.supervised)
		if s.holder == nil && !s.takeOver(ctx) {
			return
		}
		s.keepRunning(ctx)
	}()
}

// takeOver waits until the holder is gone and becomes it; false when ctx ended first.
func (s *Server) takeOver(ctx context.Context) bool {
	for {
		held, err := s.takeHold()
		if err != nil && s.holder == nil {
			s.o.Logger.Debug("cannot watch the database server's holder", "error", err)
		}
		if held {
			break
		}
		if !pause(ctx, takeoverPoll) {
			return false
		}
	}
	s.o.Logger.Info("taking over the database server from a waypost that ended")
	if p, _, alive, err := running(s.layout.cluster()); err == nil && alive {
		s.instance = adopt(p)
	}
	return true
}

// keepRunning restarts the server whenever it dies, until ctx ends. Then
// s.instance is what still runs, or nil.
func (s *Server) keepRunning(ctx context.Context) {
	backoff := firstBackoff
	for {
		if s.instance != nil {
			began := time.Now()
			select {
			case <-ctx.Done():
				return
			case <-s.instance.done:
			}
			s.instance = nil
			if time.Since(began) > stableAfter {
				backoff = firstBackoff
			}
			s.o.Logger.Error("the database server died; restarting it", "log", s.layout.log(), "in", backoff)
		}
		if !pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
		switch err := s.restart(ctx); {
		case err == nil:
			s.o.Logger.Info("the database server runs again")
		case errors.Is(err, errAbandoned):
			s.o.Logger.Error("the database server is not restarted", "error", err)
			return
		case ctx.Err() == nil:
			s.o.Logger.Error("the database server does not start", "error", err, "again_in", backoff)
		}
	}
}

func (s *Server) restart(ctx context.Context) error {
	// A new data directory at this path may be another process's by now.
	if !s.holder.Current() {
		return errAbandoned
	}
	if s.bin == (binaries{}) { // attached until now
		socketDir := s.socketDir
		if err := s.resolve(ctx); err != nil {
			return err
		}
		if s.socketDir != socketDir {
			return fmt.Errorf("embedded: the socket moved from %s to %s", socketDir, s.socketDir)
		}
	}
	return s.runOrAdopt(ctx, true)
}

// Stop ends this process's use of the server. The last process to stop using it
// shuts the server down and waits for that; when ctx ends first, by force, and an
// error says so. Further calls wait and return the same.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Server) stop(ctx context.Context) error {
	s.cancel()
	<-s.supervised
	last, err := s.isLast()
	if err != nil || !last {
		return errors.Join(err, s.release())
	}
	if s.instance != nil {
		err = s.instance.shutdown(ctx)
	}
	_ = os.Remove(s.socketDir) // empty now; if it is not, the next start makes do with it
	return errors.Join(err, s.release())
}

// isLast gives up this process's use of the server, and reports whether nobody else
// uses it. Then this process is the holder.
func (s *Server) isLast() (bool, error) {
	if s.holder != nil && !s.holder.Current() {
		return s.lease.Upgrade() // of a directory that is gone, nobody else can take hold
	}
	// The hold goes before the lease, so that whoever is last finds it free, unless a
	// process that starts has it by then: that one adopts what runs.
	if err := s.holder.Release(); err != nil {
		return false, err
	}
	last, err := s.lease.Upgrade()
	if err != nil || !last {
		return false, err
	}
	held, err := s.takeHold()
	if err != nil || !held {
		return false, err
	}
	if p, _, alive, err := running(s.layout.cluster()); err == nil && alive && (s.instance == nil || s.instance.pid != p.PID) {
		s.instance = adopt(p)
	}
	return true, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
