package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/waypost/waypost/db/embedded/filelock"
)

// downloadVersions are what the library knows to fetch, the default first.
var downloadVersions = [...]embeddedpostgres.PostgresVersion{
	embeddedpostgres.V17, embeddedpostgres.V15, embeddedpostgres.V16, embeddedpostgres.V18,
}

// download fetches a server through fergusstrange/embedded-postgres, once per
// machine and version.
func download(ctx context.Context, o Options, a account, major int) (binaries, error) {
	version, err := downloadVersion(major)
	if err != nil {
		return binaries{}, err
	}
	cache, err := downloadDir(o, a)
	if err != nil {
		return binaries{}, err
	}
	dir := filepath.Join(cache, "postgresql-"+string(version))
	bin := filepath.Join(dir, "bin")
	lock, err := filelock.Exclusive(ctx, filepath.Join(cache, "download.lock"))
	if err != nil {
		return binaries{}, err
	}
	defer func() { _ = lock.Release() }()
	if b, err := probe(bin, a, major); err == nil {
		return b, nil
	}
	o.Logger.Info("downloading PostgreSQL", "version", string(version), "to", dir)
	if err := fetch(embeddedpostgres.DefaultConfig().Version(version), cache, dir); err != nil {
		return binaries{}, err
	}
	return probe(bin, a, major)
}

func downloadVersion(major int) (embeddedpostgres.PostgresVersion, error) {
	for _, v := range downloadVersions {
		if major == 0 || strings.HasPrefix(string(v), fmt.Sprintf("%d.", major)) {
			return v, nil
		}
	}
	return "", fmt.Errorf("there is no version %d to download", major)
}

// downloadDir is a directory that the account can read, too.
func downloadDir(o Options, a account) (string, error) {
	if a.drop {
		return o.RelocationDir, mkdir(o.RelocationDir, 0o711)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "waypost")
	return dir, mkdir(dir, 0o700)
}

// fetch makes the library download, verify and extract a server into dir. It has
// no call for that alone, only one that goes on to initdb and a server on a TCP
// port; a locale that no system has ends it after the extraction. Whether that
// succeeded is for the caller to probe.
func fetch(c embeddedpostgres.Config, cache, dir string) error {
	scratch, err := os.MkdirTemp(cache, "extract-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	fresh := filepath.Join(scratch, "postgresql")
	server := embeddedpostgres.NewDatabase(c.
		Port(0).
		CachePath(scratch).
		RuntimePath(filepath.Join(scratch, "runtime")).
		DataPath(filepath.Join(scratch, "data")).
		BinariesPath(fresh).
		Locale("no-such-locale.waypost").
		Logger(io.Discard))
	startErr := server.Start()
	if startErr == nil { // it did not mind the locale
		if err := server.Stop(); err != nil {
			return err
		}
	}
	if err := removeLibraryLogs(); err != nil {
		return err
	}
	runtime.KeepAlive(server) // its log is open until it is collected
	if _, err := os.Stat(filepath.Join(fresh, "bin", "postgres")); err != nil {
		return errors.Join(startErr, err)
	}
	if err := readable(fresh); err != nil {
		return err
	}
	// What is there did not pass the probe.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// removeLibraryLogs removes the log that the library leaves in the temporary
// directory without telling its name: it is a file that this process has open.
func removeLibraryLogs() error {
	logs, err := filepath.Glob(filepath.Join(escapeGlob(os.TempDir()), "embedded_postgres_log*"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		var log syscall.Stat_t
		if err := syscall.Lstat(path, &log); err == nil && isOpenHere(log) {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// isOpenHere reports whether one of the process's lower descriptors is the file.
func isOpenHere(file syscall.Stat_t) bool {
	const descriptors = 1024
	for fd := range descriptors {
		var open syscall.Stat_t
		if syscall.Fstat(fd, &open) == nil && open.Dev == file.Dev && open.Ino == file.Ino {
			return true
		}
	}
	return false
}

// readable lets everybody read and run what lies under dir, whatever the umask was.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
