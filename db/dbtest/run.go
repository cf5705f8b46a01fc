package dbtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/waypost/waypost/db/dbtest/fastdir"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/db/embedded/process"
)

// Files in a run's directory.
const (
	leaseFile    = "lease"
	startFile    = "start.lock"
	templateFile = "template.lock"
	keeperLog    = "keeper.log"
	dataDir      = "data"
	dirPrefix    = "waypost-dbtest-"
)

// testRun is one run of the go command, known by its process.
type testRun struct {
	parent process.Process
}

func currentRun() (testRun, error) { return runOf(os.Getppid()) }

func runOf(pid int) (testRun, error) {
	p, err := process.Lookup(pid)
	if err != nil {
		return testRun{}, fmt.Errorf("parent process %d: %w", pid, err)
	}
	return testRun{parent: p}, nil
}

// dir is the same in all processes of the run, and another's in no other run.
func (r testRun) dir() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.parent.Started))
	return filepath.Join(fastdir.Path(), fmt.Sprintf("%s%d-%d-%08x", dirPrefix, os.Geteuid(), r.parent.PID, h.Sum32()))
}

// byGo reports whether the go command runs the tests, so that its end is theirs.
func (r testRun) byGo() bool { return r.parent.Name() == "go" }

func (r testRun) options() embedded.Options {
	return embedded.Options{
		DataDir:  filepath.Join(r.dir(), dataDir),
		BinDir:   os.Getenv("WAYPOST_POSTGRES_BIN"), // tests have no configuration to read it for them
		Download: true,
		Settings: map[string]string{
			"max_connections":           strconv.Itoa(300),
			"max_wal_size":              "512MB", // it may lie in memory; copying asks for checkpoints anyway
			"autovacuum_naptime":        "1h",
			"wal_level":                 "minimal",
			"max_wal_senders":           "0",
			"log_min_messages":          "fatal", // tests provoke errors on purpose
			"max_locks_per_transaction": "256",   // many partitions
			// In the data directory, to be gone with it: a killed server can't remove
			// what it has in /dev/shm.
			"dynamic_shared_memory_type": "mmap",
		},
		Disposable: true,
	}
}

// makeOwn makes dir or accepts it when it is this user's, since others can make
// directories in the system's temporary one, too.
func makeOwn(dir string) error {
	err := os.Mkdir(dir, 0o711)
	if err == nil {
		return os.Chmod(dir, 0o711) // whatever the umask: the server's user has to pass through
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return makeOwn(dir)
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to somebody else", dir)
	}
	return nil
}
