package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

// The schemas of the three versions that come after this one: a column comes with the first,
// which writes it; the second has done without; the third takes it away, and says so.
var nextVersions = []struct {
	number int64
	column bool // whether the program uses it
	text   string
}{
	{99001, true, "-- +goose Up\nalter table posts add column subtitle text not null default '';\n-- +goose Down\nalter table posts drop column subtitle;\n"},
	{99002, false, "-- +goose Up\nselect 'no program from here on knows posts.subtitle';\n-- +goose Down\nselect 1;\n"},
	{99003, false, "-- +goose Up\nupdate installation set compatible_from = 99002;\nalter table posts drop column subtitle;\n-- +goose Down\nselect 1;\n"},
}

// version is a program and what makes it that version.
type version struct {
	program string
	number  int64
	env     []string
}

// nextWayposts builds this waypost so that it takes its migrations from a directory, and what
// it stores of a post from its environment: one build, which is all versions to come. A
// version's schema is its own, as if it were in the program.
func nextWayposts(t *testing.T) []version {
	t.Helper()
	dir := dbtest.TempDir(t)
	replaced := map[string]string{}
	change := func(file string, pairs ...string) {
		t.Helper()
		from, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(text, pairs[i]) != 1 {
				t.Fatalf("%s does not have %q once", file, pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		to := filepath.Join(dir, filepath.Base(file))
		write(t, to, text)
		replaced[from] = to
	}
	change("../db/migrate.go", "\t\"embed\"\n", "\t\"os\"\n", "//go:embed migrations/*.sql\n", "", "var migrations embed.FS", `var migrations = os.DirFS(os.Getenv("NEXT_SCHEMA")).(fs.ReadFileFS)`)
	change("../db/dbsqlc/content.sql.go", "\t\"time\"\n", "\t\"os\"\n\t\"time\"\n",
		"const insertPost = `-- name: InsertPost :one\ninsert into posts (author_id, title, body, tags, created_at, updated_at)\nvalues ($1, $2, $3, $4, $5, $5)\n",
		"var insertPost = `-- name: InsertPost :one\ninsert into posts (author_id, title, body, tags, created_at, updated_at` + os.Getenv(\"NEXT_COLUMN\") + `)\nvalues ($1, $2, $3, $4, $5, $5` + os.Getenv(\"NEXT_VALUE\") + `)\n")
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	program := filepath.Join(dir, "waypost-next")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "../cmd/waypost")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	list := []version{{program: binary(t)}}
	for i, next := range nextVersions {
		schema := filepath.Join(dir, fmt.Sprint(next.number))
		if err := os.CopyFS(filepath.Join(schema, "migrations"), os.DirFS("../db/migrations")); err != nil {
			t.Fatal(err)
		}
		for _, m := range nextVersions[:i+1] {
			write(t, filepath.Join(schema, "migrations", fmt.Sprintf("%d_next.sql", m.number)), m.text)
		}
		v := version{program: program, number: next.number, env: []string{"NEXT_SCHEMA=" + schema}}
		if next.column {
			v.env = append(v.env, "NEXT_COLUMN=, subtitle", "NEXT_VALUE=, 'of the next'")
		}
		list = append(list, v)
	}
	return list
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fleet is a database, and what to start programs on it with.
type fleet struct {
	urls dbtest.URLs
	env  []string
}

func (f fleet) start(t *testing.T, v version) *process {
	t.Helper()
	return startServeOf(t, v.program, f.urls.App, append(f.env, v.env...)...)
}

// run runs a command of a version to its end.
func (f fleet) run(t *testing.T, v version, args ...string) (int, string, string) {
	t.Helper()
	env := append(serveSettings(f.urls.App), "WAYPOST_DATABASE_OWNER_URL="+f.urls.Owner)
	return runToEnd(t, exec.CommandContext(t.Context(), v.program, args...), append(env, v.env...), "")
}

func wantReady(t *testing.T, p *process, want int) {
	t.Helper()
	if a := outside.Do(t, "GET", p.url+"/readyz", ""); a.Status != want || want != 200 && !strings.Contains(string(a.Body), `"migrations":"failed"`) {
		t.Errorf("readiness: %d %s, want %d", a.Status, a.Body, want)
	}
}

// Two instances are brought through three versions, one of which adds a column and one of
// which takes it away, as docs/operations.md says: migrate, then restart one by one. Two
// more are there that nobody restarted in time.
func TestRollingUpgradesOverAColumnThatComesAndGoesLoseNoRequest(t *testing.T) {
	t.Parallel()
	versions := nextWayposts(t)
	f := fleet{dbtest.NewURL(t), []string{"PAYMENT_WEBHOOK_SECRET=" + outside.PaymentSecret, "WAYPOST_SHUTDOWN_DELAY=2s"}}
	old := []*process{f.start(t, versions[0]), f.start(t, versions[0])}
	b := newBalancer(t, old...)
	stop := b.load(t, f.urls, admin(t, old[0], f.urls.App))
	late := f.start(t, versions[0])
	var lateFirst *process
	for i, v := range versions[1:] {
		if code, out, errOut := f.run(t, v, "migrate", "up"); code != 0 || !strings.Contains(out, fmt.Sprintf("Applied %d_next.sql", v.number)) {
			t.Fatalf("migrate up to %d: exit %d, %q %q", v.number, code, out, errOut)
		}
		for j := range old {
			wantReady(t, old[j], 200)
			// One that crashes before its turn starts again as it was.
			if j == 1 {
				b.crash(t, old[j])
				old[j] = f.start(t, versions[i])
				b.add(old[j])
			}
			fresh := f.start(t, v)
			b.add(fresh)
			old[j].stop(t)
			b.remove(old[j])
			old[j] = fresh
		}
		if i == 0 {
			lateFirst = f.start(t, v)
			wantReady(t, late, 200)
		}
		if v.number == 99002 {
			if n := countNow(t, f.urls.Admin, `select count(*) from posts where subtitle = 'of the next'`); n == 0 {
				t.Error("nobody wrote the column")
			}
			if code, out, errOut := f.run(t, versions[1], "migrate", "up"); code != 0 || !strings.Contains(out, "compatible") {
				t.Errorf("migrate up of the one before: exit %d, %q %q", code, out, errOut)
			}
		}
	}
	acknowledged := stop()
	for kind, sql := range map[string]string{
		"delivery": `select count(*) from webhook_events where status = 'processed'`,
		"hit":      `select count(*) from events`,
		"post":     `select count(*) from posts`,
	} {
		if stored := countNow(t, f.urls.Admin, sql); stored != acknowledged[kind] || stored < 20 {
			t.Errorf("%s: %d acknowledged, %d stored", kind, acknowledged[kind], stored)
		}
	}
	t.Logf("acknowledged: %v", acknowledged)
	f.belowTheFloor(t, versions, []*process{late, lateFirst}, old[0])
}

// belowTheFloor holds that programs to which a migration took something away stop taking
// requests, do not start, and say what to do.
func (f fleet) belowTheFloor(t *testing.T, versions []version, late []*process, fresh *process) {
	t.Helper()
	wantReady(t, fresh, 200)
	for i, p := range late {
		wantReady(t, p, 503)
		for _, args := range []string{"serve --addr 127.0.0.1:0", "serve --migrate --addr 127.0.0.1:0", "migrate up"} {
			code, out, errOut := f.run(t, versions[i], strings.Fields(args)...)
			for _, want := range []string{"too old for the database", "99003", "99002", "run the version of waypost that migrated it"} {
				if code != 1 || !strings.Contains(errOut, want) {
					t.Errorf("%s of version %d: exit %d, %q %q, want %q", args, i, code, out, errOut, want)
				}
			}
		}
	}
	code, out, errOut := f.run(t, versions[1], "doctor", "--json")
	if code != 1 || !strings.Contains(out, "too old for the database") {
		t.Errorf("doctor of version 1: exit %d, %q %q", code, out, errOut)
	}
	// Those of the second version have done without the column all along.
	wantReady(t, f.start(t, versions[2]), 200)
}
