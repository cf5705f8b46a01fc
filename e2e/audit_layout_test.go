package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/auditproof"
)

// workedExample is the entry that docs/audit.md prints, and the lines of shell that
// compute its hash.
func workedExample(t *testing.T) (auditproof.Entry, string) {
	t.Helper()
	var e auditproof.Entry
	if err := json.Unmarshal([]byte(blocks(t, "audit.md", "json")[0]), &e); err != nil {
		t.Fatal(err)
	}
	all := blocks(t, "audit.md", "sh")
	i := slices.IndexFunc(all, func(block string) bool { return strings.Contains(block, "lp audit.v1") })
	if i < 0 {
		t.Fatal("docs/audit.md has no example of a hash in shell")
	}
	return e, all[i]
}

// The layout is for ever: a change of these values is a change of the promise.
func TestTheHashOfTheWorkedExampleStaysTheSame(t *testing.T) {
	t.Parallel()
	e, _ := workedExample(t)
	got, err := e.ComputeHash()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "ca955544c3f8b055e9002e1de036b0112a4124c4b97ed51eadb7ac09daab5675"
	if got != golden || e.Hash != golden {
		t.Errorf("computed %s, printed %s, want %s", got, e.Hash, golden)
	}
	line, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := auditproof.Check(strings.NewReader(string(line)), nil, ""); err != nil || r.Bad != nil {
		t.Errorf("the example is refused: %+v, %v", r.Bad, err)
	}
}

func TestAReaderComputesTheHashOfTheWorkedExampleWithAShell(t *testing.T) {
	t.Parallel()
	e, script := workedExample(t)
	shells := []string{"sh"}
	for _, other := range []string{"bash", "dash"} {
		if _, err := exec.LookPath(other); err == nil {
			shells = append(shells, other)
		}
	}
	for _, shell := range shells {
		out, err := exec.CommandContext(t.Context(), shell, "-euc", script+"\necho \"$digest\"\necho \"$prev\"\n").Output()
		if err != nil {
			t.Fatalf("%s: %v", shell, err)
		}
		if diff := cmp.Diff([]string{e.Hash, e.ChangesDigest, e.PrevHash}, strings.Fields(string(out))); diff != "" {
			t.Errorf("%s: %s", shell, diff)
		}
	}
}

// The program that the database runs and the verifier that was written from the
// document agree, also about nulls, emptied entries and batches.
func TestTheChainOfTheDatabaseIsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	conn := connect(t, dbtest.NewURL(t).Owner)
	change := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	change(`set waypost.actor_type = 'cli'; set waypost.action = 'cli:psql'`)
	change(`insert into users (first_name, last_name, email, email_key, password_hash, role, created_at, updated_at)
		select 'Zoë', 'Lovelace', 'zoe' || i || '@example.com', 'zoe' || i || '@example.com', 'planted secret', 'USER', now(), now() from generate_series(1, 600) i`)
	change(`set waypost.actor_id = 'zoë'; set waypost.request_id = 'r 1'; set waypost.session_id = 's'; set waypost.ip = '::1'`)
	change(`insert into posts (author_id, title, body, created_at, updated_at) values (1, 'T', repeat('ä', 5000), now(), now())`)
	change(`update users set first_name = 'Zoe', password_hash = 'another planted secret' where id <= 3`)
	change(`insert into webhook_events (id, provider, event_type, external_id, created_at, raw, raw_sha256, headers, lease_id, lease_until)
		select gen_random_uuid(), 'payment', 'paid.ü', 'e' || i, now(), convert_to('body ' || i, 'UTF8'), sha256(convert_to('body ' || i, 'UTF8')), '{}', gen_random_uuid(), now() from generate_series(1, 5) i`)
	change(`update webhook_events set status = case when external_id = 'e1' then 'failed' else 'processed' end, processed_at = now(), lease_id = null, lease_until = null`)
	change(`select audit_seal(100000)`)
	change(`select audit_erase('users', '2')`)
	change(`select audit_seal(100000)`)
	change(`select audit_empty(now(), 10)`)
	change(`select audit_seal(100000)`)

	export, list := exportOf(t, conn)
	r, err := auditproof.Check(strings.NewReader(export), nil, "")
	if err != nil || r.Bad != nil || r.Entries < 600 {
		t.Errorf("%d entries: %+v, %v", r.Entries, r.Bad, err)
	}
	if strings.Contains(export, "planted secret") {
		t.Error("a secret is in the log")
	}
	wantBatches(t, conn, list)
	wantTree(t, conn, list)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// exportOf is the log as NDJSON, and its entries.
func exportOf(t *testing.T, conn *pgx.Conn) (string, []auditproof.Entry) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		select json_build_object('seq', seq, 'at', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'actor_type', actor_type, 'actor_id', actor_id,
			'session_id', session_id, 'ip', ip, 'request_id', request_id, 'action', action, 'op', op, 'table', table_name, 'row_id', row_id,
			'salt', encode(salt, 'hex'), 'changes', changes, 'changes_digest', encode(changes_digest, 'hex'), 'prev_hash', encode(prev_hash, 'hex'), 'hash', encode(hash, 'hex'))::text
		from audit_log order by seq`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	list := make([]auditproof.Entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(lines, "\n"), list
}

// wantBatches holds the batches' digests against the rows: that of the arrival, and
// that of the outcomes.
func wantBatches(t *testing.T, conn *pgx.Conn, list []auditproof.Entry) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select id::text, provider, event_type, external_id, raw, status from webhook_events order by id`)
	if err != nil {
		t.Fatal(err)
	}
	var arrived, settled []auditproof.Delivery
	var ids, statuses []string
	for rows.Next() {
		var d auditproof.Delivery
		var raw []byte
		var status string
		if err := rows.Scan(&d.ID, &d.Provider, &d.EventType, &d.ExternalID, &raw, &status); err != nil {
			t.Fatal(err)
		}
		d.BodySHA256 = sha256.Sum256(raw)
		arrived = append(arrived, d)
		d.Status = &status
		settled, ids, statuses = append(settled, d), append(ids, d.ID), append(statuses, status)
	}
	type covered struct {
		Rows   int
		IDs    []string
		SHA256 string
		Status []string
	}
	want := []covered{{5, ids, auditproof.BatchDigest(arrived), nil}, {5, ids, auditproof.BatchDigest(settled), statuses}}
	var got []covered
	for _, e := range list {
		if e.Op == "batch" {
			var c struct{ New covered }
			if err := json.Unmarshal([]byte(*e.Changes), &c); err != nil {
				t.Fatal(err)
			}
			got = append(got, c.New)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// wantTree holds the nodes that sealing stores against roots over the entries.
func wantTree(t *testing.T, conn *pgx.Conn, list []auditproof.Entry) {
	t.Helper()
	var leaves [][]byte
	for _, e := range list {
		leaves = append(leaves, unhex(t, e.Hash))
	}
	rows, err := conn.Query(t.Context(), `select level, idx, encode(hash, 'hex') from audit_tree order by level, idx`)
	if err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for rows.Next() {
		var level, idx int
		var hash string
		if err := rows.Scan(&level, &idx, &hash); err != nil {
			t.Fatal(err)
		}
		nodes++
		from := idx << level
		if want := auditproof.Root(leaves[from : from+1<<level]); !slices.Equal(want, unhex(t, hash)) {
			t.Errorf("node %d of level %d is not the root of its entries", idx, level)
		}
	}
	if nodes != 3 { // of 600 entries and some: two of 256, one of 512
		t.Errorf("%d nodes are stored, want 3", nodes)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
