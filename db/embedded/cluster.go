package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// hba lets in every role over the socket and nothing else; the package comment
// says why that is safe.
const hba = "# Written by Waypost. The socket's directory is what keeps others out.\nlocal all all trust\n"

// initCluster makes the cluster. It is built beside its place
// and renamed into it, so that a kill leaves a whole cluster or none.
func (l layout) initCluster(o Options, a account, bin binaries) error {
	fresh, err := os.MkdirTemp(l.home, "initdb-")
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if err := a.give(fresh); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if err := l.runInitdb(o, a, bin, fresh); err != nil {
		return err
	}
	// The file exists and belongs to the account: its owner and mode remain.
	if err := os.WriteFile(filepath.Join(fresh, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if err := os.Rename(fresh, l.cluster()); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	return nil
}

// removeUnfinished may fail where the initdb of a killed start still writes.
func (l layout) removeUnfinished() error {
	unfinished, err := filepath.Glob(filepath.Join(escapeGlob(l.home), "initdb-*"))
	if err != nil {
		return err
	}
	for _, dir := range unfinished {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// runInitdb orders text by its bytes, the same on every machine, while letters
// beyond ASCII still have a case where the system knows them.
func (l layout) runInitdb(o Options, a account, bin binaries, dir string) error {
	letters := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		letters = "UTF-8"
	}
	var out []byte
	var err error
	for _, ctype := range []string{letters, "C"} {
		args := []string{"--pgdata=" + dir, "--username=" + AdminRole, "--auth=trust", "--encoding=UTF8", "--locale=C", "--lc-ctype=" + ctype}
		if o.Disposable {
			args = append(args, "--no-sync")
		} else {
			args = append(args, "--data-checksums")
		}
		if out, err = a.command(l.home, bin.initdb(), args...).CombinedOutput(); err == nil {
			return nil
		}
		if !strings.Contains(string(out), "invalid locale name") {
			break
		}
	}
	return fmt.Errorf("embedded: %s failed (%w):\n%s", bin.initdb(), err, strings.TrimSpace(string(out)))
}
