package e2e_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestACommandWorksOnOneDatabaseThatItNames(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	withPassword := strings.Replace(urls.App, "waypost_app@", "waypost_app:hunter2@", 1)
	for _, c := range []struct {
		name string
		env  []string
		args string
		code int
		says []string
	}{
		{"both, by flag", []string{"DATABASE_URL=" + urls.App}, "site list --data-dir here", 2, []string{"DATABASE_URL", "--data-dir"}},
		{"both, by variable", []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATA_DIR=here"}, "migrate status", 2, []string{"DATABASE_URL", "WAYPOST_DATA_DIR"}},
		{"neither", nil, "user create --email a@example.com --first-name Ad --last-name Min --role ADMIN", 1, []string{"DATABASE_URL", "--data-dir", "waypost dev"}},
		{"neither, for migrate", nil, "migrate up", 1, []string{"DATABASE_URL", "--data-dir", "waypost dev"}},
		{"a directory without one", nil, "site list --data-dir here", 1, []string{"here", "waypost dev --data-dir here"}},
		{"DATABASE_URL", []string{"DATABASE_URL=" + withPassword}, "site list", 0, []string{"Database: test_", "as waypost_app (DATABASE_URL)"}},
		{"DATABASE_URL, for migrate", []string{"DATABASE_URL=" + withPassword, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}, "migrate up", 0, []string{"Database: test_", "as waypost_owner (WAYPOST_DATABASE_OWNER_URL)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary(t), strings.Fields(c.args)...)
			cmd.Dir = dbtest.TempDir(t)
			removeServer(t, filepath.Join(cmd.Dir, ".waypost")) // if it made one
			removeServer(t, filepath.Join(cmd.Dir, "here"))
			code, out, errOut := runToEnd(t, cmd, c.env, "a password of theirs\n")
			if code != c.code || c.code != 0 && out != "" || strings.Contains(out, "Database:") || strings.Contains(errOut, "hunter2") {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d", code, out, errOut, c.code)
			}
			for _, words := range c.says {
				if !strings.Contains(errOut, words) {
					t.Errorf("stderr %q lacks %q", errOut, words)
				}
			}
			if made, err := os.ReadDir(cmd.Dir); err != nil || len(made) > 0 {
				t.Errorf("the command made %v (%v)", made, err)
			}
		})
	}
}

// contents is what a dev could have changed in a database.
func contents(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var all string
	if err := conn.QueryRow(t.Context(), `select concat_ws(E'\n',
		(select string_agg(u::text, E'\n' order by id) from users u), (select string_agg(s::text, E'\n' order by id) from sites s),
		(select string_agg(k::text, E'\n' order by kid) from signing_keys k), (select string_agg(g::text, E'\n' order by id) from goose_db_version g),
		(select count(*) from site_api_keys), (select count(*) from events), (select string_agg(oid::regclass::text, ' ') from pg_class))`).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// statement runs SQL at a database.
func statement(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestDevWritesNothingIntoADatabaseOfOthers(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, dbtest.URLs){
		"an account": func(t *testing.T, urls dbtest.URLs) {
			code, _, errOut := command(t, []string{"DATABASE_URL=" + urls.App}, outside.Password+"\n",
				"user", "create", "--email", "root@example.com", "--first-name", "Ro", "--last-name", "Ot", "--role", "admin")
			if code != 0 {
				t.Fatal(errOut)
			}
		},
		"a site": func(t *testing.T, urls dbtest.URLs) { newSite(t, urls.App, "example.com", "UTC") },
		"a site, and an older schema": func(t *testing.T, urls dbtest.URLs) {
			newSite(t, urls.App, "example.com", "UTC")
			statement(t, urls.Owner, `drop table installation; delete from goose_db_version where version_id >= 16`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls := dbtest.NewURL(t)
			prepare(t, urls)
			before := contents(t, urls.Admin)
			dir := filepath.Join(dbtest.TempDir(t), "data")
			said := devRefuses(t, []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}, "dev", "--addr", "127.0.0.1:0", "--data-dir", dir)
			if !strings.Contains(said, "dev refuses") || !strings.Contains(said, "UPDATE installation SET dev_since") {
				t.Error(said)
			}
			if diff := cmp.Diff(before, contents(t, urls.Admin)); diff != "" {
				t.Errorf("dev wrote: %s", diff)
			}
			for _, made := range []string{"dev.env", "secret.key"} {
				if _, err := os.Stat(filepath.Join(dir, made)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("dev left %s (%v)", made, err)
				}
			}
		})
	}
}

// devRefuses runs a dev that has to refuse, and returns what it says.
func devRefuses(t *testing.T, env []string, args ...string) string {
	t.Helper()
	p := start(t, env, args...)
	if !within(outside.Patience, func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return strings.Contains(p.stdout.String(), "Waypost is ready")
		}
	}) {
		t.Fatal("dev neither refuses nor becomes ready")
	}
	p.stop(t)
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || p.stdout.String() != "" {
		t.Fatalf("dev did not refuse: exit %d, %q", code, p.stdout)
	}
	return p.stderr.String()
}

func TestDevTakesAnEmptyDatabaseAndKnowsItAgain(t *testing.T) {
	t.Parallel()
	urls := dbtest.Unmigrated(t)
	dir := filepath.Join(dbtest.TempDir(t), "data")
	settings := []string{"DATABASE_URL=" + urls.App, "WAYPOST_DATABASE_OWNER_URL=" + urls.Owner}
	args := []string{"dev", "--addr", "127.0.0.1:0", "--data-dir", dir}
	// Killed while it seeds, it takes the database up again.
	p := start(t, settings, args...)
	p.waitFor(t, "seeding", func() bool { return strings.Contains(p.stderr.String(), "Seeding") })
	p.kill()
	p = startDev(t, dir, settings...)
	tryEverything(t, p, devValues(t, dir))
	p.stop(t)

	before := contents(t, urls.Admin)
	said := devRefuses(t, settings, "dev", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(dbtest.TempDir(t), "another"))
	if !strings.Contains(said, "another WAYPOST_SECRET_KEY") {
		t.Errorf("with another secret key: %q", said)
	}
	said = devRefuses(t, append(settings, "WAYPOST_SECRET_KEY=short"), args...)
	if !strings.Contains(said, "WAYPOST_SECRET_KEY") {
		t.Errorf("with a short secret key: %q", said)
	}
	if diff := cmp.Diff(before, contents(t, urls.Admin)); diff != "" {
		t.Errorf("with another secret key dev wrote: %s", diff)
	}

	// The mark is none of serve's business, nor is the loss of it.
	key, err := os.ReadFile(filepath.Join(dir, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	startServe(t, urls.App, "WAYPOST_SECRET_KEY="+string(key)).stop(t)
	statement(t, urls.Owner, `update installation set dev_since = null`)
	if said := devRefuses(t, settings, args...); !strings.Contains(said, "dev refuses") {
		t.Errorf("a database without the mark: %q", said)
	}
	startServe(t, urls.App, "WAYPOST_SECRET_KEY="+string(key)).stop(t)
	statement(t, urls.Owner, `update installation set dev_since = now()`) // what the message says
	startDev(t, dir, settings...)
}
