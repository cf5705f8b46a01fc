// Package filelock holds advisory locks on files with flock(2). The kernel drops
// a lock when its holder dies, however it dies, so a lock left behind by kill -9
// doesn't exist. A lock isn't inherited by programs that the holder starts.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollInterval paces the waiting calls. flock itself could wait, but not for a context.
const pollInterval = 10 * time.Millisecond

// Lock is a held lock. It is not safe for concurrent use.
type Lock struct {
	file *os.File
	path string
}

// TryExclusive takes the lock on path, creating the file, or reports false when
// somebody else holds it in either mode.
func TryExclusive(path string) (*Lock, bool, error) {
	return try(path, syscall.LOCK_EX)
}

// Shared takes the lock on path together with any number of other sharers,
// waiting for an exclusive holder to leave. It returns ctx's error when that ends first.
func Shared(ctx context.Context, path string) (*Lock, error) {
	return wait(ctx, path, syscall.LOCK_SH)
}

// Exclusive is Shared for one holder alone.
func Exclusive(ctx context.Context, path string) (*Lock, error) {
	return wait(ctx, path, syscall.LOCK_EX)
}

func wait(ctx context.Context, path string, how int) (*Lock, error) {
	for {
		l, ok, err := try(path, how)
		if err != nil || ok {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

func try(path string, how int) (*Lock, bool, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	l := &Lock{file: f, path: path}
	held, err := l.flock(how)
	if err != nil || !held {
		return nil, false, errors.Join(err, f.Close())
	}
	// Between open and flock the previous holder may have removed the file: then
	// this is a lock on something that nobody else will ever open.
	if !l.Current() {
		if err := l.Release(); err != nil {
			return nil, false, err
		}
		return try(path, how)
	}
	return l, true, nil
}

// flock never blocks; false means that somebody else is in the way.
func (l *Lock) flock(how int) (bool, error) {
	for {
		switch err := syscall.Flock(int(l.file.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, &os.PathError{Op: "flock", Path: l.path, Err: err}
		}
	}
}

// Upgrade turns a shared lock into an exclusive one. When others share it, it
// reports false and the lock is lost: of several sharers that leave by Upgrade,
// exactly the last one gets true.
func (l *Lock) Upgrade() (bool, error) {
	// Linux may keep the shared lock when the conversion fails; give it up for certain.
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN); err != nil {
		return false, &os.PathError{Op: "flock", Path: l.path, Err: err}
	}
	return l.flock(syscall.LOCK_EX)
}

// Downgrade turns an exclusive lock into a shared one.
func (l *Lock) Downgrade() error {
	ok, err := l.flock(syscall.LOCK_SH)
	if err == nil && !ok {
		err = &os.PathError{Op: "flock", Path: l.path, Err: syscall.EWOULDBLOCK}
	}
	return err
}

// Current reports whether the path still names the locked file; not so after the
// file or its directory was removed.
func (l *Lock) Current() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(l.path)
	return err == nil && os.SameFile(held, named)
}

// WriteOwner records pid in the file, for HolderPID to tell others.
func (l *Lock) WriteOwner(pid int) error {
	text := strconv.Itoa(pid) + "\n"
	if _, err := l.file.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(text)))
}

// Release gives the lock up. Releasing twice is harmless.
func (l *Lock) Release() error {
	if l == nil || l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	// A child between fork and exec still has the descriptor: closing alone
	// would leave the lock with it for that moment.
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// HolderPID reads what WriteOwner recorded, 0 when there is nothing legible. It
// says nothing about whether the lock is held.
func HolderPID(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
