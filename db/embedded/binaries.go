package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// minMajor is the oldest PostgreSQL that Waypost works with.
const minMajor = 15

// binaries is a directory with a server's programs of one major version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) postgres() string { return filepath.Join(b.dir, "postgres") }
func (b binaries) initdb() string   { return filepath.Join(b.dir, "initdb") }

// usualDirs are searched after PATH, the highest version first.
var usualDirs = [...]string{
	"/usr/lib/postgresql/*/bin",                                                // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                                         // the project's own RPMs
	"/usr/libexec/postgresql*",                                                 // Alpine
	"/usr/lib/postgresql*/bin",                                                 // SUSE
	"/opt/homebrew/opt/postgresql*/bin",                                        // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                                           // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",                           // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin",                       // Postgres.app
	"/Library/PostgreSQL/*/bin",                                                // EDB's installer
	"/usr/local/pgsql/bin", "/usr/local/bin", "/opt/local/lib/postgresql*/bin", // source, FreeBSD, MacPorts
}

// findBinaries looks for a server of at least minMajor or, when major is not 0,
// of exactly that version, since a cluster can't be opened by another.
func findBinaries(ctx context.Context, o Options, a account, major int) (binaries, error) {
	if o.BinDir != "" {
		b, err := probe(o.BinDir, a, major)
		if err != nil {
			return binaries{}, fmt.Errorf("embedded: WAYPOST_POSTGRES_BIN=%s: %w; give the directory that holds PostgreSQL's initdb and postgres, or leave it out and dev looks for one", o.BinDir, err)
		}
		return b, nil
	}
	var refused []error
	for _, dir := range candidateDirs() {
		b, err := probe(dir, a, major)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			refused = append(refused, fmt.Errorf("%s: %w", dir, err))
		}
	}
	if o.Download {
		b, err := download(ctx, o, a, major)
		if err == nil {
			return b, nil
		}
		refused = append(refused, fmt.Errorf("download: %w", err))
	}
	return binaries{}, notFound(major, refused)
}

func notFound(major int, refused []error) error {
	what := fmt.Sprintf("no PostgreSQL server (version %d or later)", minMajor)
	if major != 0 {
		what = fmt.Sprintf("no PostgreSQL server of version %d, which made this data directory,", major)
	}
	osRelease, _ := os.ReadFile("/etc/os-release") // absent on macOS, and its absence means no more than that
	msg := fmt.Sprintf("embedded: %s was found; install one with\n\n    %s\n\nor name the directory of its programs in WAYPOST_POSTGRES_BIN, or a running server in DATABASE_URL",
		what, installCommand(runtime.GOOS, string(osRelease), os.Geteuid() == 0))
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("%s\nlooked at:\n%w", msg, err)
	}
	return errors.New(msg)
}

// candidateDirs are the directories to search, in the contract's order. Each
// holds at least something called postgres.
func candidateDirs() []string {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if program, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	var usual []string
	for _, pattern := range usualDirs {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic("embedded: impossible pattern: " + err.Error())
		}
		usual = append(usual, matches...)
	}
	slices.SortStableFunc(usual, func(a, b string) int { return versionIn(b) - versionIn(a) })
	var list []string
	for _, dir := range append(dirs, usual...) {
		// A link in PATH leads to the directory that has initdb, too.
		program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil {
			continue
		}
		if dir := filepath.Dir(program); !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

var firstNumber = regexp.MustCompile(`\d+`)

func versionIn(path string) int {
	n, err := strconv.Atoi(firstNumber.FindString(path))
	if err != nil {
		return 0
	}
	return n
}

// probe runs what is in dir as the account that will have to run it. It returns
// an error that is os.ErrNotExist when there is no server at all.
func probe(dir string, a account, major int) (binaries, error) {
	b := binaries{dir: dir}
	for _, program := range []string{b.postgres(), b.initdb()} {
		if _, err := os.Stat(program); err != nil {
			return binaries{}, err
		}
	}
	out, err := a.command("/", b.postgres(), "--version").Output()
	if err != nil {
		if a.drop {
			return binaries{}, fmt.Errorf("%s cannot run postgres --version as %s: %w", b.dir, a.name, err)
		}
		return binaries{}, fmt.Errorf("postgres --version: %w", err)
	}
	b.major, err = parseVersion(string(out))
	switch {
	case err != nil:
		return binaries{}, err
	case b.major < minMajor:
		return binaries{}, fmt.Errorf("version %d is too old, %d or later is needed", b.major, minMajor)
	case major != 0 && b.major != major:
		return binaries{}, fmt.Errorf("version %d cannot open a cluster made by version %d", b.major, major)
	}
	return b, nil
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d{1,4})\D`)

// parseVersion takes the major version from "postgres (PostgreSQL) 15.10 (Debian 15.10-0+deb12u1)".
func parseVersion(line string) (int, error) {
	m := versionLine.FindStringSubmatch(line + "\n")
	if m == nil {
		return 0, fmt.Errorf("postgres --version printed %.80q", line)
	}
	return strconv.Atoi(m[1])
}
