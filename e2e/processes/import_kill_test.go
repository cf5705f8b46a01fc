package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/naive"
	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/stats/client"
)

// logFile is a generated log and its independent count.
func logFile(t *testing.T, traffic naive.Traffic) (string, []naive.Hit) {
	t.Helper()
	var log bytes.Buffer
	if err := traffic.Log(&log); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dbtest.TempDir(t), "access.log")
	if err := os.WriteFile(file, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := client.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	read := naive.Log{Domain: traffic.Domain, Classify: func(userAgent string) naive.Agent {
		c := clients.Parse(userAgent)
		return naive.Agent{Bot: c.Bot, Device: c.Device, Browser: c.Browser, OS: c.OS}
	}}
	return file, read.Read(&log)
}

func TestAnImportThatIsKilledResumesToTheRightCounts(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App) // folds and seals the days meanwhile
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	file, hits := logFile(t, naive.Traffic{Seed: 9, Start: time.Date(2024, 10, 31, 12, 0, 0, 0, zone), Days: 5, Zone: zone, Visitors: 2500, Domain: "example.com"})
	id, _, key := newSite(t, urls.App, "example.com", zone.String())
	args := []string{"import", "--site", id, "--format", "combined", file}
	stored := func() int {
		return countNow(t, urls.Admin, `select count(*) from imported_lines where site_id = $1`, id)
	}
	broken := 0
	for before := 0; before < len(hits) && broken < 6; before = stored() {
		run := start(t, serveSettings(urls.App), args...)
		done := func() bool {
			select {
			case <-run.exited:
				return true
			default:
				return stored() > before
			}
		}
		if !within(outside.Patience, done) {
			t.Fatal("the import makes no progress")
		}
		<-time.After(rand.N(60 * time.Millisecond)) // the instant is what is random
		run.kill()
		if now := stored(); now > before && now < len(hits) {
			broken++
		}
	}
	if broken < 3 {
		t.Errorf("only %d imports were broken off: the test shows little", broken)
	}
	left := len(hits) - stored()
	code, out, errOut := command(t, serveSettings(urls.App), "", args...)
	if want := fmt.Sprintf("imported    %d\n", left); code != 0 || !strings.Contains(out, want) {
		t.Fatalf("the last import: exit %d, %q %q, want %q", code, out, errOut, want)
	}
	t.Logf("broken off %d times; the last import added %d of %d", broken, left, len(hits))
	compare(t, p, key, naive.New(naive.Rules{Zone: zone}, hits))
}

// rowsOf counts a site's rows in every table that has any.
func rowsOf(t *testing.T, databaseURL, siteID string) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `
select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'site_id'
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, table := range tables {
		var n int
		if err := conn.QueryRow(t.Context(), `select count(*) from `+table+` where site_id = $1`, siteID).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			counts[table] = n
		}
	}
	return counts
}

func TestAnErasureThatIsKilledIsCompleted(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	token := admin(t, p, urls.App)
	file, hits := logFile(t, naive.Traffic{Seed: 10, Start: time.Date(2024, 10, 31, 12, 0, 0, 0, time.UTC), Days: 4, Zone: time.UTC, Visitors: 3500, Domain: "example.com"})
	gone, _, goneKey := newSite(t, urls.App, "example.com", "UTC")
	kept, _, keptKey := newSite(t, urls.App, "example.com", "UTC")
	for _, id := range []string{gone, kept} {
		if code, out, errOut := command(t, serveSettings(urls.App), "", "import", "--site", id, "--format", "combined", file); code != 0 {
			t.Fatal(out, errOut)
		}
	}
	// An erasure waits at each table for one of the site's rows. The lock is there
	// before the process is that will wait for it.
	tables := []string{"events", "imported_lines", "session_heads", "sessions"}
	hold := func(table string) func() {
		return dbtest.Lock(t, urls.Owner, `select from `+table+` where site_id = $1 limit 1 for update`, gone)
	}
	unlock := hold(tables[0])
	if a := outside.Do(t, "DELETE", p.url+"/api/admin/sites/"+gone, "", "Authorization", "Bearer "+token); a.Status != 204 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for round, table := range tables {
		erasing := func() bool {
			return countNow(t, urls.Admin, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'delete from '||$1||' %'`, table) > 0
		}
		if !within(outside.Patience, erasing) {
			t.Fatalf("the erasure does not come to %s; %v are left", table, rowsOf(t, urls.Admin, gone))
		}
		p.kill()
		passed := unlock
		if round+1 < len(tables) {
			unlock = hold(tables[round+1])
		}
		passed()
		takeUpSoon(t, urls.Admin)
		if round == 1 {
			// So far the killed process's job went on; from now on the sweep is first. It
			// takes up what is long overdue, whose last rows may go as well.
			countNow(t, urls.Admin, `with past as (update sites set deleted_at = deleted_at - interval '1 hour' where id = $1 returning 1) select count(*) from past`, gone)
		}
		p = startServe(t, urls.App)
		a := outside.Do(t, "GET", p.url+"/api/stats/summary", "", "X-Analytics-API-Key", goneKey)
		wantError(t, a, 401, "invalid_api_key")
	}
	if !within(outside.Patience, func() bool { return countNow(t, urls.Admin, `select count(*) from sites where id = $1`, gone) == 0 }) {
		t.Errorf("the site is still there")
	}
	if left := rowsOf(t, urls.Admin, gone); len(left) > 0 {
		t.Errorf("left of the deleted site: %v", left)
	}
	// The other site's numbers are what they were.
	count := naive.New(naive.Rules{Zone: time.UTC}, hits)
	w := naive.Window{From: "2024-10-30", To: "2024-11-06"}
	var got metrics
	ask(t, p, keptKey, "summary", url.Values{"from": {w.From}, "to": {w.To}}, &got)
	if diff := cmp.Diff(metrics(count.Summary(w)), got); diff != "" {
		t.Error(diff)
	}
}

// takeUpSoon spares the test the half minute after which others take up the jobs of a
// process that died, and the times until periodic tasks are due.
func takeUpSoon(t *testing.T, databaseURL string) {
	t.Helper()
	countNow(t, databaseURL, `with
		gone as (update job_runners set seen_at = now() - interval '1 hour' returning 1),
		soon as (update river_job set scheduled_at = now() where state in ('scheduled', 'retryable') returning 1),
		due as (update cron set next_run_at = now() returning 1),
		left_over as (delete from river_leader returning 1)
		select (select count(*) from gone) + (select count(*) from soon) + (select count(*) from due) + (select count(*) from left_over)`)
}
