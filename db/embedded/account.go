package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the operating system's user that the server runs as. PostgreSQL
// refuses to run as root.
type account struct {
	uid, gid uint32
	name     string
	drop     bool // started as root: children change to uid and gid
}

// serverAccount is the current user or, for root, the owner of the cluster at
// dir when there is one, else postgres, else nobody.
func serverAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		a := account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
		if uid, _, err := owner(dir); err == nil && uid != a.uid {
			return account{}, fmt.Errorf("embedded: %s belongs to user id %d, not to yours (%d); run waypost as that user or as root, or choose another --data-dir", dir, uid, a.uid)
		}
		return a, nil
	}
	switch uid, gid, err := owner(dir); {
	case err == nil && uid != 0:
		return account{uid: uid, gid: gid, name: userName(uid), drop: true}, nil
	case err == nil:
		return account{}, fmt.Errorf("embedded: %s belongs to root, and PostgreSQL refuses to run as root; give it to another user with chown -R", dir)
	case !errors.Is(err, os.ErrNotExist):
		return account{}, err
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil && uid != 0 {
			return account{uid: uint32(uid), gid: uint32(gid), name: name, drop: true}, nil
		}
	}
	return account{}, errors.New("embedded: PostgreSQL refuses to run as root, and neither a user postgres nor nobody exists to run it as; create one (useradd --system postgres) or start waypost as an ordinary user")
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user id " + id
}

func owner(path string) (uint32, uint32, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("embedded: the owner of %s is unknown", path)
	}
	return st.Uid, st.Gid, nil
}

// command prepares a program to run as the account in dir. A session of its own
// keeps the terminal's Ctrl-C and hangup from the server: Waypost stops it when
// its own requests are finished.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	// Of PG* variables one (PGDATA, PGOPTIONS) could turn the server elsewhere.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v := os.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// give hands path over to the account.
func (a account) give(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// canEnter reports whether the account may use dir as its working directory. It
// asks the kernel by trying, since permission bits are not all that decides.
func (a account) canEnter(dir string, bin binaries) bool {
	return !a.drop || a.command(dir, bin.postgres(), "--version").Run() == nil
}
