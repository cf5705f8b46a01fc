package e2e_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/auditproof"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
)

const (
	proofEntries  = 10_000 // and those that are on the way when it has so many
	proofMutators = 8
	// proofEmptied and proofNoted are where the log is when its beginning is marked
	// for emptying, and when that is emptied.
	proofEmptied, proofNoted = 1500, 5000
)

// provenLog is a log of thousands of mixed mutations, with what was taken out of it.
type provenLog struct {
	service *audit.Service
	owner   *pgx.Conn
	key     string
	notes   []string // signed checkpoints, by size
	export  []byte
	entries []auditproof.Entry // of the export
	written map[int64]string   // what is in the database now, by seq
}

// provingClock is ahead of the database's by a minute more each time it is asked,
// so that a checkpoint is due whenever anything is new.
type provingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *provingClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Minute)
	return c.now
}

// newProvenLog writes the log: many change rows at once, two services seal and sign.
func newProvenLog(t *testing.T) *provenLog {
	t.Helper()
	here, urls := dbtest.NewWithURL(t)
	there, err := db.Open(t.Context(), db.Options{URL: urls.App, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(there.Close)
	clock := &provingClock{now: time.Now()}
	l := &provenLog{owner: connect(t, urls.Owner)}
	other := newAudit(t, audit.Options{DB: there, Now: clock.read})
	l.service = newAudit(t, audit.Options{DB: here, Now: clock.read})
	key, err := l.service.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.key = key.VerifierKey

	stop := sealAll(t, l.service, other)
	var mutators []*mutator
	for i := range proofMutators {
		mutators = append(mutators, newMutator(t, []*db.DB{here, there}[i%2], i))
	}
	erased := mutators[0].user
	mutate(t, mutators, proofEmptied)
	mark := time.Now()
	mutate(t, mutators, proofNoted-proofEmptied)
	l.forget(t, here, mark, erased)
	for _, m := range mutators {
		m.keepsBodies = true // so that what is tampered with explains nothing
	}
	mutate(t, mutators, proofEntries-proofNoted)
	stop()

	want := 3 // the key and two notes about emptied entries
	for _, m := range mutators {
		want += m.entries
	}
	l.take(t, want)
	return l
}

func newAudit(t *testing.T, o audit.Options) *audit.Service {
	t.Helper()
	o.SecretKey = []byte("a secret key for tests, longer than 32 bytes")
	s, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mutate has all mutators make some entries together.
func mutate(t *testing.T, mutators []*mutator, entries int) {
	t.Helper()
	var all sync.WaitGroup
	for _, m := range mutators {
		all.Go(func() {
			if err := m.run(t.Context(), entries/len(mutators)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// sealAll seals by all services at once until it is stopped, and has them sign the
// log now and then.
func sealAll(t *testing.T, services ...*audit.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for turn := i; ctx.Err() == nil; turn++ {
				if _, err := s.Seal(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if turn%20 == 19 {
					if _, err := s.SignCheckpoint(ctx, false); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
				select {
				case <-ctx.Done():
				case <-pace.C:
				}
			}
		})
	}
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}

// forget empties all entries that are older than mark, and those about a user.
func (l *provenLog) forget(t *testing.T, d *db.DB, mark time.Time, user int64) {
	t.Helper()
	if n, err := l.service.Erase(identity.NewContext(t.Context(), identity.Command("ada", "erase")), "users", fmt.Sprint(user)); err != nil || n == 0 {
		t.Fatalf("%d entries are erased: %v", n, err)
	}
	const year = 365 * 24 * time.Hour
	retention := newAudit(t, audit.Options{DB: d, Retention: year, Now: func() time.Time { return mark.Add(year) }})
	if n, err := retention.Empty(t.Context()); err != nil || n < proofEmptied/2 {
		t.Fatalf("%d entries are emptied: %v", n, err)
	}
}

// take seals, signs and exports all, which must be that many entries.
func (l *provenLog) take(t *testing.T, want int) {
	t.Helper()
	ctx := t.Context()
	if _, err := l.service.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.service.SignCheckpoint(ctx, true); err != nil {
		t.Fatal(err)
	}
	checkpoints, err := l.service.Checkpoints(ctx, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Backward(checkpoints) {
		l.notes = append(l.notes, c.Note)
	}
	var out bytes.Buffer
	n, err := l.service.Export(identity.NewContext(ctx, identity.Command("ada", "export")), 0, &out)
	if err != nil || n != int64(want) {
		t.Fatalf("%d entries are exported (%v), want %d", n, err, want)
	}
	l.export, l.written = out.Bytes(), map[int64]string{}
	for line := range bytes.Lines(l.export) {
		var e auditproof.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		l.entries = append(l.entries, e)
		l.written[e.Seq] = lineOf(t, e)
	}
	// The note about the export has no part in what follows.
	if _, err := l.owner.Exec(ctx, `delete from audit_pending`); err != nil {
		t.Fatal(err)
	}
}

func lineOf(t *testing.T, e auditproof.Entry) string {
	t.Helper()
	line, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// put makes the database's log and checkpoints what somebody with the owner's rights
// wants them to be.
func (l *provenLog) put(t *testing.T, entries []auditproof.Entry, notes []string) {
	t.Helper()
	now := make(map[int64]string, len(entries))
	var changed []string
	var gone []int64
	for _, e := range entries {
		line := lineOf(t, e)
		if now[e.Seq] = line; l.written[e.Seq] != line {
			changed = append(changed, line)
			gone = append(gone, e.Seq)
		}
	}
	for seq := range l.written {
		if _, still := now[seq]; !still {
			gone = append(gone, seq)
		}
	}
	l.written = now
	err := pgx.BeginFunc(t.Context(), l.owner, func(tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue(`delete from audit_log where seq = any ($1)`, gone)
		b.Queue(`insert into audit_log select seq, at, actor_type, actor_id, session_id, ip, request_id, action, op, "table", row_id,
				decode(salt, 'hex'), changes, decode(changes_digest, 'hex'), decode(prev_hash, 'hex'), decode(hash, 'hex')
			from json_to_recordset($1::text::json) as x (seq bigint, at timestamptz, actor_type text, actor_id text, session_id text, ip text, request_id text, action text,
				op text, "table" text, row_id text, salt text, changes text, changes_digest text, prev_hash text, hash text)`, "["+strings.Join(changed, ",")+"]")
		b.Queue(`update audit_head set (seq, hash) = (select l.seq, l.hash from audit_log l order by l.seq desc limit 1)`)
		b.Queue(`delete from audit_checkpoints`)
		for _, n := range notes {
			line := strings.Split(n, "\n")
			b.Queue(`insert into audit_checkpoints (size, root, head_hash, at, note) values ($1::text::bigint, decode($2, 'base64'), decode($3, 'hex'), $4::text::timestamptz, $5)`, line[1], line[2], line[3], line[4], n)
		}
		return tx.SendBatch(t.Context(), &b).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// verified is what a verifier finds first, in one form for all of them.
func verified(t *testing.T, v audit.Verdict, err error) *auditproof.Finding {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if v.FirstBad == nil {
		return nil
	}
	found := auditproof.Finding{Reason: v.FirstBad.Reason}
	if v.FirstBad.Seq != nil {
		found.Seq = *v.FirstBad.Seq
	}
	return &found
}

// wantExport fails unless both verifiers of exports find that, or nothing for nil.
func (l *provenLog) wantExport(t *testing.T, export []byte, notes []string, want *auditproof.Finding) {
	t.Helper()
	kept := strings.Join(notes, "\n")
	r, err := auditproof.Check(bytes.NewReader(export), strings.NewReader(kept), l.key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.Bad); diff != "" {
		t.Errorf("the independent verifier: %s", diff)
	}
	v, err := audit.VerifyExport(bytes.NewReader(export), strings.NewReader(kept), l.key, func(string) {})
	if diff := cmp.Diff(want, verified(t, v, err)); diff != "" {
		t.Errorf("waypost audit verify --export: %s", diff)
	}
}

func TestATamperedLogOfThousandsOfMutationsNamesItsFirstBadEntry(t *testing.T) {
	t.Parallel()
	l := newProvenLog(t)
	t.Logf("%d entries, %d checkpoints", len(l.entries), len(l.notes))
	if len(l.notes) < 4 {
		t.Fatalf("%d checkpoints were signed", len(l.notes))
	}
	if bytes.Contains(l.export, []byte("planted secret")) || bytes.Contains(l.export, []byte(hex.EncodeToString([]byte("planted secret")))) {
		t.Error("a secret is in the log")
	}
	l.wantKinds(t)
	l.wantExport(t, l.export, l.notes, nil)
	for _, c := range l.tamperings(t) {
		t.Run(c.name, func(t *testing.T) {
			entries, notes := c.entries, c.notes
			if entries == nil {
				entries = l.entries
			}
			if notes == nil {
				notes = l.notes
			}
			var export bytes.Buffer
			for _, e := range entries {
				export.WriteString(lineOf(t, e) + "\n")
			}
			l.wantExport(t, export.Bytes(), notes, c.want)
			if c.onlyLines {
				return
			}
			l.put(t, entries, notes)
			v, err := l.service.Verify(t.Context(), 0, 0, 0)
			if diff := cmp.Diff(c.want, verified(t, v, err)); diff != "" {
				t.Errorf("the database: %s", diff)
			}
			if !c.hides {
				return
			}
			l.put(t, entries, l.notes[:1])
			v, err = l.service.Verify(t.Context(), 0, 0, 0)
			if got := verified(t, v, err); got != nil {
				t.Errorf("without the later checkpoints the database says %+v", got)
			}
			v, err = l.service.VerifyAgainst(t.Context(), strings.NewReader(strings.Join(notes, "\n")), l.key, func(string) {})
			if diff := cmp.Diff(c.want, verified(t, v, err)); diff != "" {
				t.Errorf("the database against outside checkpoints: %s", diff)
			}
		})
	}
}

// wantKinds fails unless the log has entries of all kinds.
func (l *provenLog) wantKinds(t *testing.T) {
	t.Helper()
	missing := map[string]bool{}
	for _, kind := range []string{
		"op insert", "op update", "op delete", "op batch", "op note", "emptied", "arrivals", "outcomes", "a body that is gone",
		"actor user", "actor token", "actor job", "actor cli", "actor system", "actor webhook", "actor anonymous",
	} {
		missing[kind] = true
	}
	for _, e := range l.entries {
		delete(missing, "op "+e.Op)
		delete(missing, "actor "+*e.ActorType)
		switch {
		case e.Changes == nil:
			delete(missing, "emptied")
		case e.Op != "batch":
		case strings.HasPrefix(*e.Changes, `{"old"`):
			delete(missing, "a body that is gone")
		case strings.Contains(*e.Changes, `"status"`):
			delete(missing, "outcomes")
		default:
			delete(missing, "arrivals")
		}
	}
	if len(missing) > 0 {
		t.Errorf("the log has none of %v", missing)
	}
}
