//go:build citus

package stats

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/hit"
)

// These tests need a Citus cluster of their own: WAYPOST_TEST_CITUS_URL is the connection
// string of a superuser to a database of the coordinator that has the extension and
// workers. They migrate and distribute it, work on sites of their own, end connections on
// the workers and change settings of theirs.

var prepareCluster = sync.OnceValues(func() (string, error) {
	clusterURL := os.Getenv("WAYPOST_TEST_CITUS_URL")
	if clusterURL == "" {
		return "", fmt.Errorf("WAYPOST_TEST_CITUS_URL is not set")
	}
	if _, err := db.Upgrade(context.Background(), db.UpgradeOptions{OwnerURL: clusterURL}); err != nil {
		return "", err
	}
	_, err := db.Distribute(context.Background(), clusterURL, func(string) {})
	return clusterURL, err
})

func onCluster(t *testing.T) (*db.DB, string) {
	t.Helper()
	clusterURL, err := prepareCluster()
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: clusterURL, MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, clusterURL
}

// throughCoordinator are the statements that the coordinator carries out itself, row by
// row to one shard, and why that is cheap enough.
var throughCoordinator = map[string]string{
	"SaveRollupHours":     "in the background",
	"SaveRollupCounts":    "in the background",
	"SaveRollupColumns":   "in the background",
	"SaveVisitorPortions": "in the background",
	"InsertRollupLabels":  "in the background",
}

var (
	generatedStatement = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)\n`")
	taskCount          = regexp.MustCompile(`Task Count: (\d+)`)
)

// sample is a value of a type, as SQL.
func sample(kind string) string {
	if of, isArray := strings.CutSuffix(kind, "[]"); isArray {
		return "array[" + sample(of) + "]::" + kind
	}
	value, known := map[string]string{
		"uuid": "01890000-0000-7000-8000-000000000001", "date": "2026-11-23", "timestamp with time zone": "2026-11-23T00:00:00Z",
		"text": "a", "bytea": `\x01`, "boolean": "true", "jsonb": "{}",
	}[kind]
	if !known {
		value = "1"
	}
	return "'" + value + "'::" + kind
}

func TestEveryStatementIsPlannedForOneShardOrSaysWhyNot(t *testing.T) {
	_, clusterURL := onCluster(t)
	conn, err := pgx.Connect(t.Context(), clusterURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	planned := 0
	for _, s := range statementsOfStatistics(t) {
		if ofOnePostgreSQL[s.name] != "" {
			continue // never run here
		}
		sql := generated(t, s.name)
		plan, err := explain(t.Context(), conn, sql)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		tasks := 0
		for _, m := range taskCount.FindAllStringSubmatch(plan, -1) {
			n, _ := strconv.Atoi(m[1])
			tasks = max(tasks, n)
			planned++
		}
		if _, excused := severalShards[s.name]; tasks > 1 && !excused {
			t.Errorf("%s asks %d shards:\n%s", s.name, tasks, plan)
		}
		if _, excused := throughCoordinator[s.name]; strings.Contains(plan, "Citus INSERT ... SELECT") && !excused {
			t.Errorf("%s goes through the coordinator:\n%s", s.name, plan)
		}
	}
	t.Logf("%d plans for shards", planned)
	if planned < 80 {
		t.Errorf("only %d plans are for shards: the tables are hardly distributed", planned)
	}
}

// generated returns a statement as sqlc gives it to PostgreSQL.
func generated(t *testing.T, name string) string {
	t.Helper()
	for _, file := range []string{"admin", "imports", "read", "retention", "rollups", "sharded", "write"} {
		text, err := os.ReadFile("../../db/dbsqlc/statistics_" + file + ".sql.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range generatedStatement.FindAllStringSubmatch(string(text), -1) {
			if m[1] == name {
				return m[2]
			}
		}
	}
	t.Fatalf("%s was not generated", name)
	return ""
}

func explain(ctx context.Context, conn *pgx.Conn, sql string) (string, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _, _ = conn.Exec(ctx, "deallocate all") }()
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "prepare planned as "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", err
	}
	var kinds []string
	if err := tx.QueryRow(ctx, "select parameter_types::text[] from pg_prepared_statements where name = 'planned'", pgx.QueryExecModeSimpleProtocol).Scan(&kinds); err != nil {
		return "", err
	}
	execute := "explain (costs off) execute planned"
	if len(kinds) > 0 {
		values := make([]string, len(kinds))
		for i, kind := range kinds {
			values[i] = sample(kind)
		}
		execute += "(" + strings.Join(values, ", ") + ")"
	}
	rows, err := tx.Query(ctx, execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

func TestAClusterAnswersWhatOnePostgreSQLAnswers(t *testing.T) {
	d, _ := onCluster(t)
	now := time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC)
	compared := 0
	for seed, zone := range []string{"UTC", "America/New_York", "Australia/Lord_Howe"} {
		compared += compareLayouts(t, newBenchOn(t, dbtest.New(t), zone, now), newBenchOn(t, d, zone, now), uint64(seed+1))
	}
	t.Logf("%d answers compared", compared)
}

// Citus refuses what asks several shards, where it is told to.
func TestEachStatementOfCollectionAsksOneShard(t *testing.T) {
	_, clusterURL := onCluster(t)
	u, err := url.Parse(clusterURL)
	if err != nil {
		t.Fatal(err)
	}
	values := u.Query()
	values.Set("options", "-c citus.multi_task_query_log_level=error")
	u.RawQuery = strings.ReplaceAll(values.Encode(), "+", "%20") // pgx takes + for itself
	d, err := db.Open(t.Context(), db.Options{URL: u.String(), MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Direct().QueryRow(t.Context(), `select count(*) from events`).Scan(new(int)); err == nil {
		t.Error("a question to all shards was answered")
	}
	if !d.Sharded() {
		t.Fatal("the cluster is not known to be sharded")
	}
	b := newBenchOn(t, d, "UTC", reportedNow)
	sites := []site.Site{b.site}
	for n := range 5 {
		s, err := b.sites.Create(t.Context(), fmt.Sprint("Example ", n), "example.com", "UTC")
		if err != nil {
			t.Fatal(err)
		}
		sites = append(sites, s)
	}
	b.collectTogether("cluster ", sites...)
	var past []hit.Hit
	for n := range 40 {
		past = append(past, aHit(func(h *hit.Hit) { h.At = reportedNow.Add(-time.Duration(n) * time.Hour) }))
	}
	if err := b.importHits(b.importer, b.site, past...); err != nil {
		t.Error(err)
	}
	stored := -b.int(`select count(*) from events where site_id = $1 and import_run is not null`, b.site.ID)
	for _, s := range sites {
		stored += b.int(`select count(*) from events where site_id = $1`, s.ID)
	}
	if stored != 48 {
		t.Errorf("%d events are stored, want 48", stored)
	}
}

// workers are connections to the cluster's workers.
func workers(t *testing.T, clusterURL string) []*pgx.Conn {
	t.Helper()
	coordinator, err := pgx.Connect(t.Context(), clusterURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = coordinator.Close(context.Background()) }()
	rows, err := coordinator.Query(t.Context(), `select nodename || ':' || nodeport from pg_dist_node where groupid <> 0 and isactive`)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var list []*pgx.Conn
	for _, host := range hosts {
		u, err := url.Parse(clusterURL)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = host
		conn, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		list = append(list, conn)
	}
	return list
}

func mustRun(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// endShardWriters ends the connections over which the coordinator writes.
const endShardWriters = `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'citus_internal%' and pid <> pg_backend_pid() and usename = 'waypost_app'`

func TestAMonthThatNoSiteWantsIsDroppedFromACluster(t *testing.T) {
	d, _ := onCluster(t)
	const parts = `select count(*) from pg_inherits where inhparent = 'events'::regclass and inhrelid = to_regclass('events_2001_01')`
	for _, step := range []struct {
		sql   string
		parts int
	}{{`select ensure_events_month('2001-01-15') is null`, 1}, {`select drop_events_month('2001-01-15')`, 0}} {
		var done bool
		if err := d.Direct().QueryRow(t.Context(), step.sql).Scan(&done); err != nil {
			t.Fatalf("%s: %v", step.sql, err)
		}
		var n int
		if err := d.Direct().QueryRow(t.Context(), parts).Scan(&n); err != nil || n != step.parts {
			t.Errorf("after %s there are %d partitions, want %d: %v", step.sql, n, step.parts, err)
		}
	}
}

func TestAWorkerThatRefusesTheServiceIsNamedByTheClusterAndStallsNoOther(t *testing.T) {
	d, clusterURL := onCluster(t)
	b := newBenchOn(t, d, "UTC", reportedNow)
	nodes := workers(t, clusterURL)
	if len(nodes) < 2 {
		t.Skip("the cluster has one worker")
	}
	sites := []site.Site{b.site}
	for range 16 { // of which each worker has some
		sites = append(sites, b.anotherSite())
	}
	b.collectTogether("refusing ", sites...)
	mustRun(t, nodes[0], `set citus.enable_ddl_propagation = off`, `alter role waypost_app nologin`, endShardWriters)
	defer mustRun(t, nodes[0], `alter role waypost_app login`)
	if unreached, err := db.UnreachedWorkers(t.Context(), clusterURL); err != nil || len(unreached) != 1 {
		t.Errorf("unreached are %q: %v", unreached, err)
	}
	r := b.rollups(RollupsOptions{})
	if n, err := r.FoldBusy(t.Context()); fault.KindOf(err) != fault.Unavailable || n == 0 {
		t.Errorf("beside a worker that refuses, %d visitors are folded: %v", n, err)
	}
	mustRun(t, nodes[0], `alter role waypost_app login`)
	if n, err := r.FoldBusy(t.Context()); err != nil || n == 0 {
		t.Errorf("when it no longer refuses, %d visitors are folded: %v", n, err)
	}
	if unreached, err := db.UnreachedWorkers(t.Context(), clusterURL); err != nil || len(unreached) > 0 {
		t.Errorf("unreached are %q: %v", unreached, err)
	}
}

func TestNoAcknowledgedHitIsLostOrDoubledWhileWorkersAreKilled(t *testing.T) {
	d, clusterURL := onCluster(t)
	b := newBenchOn(t, d, "UTC", reportedNow)
	b.collect(b.ingester, nil)
	nodes := workers(t, clusterURL)
	var acknowledged, refused sync.Map
	var visitors sync.WaitGroup
	stop := make(chan struct{})
	for v := range 16 {
		visitors.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				path := fmt.Sprintf("/%d/%d", v, n)
				err := b.ingester.Collect(t.Context(), b.site, aHit(func(h *hit.Hit) {
					h.URL, h.UserAgent = "https://example.com"+path, fmt.Sprint(firefox, " ", v)
				}))
				switch {
				case err == nil:
					acknowledged.Store(path, true)
				case fault.KindOf(err) == fault.Unavailable:
					refused.Store(path, true)
				default:
					refused.Store(path, true)
					t.Logf("%s: %v", path, err)
				}
			}
		})
	}
	for range 40 {
		time.Sleep(100 * time.Millisecond)
		for _, node := range nodes {
			mustRun(t, node, endShardWriters)
		}
	}
	close(stop)
	visitors.Wait()
	stored := make(map[string]int)
	for _, path := range texts(t, d, fmt.Sprintf(`select path from events where site_id = '%s' and path <> '/'`, b.site.ID)) {
		stored[path]++
	}
	told, lost := 0, 0
	acknowledged.Range(func(path, _ any) bool {
		told++
		if stored[path.(string)] == 0 {
			lost++
		}
		return true
	})
	not, unknown := 0, 0
	refused.Range(func(path, _ any) bool {
		not++
		if stored[path.(string)] > 0 {
			unknown++
		}
		return true
	})
	doubled := 0
	for _, n := range stored {
		if n > 1 {
			doubled++
		}
	}
	t.Logf("%d hits acknowledged, %d refused (%d of them stored), %d lost, %d doubled", told, not, unknown, lost, doubled)
	if lost+doubled > 0 || told == 0 || not == 0 {
		t.Errorf("%d acknowledged hits are lost and %d doubled, of %d, with %d refused", lost, doubled, told, not)
	}
}

// A worker that waits for a standby has committed already: ended there, it gives no answer.
func TestAHitWhoseShardCommitsWithoutAnAnswerIsCountedOnce(t *testing.T) {
	d, clusterURL := onCluster(t)
	b := newBenchOn(t, d, "UTC", reportedNow)
	b.collect(b.ingester, nil)
	nodes := workers(t, clusterURL)
	for range 5 {
		for _, node := range nodes {
			mustRun(t, node, `alter system set synchronous_standby_names = 'nobody'`, `select pg_reload_conf()`)
		}
		time.Sleep(200 * time.Millisecond)
		answer := make(chan error, 1)
		before := b.int(`select count(*) from events where site_id = $1`, b.site.ID)
		go func() { answer <- b.ingester.Collect(t.Context(), b.site, aHit(nil)) }()
		time.Sleep(300 * time.Millisecond) // the COMMIT waits
		ended := 0
		for _, node := range nodes {
			var n int
			err := node.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep' and usename = 'waypost_app'`).Scan(&n)
			if err != nil {
				t.Error(err)
			}
			ended += n
			mustRun(t, node, `alter system reset synchronous_standby_names`, `select pg_reload_conf()`)
		}
		err := <-answer
		if ended == 0 {
			t.Error("no COMMIT waited: nothing is shown")
		}
		if n := b.int(`select count(*) from events where site_id = $1`, b.site.ID) - before; n != 1 || err != nil {
			t.Errorf("a hit is stored %d times and answered with %v", n, err)
		}
	}
}
