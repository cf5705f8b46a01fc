package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waypost/waypost/db/embedded/filelock"
)

// Remove deletes the private server of dataDir with all its data, relocated or
// not, and leaves the directory's other files alone. A server that a killed
// Waypost left is stopped first. It returns an *InUseError when a living process
// holds the server, and nil when there is none.
func Remove(ctx context.Context, dataDir string) error {
	dir, err := filepath.EvalSymlinks(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	s := &Server{o: Options{DataDir: dir}}
	held, err := s.takeHold()
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if !held {
		return &InUseError{DataDir: dir, PID: s.holderPID()}
	}
	return errors.Join(s.remove(ctx), s.release())
}

func (s *Server) remove(ctx context.Context) error {
	lease, alone, err := filelock.TryExclusive(s.path(leaseFile))
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if !alone {
		return &InUseError{DataDir: s.o.DataDir}
	}
	s.lease = lease
	s.layout, err = readLayout(s.o.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		p, _, alive, err := running(s.layout.cluster())
		if err != nil {
			return err
		}
		if alive {
			if err := adopt(p).shutdown(ctx); err != nil {
				return err
			}
		}
		if err := errors.Join(os.RemoveAll(s.layout.home), os.RemoveAll(s.layout.socketDir())); err != nil {
			return fmt.Errorf("embedded: %w", err)
		}
	}
	return errors.Join(os.RemoveAll(s.path(identityFile)), os.Remove(s.path(leaseFile)), os.Remove(s.path(holderFile)))
}
