package db_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
)

// newServer starts a server that has no role of Waypost's, as a new one has none.
func newServer(t *testing.T) *embedded.Server {
	t.Helper()
	o := embedded.Options{DataDir: dbtest.TempDir(t), Download: true, Disposable: true}
	server, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.Background()), embedded.Remove(context.Background(), o.DataDir)); err != nil {
			t.Error(err)
		}
	})
	psql(t, server.AdminURL("postgres"), `drop role `+embedded.OwnerRole, `drop role `+embedded.AppRole)
	return server
}

func TestABackupThatWasRestoredBadlyIsRepairedByAnUpgrade(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	psql(t, urls.App, `select ensure_events_month('2031-05-01')`)
	want := column(t, urls.Owner, privileges)
	dump := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.CommandContext(t.Context(), dbtest.Program(t, "pg_dump"), "--format=custom", "--file="+dump, urls.Owner).CombinedOutput(); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, out)
	}
	restore := func(args ...string) error {
		return exec.CommandContext(t.Context(), dbtest.Program(t, "pg_restore"), append(args, dump)...).Run()
	}

	server := newServer(t)
	admin := server.AdminURL("plain")
	psql(t, server.AdminURL("postgres"), `create database plain`)
	if err := restore("--dbname=" + admin); err == nil {
		t.Fatal("a restore onto a server without the roles went well; the test proves nothing")
	}
	done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: admin})
	if err != nil || len(done.Restored) < 50 || done.Restored[0] != "create role waypost_app" {
		t.Fatalf("%+v, %v", done, err)
	}
	expectRestored(t, admin, admin, want)

	psql(t, admin, `create role waypost_owner login`, `grant waypost_app to waypost_owner`)
	psql(t, admin, `create database poor owner waypost_owner`)
	owner := server.OwnerURL("poor")
	if err := restore("--no-owner", "--no-privileges", "--exit-on-error", "--dbname="+owner); err != nil {
		t.Fatal(err)
	}
	if done, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: owner, AppURL: server.AppURL("poor")}); err != nil || len(done.Restored) < 50 {
		t.Fatalf("%+v, %v", done, err)
	}
	expectRestored(t, server.AdminURL("poor"), owner, want)
}

// expectRestored expects the privileges of a fresh database, and that the service
// could be run.
func expectRestored(t *testing.T, admin, app string, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, column(t, admin, privileges)); diff != "" {
		t.Error(diff)
	}
	d, err := db.Open(t.Context(), db.Options{URL: app})
	if err != nil {
		t.Error(err)
		return
	}
	defer d.Close()
	if err := d.CheckRights(t.Context()); err != nil {
		t.Error(err)
	}
}
