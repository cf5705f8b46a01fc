package dbtest

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waypost/waypost/db/dbtest/fastdir"
	"github.com/waypost/waypost/db/embedded/filelock"
	"github.com/waypost/waypost/db/embedded/process"
)

// sweepPatience bounds the removal of one earlier run: this run's first tests wait
// for it.
const sweepPatience = 10 * time.Second

// sweep removes what earlier runs left whose keeper was killed. What it cannot
// remove stays for the next: it is no reason to fail this run.
func sweep(current testRun) {
	var dirs []string
	for _, place := range fastdir.Candidates() {
		found, err := filepath.Glob(filepath.Join(place, fmt.Sprintf("%s%d-*", dirPrefix, os.Geteuid())))
		if err != nil {
			slog.Warn("cannot look for earlier runs", "error", err)
			return
		}
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if dir == current.dir() || parentAlive(dir) {
			continue
		}
		if err := removeRun(dir); err != nil {
			slog.Warn("cannot remove an earlier run", "dir", dir, "error", err)
		}
	}
}

// parentAlive errs on the side of true: a pid may have been given anew.
func parentAlive(dir string) bool {
	var pid int
	rest := strings.TrimPrefix(filepath.Base(dir), fmt.Sprintf("%s%d-", dirPrefix, os.Geteuid()))
	if _, err := fmt.Sscanf(rest, "%d-", &pid); err != nil {
		return true
	}
	_, err := process.Lookup(pid)
	return err == nil
}

func removeRun(dir string) error {
	if err := makeOwn(dir); err != nil {
		return err
	}
	lease, free, err := filelock.TryExclusive(filepath.Join(dir, leaseFile))
	if err != nil || !free {
		return err
	}
	return errors.Join(remove(dir, sweepPatience), lease.Release())
}
