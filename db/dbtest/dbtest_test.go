package dbtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/embedded"
)

// ask runs a query with one value on a connection of its own.
func ask[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var value T
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestEachTestHasAMigratedDatabaseToItself(t *testing.T) {
	t.Parallel()
	for range 3 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			d, urls := dbtest.NewWithURL(t)
			if err := d.CheckMigrated(t.Context()); err != nil {
				t.Error(err)
			}
			if got := ask[bool](t, urls.Owner, `select to_regclass('river_job') is not null and to_regclass('mine') is null`); !got {
				t.Error("River's tables are missing, or another test's are here")
			}
			conn, err := pgx.Connect(t.Context(), urls.Owner)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(t.Context()) }()
			if _, err := conn.Exec(t.Context(), `create table mine (n int)`); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestThePoolIsTheApplications(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	var user string
	var canCreate bool
	if err := d.Pool().QueryRow(t.Context(), `select current_user, has_schema_privilege('public', 'create')`).Scan(&user, &canCreate); err != nil {
		t.Fatal(err)
	}
	if user != db.AppRole || canCreate {
		t.Errorf("the pool works as %s (may create tables: %t), want %s that may not", user, canCreate, db.AppRole)
	}
	if embedded.AppRole != db.AppRole {
		t.Errorf("the private server's application role is %s, the pool's is %s", embedded.AppRole, db.AppRole)
	}
}

func TestADatabaseIsGoneWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("", func(t *testing.T) {
		d := dbtest.New(t)
		if err := d.Pool().QueryRow(t.Context(), `select current_database()`).Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	other := dbtest.Unmigrated(t)
	if ask[bool](t, other.Admin, `select exists (select from pg_database where datname = '`+name+`')`) {
		t.Errorf("database %s outlived its test", name)
	}
}

func TestAnUnmigratedDatabaseIsEmptyAndCanBeMigrated(t *testing.T) {
	t.Parallel()
	urls := dbtest.Unmigrated(t)
	if n := ask[int](t, urls.Owner, `select count(*) from pg_class where relnamespace = 'public'::regnamespace`); n != 0 {
		t.Errorf("%d relations in an empty database", n)
	}
	if _, err := db.Upgrade(t.Context(), db.UpgradeOptions{OwnerURL: urls.Owner}); err != nil {
		t.Error(err)
	}
}

// serverVar makes a run under test start a private server in each of its packages,
// which outlives them when they are killed.
const serverVar = "DBTEST_TEST_SERVER"

// leaveBehind starts what nobody ends but the keeper.
func leaveBehind(t *testing.T) {
	t.Helper()
	dir, err := dbtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "sleep")
	if err := os.WriteFile(program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // killed by name, not with the group
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, ok := os.LookupEnv(serverVar); !ok {
		return
	}
	o := embedded.Options{DataDir: filepath.Join(dbtest.TempDir(t), "data"), BinDir: os.Getenv("WAYPOST_POSTGRES_BIN"), Disposable: true}
	server, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(server.Stop(ctx), embedded.Remove(ctx, o.DataDir)); err != nil {
			t.Error(err)
		}
	})
}

// reportVar names a file in which a run under test notes which server it met.
const reportVar = "DBTEST_TEST_REPORT"

func TestADatabaseTellsItsServer(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	server := ask[string](t, urls.Admin, `select current_setting('data_directory') || ' ' || pg_postmaster_start_time()`)
	path, ok := os.LookupEnv(reportVar)
	if !ok {
		return
	}
	leaveBehind(t)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(server + "\n"); err != nil {
		t.Fatal(err)
	}
}
