package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/auditproof"
)

// The procedure of docs/audit.md for a restore of data only, up to where the
// program takes over.
func TestADataOnlyRestoreEndsWithTheTriggersAlwaysOn(t *testing.T) {
	t.Parallel()
	all := blocks(t, "audit.md", "sh")
	i := slices.IndexFunc(all, func(block string) bool { return strings.Contains(block, "--disable-triggers") })
	if i < 0 {
		t.Fatal("docs/audit.md has no restore of data only")
	}
	restore, _, found := strings.Cut(all[i], "waypost migrate up\n")
	if !found {
		t.Fatal("the procedure doesn't end with migrate up")
	}
	dir := dbtest.TempDir(t)
	urls := dbtest.NewURL(t)
	before := connect(t, urls.Owner)
	if _, err := before.Exec(t.Context(), `set waypost.actor_type = 'cli';
		insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at)
		select 'Ada', 'Lovelace', i || '@example.com', i || '@example.com', '', 'USER', now(), now() from generate_series(1, 50) i;
		select audit_seal(100);
		update users set active = false where id = 7`); err != nil {
		t.Fatal(err)
	}
	want, _ := exportOf(t, before)
	shell := func(script string, env ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir = dir
		path := strings.Join([]string{filepath.Dir(dbtest.Program(t, "pg_dump")), filepath.Dir(dbtest.Program(t, "psql")), os.Getenv("PATH")}, ":")
		code, out, errOut := runToEnd(t, cmd, append(env, "PATH="+path), "")
		if code != 0 {
			t.Fatalf("%s\nexit %d\n%s%s", script, code, out, errOut)
		}
		return out
	}
	shell(`pg_dump --format=custom --file=waypost.dump "$URL"`, "URL="+urls.Owner)

	server := newServer(t)
	shell(guide(t, "../docs/operations.md", "Backups")[1], "ADMIN_URL="+server.AdminURL("postgres"))
	out := shell(restore, "SUPERUSER_URL="+server.AdminURL("waypost"), "WAYPOST_DATABASE_OWNER_URL="+server.OwnerURL("waypost"))
	if !strings.Contains(out, "(0 rows)") {
		t.Errorf("tables are left without their triggers: %s", out)
	}
	after := connect(t, server.OwnerURL("waypost"))
	if got, _ := exportOf(t, after); got != want {
		t.Error("the restored log is another one")
	}
	if _, err := after.Exec(t.Context(), `update users set active = false`); err == nil {
		t.Error("a change without an actor succeeds")
	}
	if _, err := after.Exec(t.Context(), `set waypost.actor_type = 'cli'; update users set active = false where id = 8; select audit_seal(100)`); err != nil {
		t.Fatal(err)
	}
	export, _ := exportOf(t, after)
	if r, err := auditproof.Check(strings.NewReader(export), nil, ""); err != nil || r.Bad != nil || r.Entries != 52 {
		t.Errorf("%d entries, want 52: %+v, %v", r.Entries, r.Bad, err)
	}
}
