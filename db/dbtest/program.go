package dbtest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Program finds one of PostgreSQL's client programs, such as pg_dump: beside the
// server's programs, whose version it then has, else in PATH. A test that needs one
// fails without it.
func Program(t testing.TB, name string) string {
	t.Helper()
	var dir string
	if err := shared(t).admin.QueryRow(t.Context(), `select setting from pg_config where name = 'BINDIR'`).Scan(&dir); err != nil {
		t.Fatalf("dbtest: the directory of the server's programs: %v", err)
	}
	for _, candidate := range []string{filepath.Join(dir, name), name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("dbtest: %s is neither in %s nor in PATH; install PostgreSQL's client programs too", name, dir)
	return ""
}
