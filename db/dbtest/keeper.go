package dbtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/db/embedded/filelock"
)

const (
	// keeperVar marks the keeper's process; its value is the pid of the run's parent.
	keeperVar  = "DBTEST_KEEPER_OF"
	keeperPoll = 100 * time.Millisecond
	// idle is how long the keeper stays after the last test process when it cannot
	// tell from its parent whether more will come.
	idle = 5 * time.Second
)

// init turns the test binary into the keeper before any test runs, so that
// packages need no TestMain for it.
func init() {
	value, ok := os.LookupEnv(keeperVar)
	if !ok {
		return
	}
	if err := keep(value); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest keeper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startKeeper runs this binary again as the run's keeper. The channel closes when
// it is gone.
func startKeeper(run testRun) (<-chan struct{}, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// A keeper with the test's own output would keep `go test` waiting for its end.
	log, err := os.OpenFile(filepath.Join(run.dir(), keeperLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), keeperVar+"="+strconv.Itoa(run.parent.PID))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it had to say is in its log
		close(gone)
	}()
	return gone, nil
}

func keep(parent string) error {
	pid, err := strconv.Atoi(parent)
	if err != nil {
		return fmt.Errorf("%s: %w", keeperVar, err)
	}
	run, err := runOf(pid)
	if err != nil {
		return err
	}
	sweep(run)
	server, err := start(run)
	if err != nil {
		return err
	}
	lease, err := run.awaitEnd()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err = errors.Join(err, server.Stop(ctx))
	return errors.Join(err, remove(run.dir(), timeout), lease.Release())
}

func start(run testRun) (*embedded.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	o := run.options()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return embedded.Start(ctx, o)
}

// awaitEnd returns when nobody will need the server any more, with the lease held
// so that a latecomer waits for the directory's removal and then makes another.
func (r testRun) awaitEnd() (*filelock.Lock, error) {
	unused := time.Time{}
	for ; ; time.Sleep(keeperPoll) {
		lease, free, err := filelock.TryExclusive(filepath.Join(r.dir(), leaseFile))
		if err != nil {
			return nil, err // somebody cleaned the temporary directory
		}
		if !free {
			unused = time.Time{}
			continue
		}
		if unused.IsZero() {
			unused = time.Now()
		}
		if !r.parent.Alive() || !r.byGo() && time.Since(unused) > idle {
			return lease, nil
		}
		if err := lease.Release(); err != nil {
			return nil, err
		}
	}
}
