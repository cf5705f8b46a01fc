// Package fastdir says where tests keep the files of their database servers.
package fastdir

import (
	"os"
	"runtime"
	"slices"
	"syscall"
)

// memory is a file system in memory on most Linux systems. Copying a database, as
// most tests do, takes a fraction there of what it takes on a disk.
const memory = "/dev/shm"

// Path is what TMPDIR says or else /dev/shm, if that is large enough, or else the
// system's temporary directory. It is the same for all processes with the same
// environment: what is free at the moment does not count.
func Path() string {
	if os.Getenv("TMPDIR") == "" && holds(memory, roomNeeded()) {
		return memory
	}
	return os.TempDir()
}

// Candidates are what Path may be with TMPDIR as it is and without it.
func Candidates() []string {
	dirs := []string{os.TempDir(), "/tmp", memory}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// roomNeeded is in bytes. A copied database takes 10 MB and a server of its own up
// to 100 MB; each processor has a test of each of as many packages.
func roomNeeded() uint64 {
	return max(2<<30, uint64(runtime.NumCPU())*(512<<20))
}

// holds reports whether dir can be written to and lies in a file system of at
// least that many bytes.
func holds(dir string, bytes uint64) bool {
	const writeAndEnter = 3 // access(2): W_OK|X_OK
	var fs syscall.Statfs_t
	if syscall.Access(dir, writeAndEnter) != nil || syscall.Statfs(dir, &fs) != nil {
		return false
	}
	return uint64(fs.Blocks)*uint64(fs.Bsize) >= bytes
}
