package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/audit"
)

// command runs a command line in this process.
func command(t *testing.T, args ...string) (out, said string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAuditVerifyNamesTheFirstBadEntryInTheDatabaseAndOffline(t *testing.T) {
	d, urls := dbtest.NewWithURL(t)
	t.Setenv("DATABASE_URL", urls.App)
	for range 3 {
		if _, _, err := command(t, "site", "create", "--name", "Blog", "--domain", "example.com"); err != nil {
			t.Fatal(err)
		}
	}
	log, err := audit.New(audit.Options{DB: d, SecretKey: bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := log.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pending, err := log.Seal(t.Context()); err != nil || pending != 1 {
		t.Fatalf("%d entries were left behind by commands and the key, want the key's, %v", pending, err)
	}
	if signed, err := log.SignCheckpoint(t.Context(), true); err != nil || !signed {
		t.Fatal(signed, err)
	}
	list, err := log.Checkpoints(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var exported bytes.Buffer
	if _, err := log.Export(t.Context(), 0, &exported); err != nil {
		t.Fatal(err)
	}
	checkpoints, keyFile := write(t, "checkpoints", list[0].Note), write(t, "key", key.VerifierKey+"\n")
	export := write(t, "export", exported.String())
	edited := write(t, "edited", strings.Replace(exported.String(), `"op":"insert"`, `"op":"update"`, 1))
	check := func(broken string, args ...string) {
		t.Helper()
		out, said, err := command(t, append([]string{"audit", "verify"}, args...)...)
		if broken == "" && (err != nil || !strings.Contains(out, "The audit log is whole.")) {
			t.Errorf("%v: %v\n%s%s", args, err, out, said)
		}
		if broken != "" && (err == nil || !strings.Contains(err.Error(), broken) || strings.Contains(out, "whole")) {
			t.Errorf("%v: %v does not say %q\n%s%s", args, err, broken, out, said)
		}
		if _, usage := errors.AsType[*usageError](err); usage != strings.HasPrefix(broken, "--") {
			t.Errorf("%v: a wrong command line? %v", args, err)
		}
	}
	check("")
	check("", "--key", keyFile)
	check("", "--checkpoint", checkpoints)
	check("", "--checkpoint", checkpoints, "--key", key.VerifierKey)
	check("--checkpoint with --export needs --key", "--export", export, "--checkpoint", checkpoints)
	check("--key: there is no file nowhere", "--key", "nowhere")
	check("no such file", "--checkpoint", "nowhere")
	owner, err := pgx.Connect(t.Context(), urls.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.Background()) }()
	if _, err := owner.Exec(t.Context(), `update audit_log set actor_id = 'x' where seq = 2`); err != nil {
		t.Fatal(err)
	}
	check("broken at entry 2: row_hash")
	t.Setenv("DATABASE_URL", "postgres://nowhere.invalid/none") // offline nothing needs it
	check("", "--export", export)
	check("", "--export", export, "--checkpoint", checkpoints, "--key", keyFile)
	check("broken at entry 1: row_hash", "--export", edited)
	check("truncated", "--export", write(t, "cut", strings.SplitAfter(exported.String(), "\n")[0]), "--checkpoint", checkpoints, "--key", keyFile)
}
