package dbtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/db/embedded/process"
)

// Dir makes a directory in that of the run, for what lives as long as the test
// process. When the go command has ended, however it did, the keeper kills the
// programs that were built into the directory, stops the private servers whose data
// lies there, and removes it. A server's unprivileged user can enter it.
func Dir() (string, error) {
	c, err := join()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(c.dir, "files-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// TempDir is a Dir that is gone when the test and its subtests are: t.TempDir for
// what programs and servers keep their files in.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return dir
}

// remove deletes a run's directory with its servers, wherever these lie. A killed
// run's programs may still be at work there, so it is tried for a while.
func remove(dir string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := errors.Join(killPrograms(dir), removeServers(ctx, dir))
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(keeperPoll):
		}
	}
}

// killPrograms kills what runs a program that lies in dir.
func killPrograms(dir string) error {
	programs, err := process.Matching(func(p process.Process) bool {
		return strings.HasPrefix(p.Command, dir+string(filepath.Separator))
	})
	for _, p := range programs {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended by itself
	}
	return err
}

// removeServers removes the private servers that have their data directory
// anywhere under dir.
func removeServers(ctx context.Context, dir string) error {
	var data []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist): // its owner is not gone yet
			return nil
		case err != nil || !d.IsDir():
			return err
		}
		exists, err := embedded.Exists(path)
		if !exists {
			return err
		}
		data = append(data, path)
		return fs.SkipDir
	})
	for _, path := range data {
		err = errors.Join(err, embedded.Remove(ctx, path))
	}
	return err
}
