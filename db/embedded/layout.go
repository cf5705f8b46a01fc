package embedded

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	holderFile   = "postgres.lock"  // locked by the process that supervises the server
	leaseFile    = "postgres.lease" // shared by everybody who uses the server
	identityFile = "postgres.json"
	homeDir      = "postgres"
	socketName   = ".s.PGSQL.5432"

	// maxSocketPath is the smallest sun_path of the systems Waypost runs on
	// (macOS: 104 bytes with the terminating NUL; Linux: 108).
	maxSocketPath = 103
)

// layout says where the parts of one private server lie.
type layout struct {
	dataDir string
	id      string // 32 hexadecimal digits
	home    string // directory of the cluster, its socket and its log
}

func (l layout) cluster() string { return filepath.Join(l.home, "data") }
func (l layout) log() string     { return filepath.Join(l.home, "server.log") }

// title begins the process titles of the server's children, so that those of a
// killed server can be told from any other's. PostgreSQL allows 63 bytes.
func (l layout) title() string { return "waypost-" + l.id[:16] }

// socketDir is inside the home unless the socket's path would get too long there,
// or has a comma, at which clients split it into several.
func (l layout) socketDir() string {
	dir := filepath.Join(l.home, "run")
	if len(dir)+1+len(socketName) <= maxSocketPath && !strings.Contains(dir, ",") {
		return dir
	}
	return "/tmp/waypost-" + l.id
}

// identity is the content of identityFile. It ties a cluster to this very data
// directory rather than to its path: after the directory was deleted, a new one
// at the same path gets a new identity and never sees the old cluster.
type identity struct {
	ID string `json:"id"`
	// Home is set when the cluster lies outside the data directory, because the
	// server's unprivileged user can't enter that.
	Home string `json:"home,omitempty"`
}

// readLayout returns an error that is os.ErrNotExist when no server was ever
// started for dataDir.
func readLayout(dataDir string) (layout, error) {
	path := filepath.Join(dataDir, identityFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return layout{}, err
	}
	var who identity
	if err := json.Unmarshal(text, &who); err != nil {
		return layout{}, fmt.Errorf("embedded: %s: %w", path, err)
	}
	if len(who.ID) != 32 || strings.Trim(who.ID, "0123456789abcdef") != "" {
		return layout{}, fmt.Errorf("embedded: %s: the id %q is not 32 hexadecimal digits", path, who.ID)
	}
	// A cluster elsewhere lies in a directory of its own, named by its identity: no
	// file can turn a start, or Remove, against any other directory.
	if who.Home != "" && (!filepath.IsAbs(who.Home) || filepath.Base(who.Home) != who.ID) {
		return layout{}, fmt.Errorf("embedded: %s: the cluster's place %q is not named by its id", path, who.Home)
	}
	l := layout{dataDir: dataDir, id: who.ID, home: who.Home}
	if l.home == "" {
		l.home = filepath.Join(dataDir, homeDir)
	}
	return l, nil
}

// Exists reports whether a server was ever made for dataDir, running or not. It
// changes nothing.
func Exists(dataDir string) (bool, error) {
	l, err := readLayout(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	major, err := l.clusterMajor()
	return major != 0, err
}

// newLayout gives the data directory its identity and chooses the cluster's place.
func newLayout(o Options, a account, bin binaries) (layout, error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand
	who := identity{ID: fmt.Sprintf("%x", raw)}
	if !a.canEnter(o.DataDir, bin) {
		if err := mkdir(o.RelocationDir, 0o711); err != nil {
			return layout{}, fmt.Errorf("embedded: the user %s cannot enter %s, and a place for the cluster outside could not be made: %w", a.name, o.DataDir, err)
		}
		if !a.canEnter(o.RelocationDir, bin) {
			return layout{}, fmt.Errorf("embedded: the user %s, as whom the server has to run, can enter neither %s nor %s", a.name, o.DataDir, o.RelocationDir)
		}
		who.Home = filepath.Join(o.RelocationDir, who.ID)
		o.Logger.Info("the server's user cannot enter the data directory; the cluster is in another directory", "user", a.name, "cluster", who.Home)
		if err := relocate(o, who.Home); err != nil {
			return layout{}, fmt.Errorf("embedded: %w", err)
		}
	}
	text, err := json.Marshal(who)
	if err != nil {
		return layout{}, err
	}
	if err := replaceFile(filepath.Join(o.DataDir, identityFile), append(text, '\n')); err != nil {
		return layout{}, fmt.Errorf("embedded: %w", err)
	}
	return readLayout(o.DataDir)
}

// prepare makes the directories of the server and hands them to its account.
func (l layout) prepare(a account) error {
	for _, dir := range []string{l.home, l.socketDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("embedded: %w", err)
		}
		// Root's own are those made just now, or by a start that got no further.
		if uid, _, err := owner(dir); err == nil && uid == 0 {
			if err := a.give(dir); err != nil {
				return fmt.Errorf("embedded: %w", err)
			}
		}
		if err := private(dir, a); err != nil {
			return err
		}
	}
	return nil
}

// private refuses a directory that another user could have prepared (in /tmp) or
// can enter: whoever reaches the socket is let in as any role.
func private(dir string, a account) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	uid, _, err := owner(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || uid != a.uid || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("embedded: %s must be a directory of user id %d that nobody else can enter (mode 0700); it has owner %d and mode %v", dir, a.uid, uid, info.Mode())
	}
	return nil
}

// clusterMajor is the version that made the cluster, 0 when there is none yet.
func (l layout) clusterMajor() (int, error) {
	text, err := os.ReadFile(filepath.Join(l.cluster(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("embedded: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("embedded: %s: %w", filepath.Join(l.cluster(), "PG_VERSION"), err)
	}
	return major, nil
}

// replaceFile writes a file of mode 0600 that is there whole or not at all.
func replaceFile(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".")
	if err != nil {
		return err
	}
	_, werr := tmp.Write(text)
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return os.Rename(tmp.Name(), path)
}
