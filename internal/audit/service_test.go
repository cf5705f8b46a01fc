package audit_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

func TestConcurrentSealingLeavesNoGapAndNoFork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var writers, sealers sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		writers.Go(func() {
			for n := range 50 {
				err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
					if err := audit.Note(ctx, tx, "", "", map[string]int{"writer": i, "n": n}); err != nil {
						return err
					}
					if n%5 == 0 { // others begin later and commit before
						if _, err := tx.Exec(ctx, `select pg_sleep(0.005)`); err != nil {
							return err
						}
					}
					if n%7 == 0 {
						return errors.New("not this one")
					}
					return nil
				})
				if (err == nil) != (n%7 != 0) {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		s := f.another(t, nil)
		sealers.Go(func() {
			for {
				if _, err := s.Seal(t.Context()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	sealers.Wait()
	v := f.verify(t, 0, 0)
	wantBad(t, v, 0, "")
	if want := int64(4 * 42); v.Head.Seq != want || v.Checked != want || v.Unsealed != 0 {
		t.Errorf("%+v, want %d entries", v, want)
	}
}

func TestSealingInARepeatableReadTransactionIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tx, err := f.db.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `select audit_seal(10)`); err == nil || !strings.Contains(err.Error(), "READ COMMITTED") {
		t.Error(err)
	}
}

func TestProofsConvinceOthersCheckers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.fill(t, 700)
	decode := func(list ...string) []tlog.Hash {
		var hashes []tlog.Hash
		for _, s := range list {
			raw, err := hex.DecodeString(s)
			if err != nil || len(raw) != tlog.HashSize {
				t.Fatal(s, err)
			}
			hashes = append(hashes, tlog.Hash(raw))
		}
		return hashes
	}
	roots := make(map[int64]tlog.Hash)
	for _, size := range []int64{1, 2, 3, 255, 256, 257, 511, 512, 513, 700} {
		for _, seq := range []int64{1, 2, 200, 256, 257, 512, 513, 700} {
			p, err := f.Proof(t.Context(), seq, size)
			if seq > size {
				if fault.KindOf(err) != fault.Invalid {
					t.Errorf("entry %d in %d: %v", seq, size, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			roots[size] = decode(p.Root)[0]
			if err := tlog.CheckRecord(decode(p.Hashes...), size, roots[size], seq-1, decode(p.Leaf)[0]); err != nil {
				t.Errorf("entry %d in %d: %v", seq, size, err)
			}
		}
	}
	for size, root := range roots {
		for old, oldRoot := range roots {
			c, err := f.Consistency(t.Context(), old, size)
			if old > size {
				if fault.KindOf(err) != fault.Invalid {
					t.Errorf("%d in %d: %v", old, size, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(decode(c.Hashes...), size, root, old, oldRoot); err != nil {
				t.Errorf("%d in %d: %v", old, size, err)
			}
		}
	}
	for _, size := range []int64{-1, 0, 701} { // 0 is the newest checkpoint's, and there is none
		if _, err := f.Proof(t.Context(), 1, size); fault.KindOf(err) != fault.Invalid {
			t.Errorf("size %d: %v", size, err)
		}
	}
	f.sign(t)
	if p, err := f.Proof(t.Context(), 1, 0); err != nil || p.Size != 701 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := f.Proof(t.Context(), 702, 0); !errors.Is(err, audit.ErrEntry) {
		t.Error(err)
	}
}

func TestAPartIsVerifiedFromTheStoredHashesBeforeIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.fill(t, 600)
	f.sign(t)
	for _, part := range [][2]int64{{1, 0}, {1, 1}, {2, 2}, {256, 0}, {257, 0}, {300, 0}, {300, 400}, {601, 601}} {
		v := f.verify(t, part[0], part[1])
		wantBad(t, v, 0, "")
		to := part[1]
		if to == 0 {
			to = 601
		}
		if want := to - part[0] + 1; v.Checked != want || v.Head.Seq != 601 {
			t.Errorf("%v: %+v", part, v)
		}
	}
	for _, part := range [][3]int64{{602, 0, 0}, {1, 602, 0}, {-1, 0, 0}, {5, 4, 0}, {1, 0, 600}, {1, 101, 100}} {
		if _, err := f.Verify(t.Context(), part[0], part[1], part[2]); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v: %v", part, err)
		}
	}
	if _, err := f.Verify(t.Context(), 2, 101, 100); err != nil {
		t.Error(err)
	}
	// The tree before the part is that of the signed root, or the root is another.
	f.tamper(t, `update audit_tree set hash = sha256(hash)`)
	wantBad(t, f.verify(t, 300, 0), 601, audit.ReasonRoot)
	wantBad(t, f.verify(t, 0, 0), 0, "")
}

func TestAnEmptyLogIsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	v := f.verify(t, 0, 0)
	wantBad(t, v, 0, "")
	if v.Head.Seq != 0 || len(v.Head.Hash) != 64 || v.Checked != 0 || v.Checkpoint != nil {
		t.Errorf("%+v", v)
	}
}

func TestEmptyingKeepsTheChainAndOnlyANoteExcusesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *audit.Options) { o.Retention = 24 * time.Hour })
	site := f.addSite(t)
	f.do(t, `update sites set name = 'Anna' where id = $1`, site)
	f.fill(t, 50)
	f.sign(t)
	if n, err := f.Erase(t.Context(), "sites", site.String()); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := f.Erase(t.Context(), "sites", site.String()); !errors.Is(err, audit.ErrNothing) {
		t.Errorf("once more: %v", err)
	}
	wantBad(t, f.verify(t, 0, 0), 0, "")
	list, err := f.List(t.Context(), audit.Filter{Table: "sites", RowID: site.String()}, 0, 10, nil)
	if err != nil || len(list) != 2 || list[0].Changes != nil || list[0].Salt != nil || len(list[0].ChangesDigest) != 64 {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err := f.Empty(t.Context()); n != 0 || err != nil {
		t.Errorf("nothing is old: %d, %v", n, err)
	}
	head := f.verify(t, 0, 0).Head.Seq
	f.clock.wait(48 * time.Hour)
	if n, err := f.Empty(t.Context()); n != int(head) || err != nil {
		t.Errorf("%d were emptied, %v", n, err)
	}
	wantBad(t, f.verify(t, 0, 0), 0, "") // verify seals the note
	wantBad(t, f.verify(t, 3, 5), 0, "")
	v, err := audit.VerifyExport(strings.NewReader(string(f.export(t))), nil, "", noWarning(t))
	if err != nil {
		t.Fatal(err)
	}
	wantBad(t, v, 0, "")
	f.fill(t, 10)
	f.tamper(t, `update audit_log set salt = null, changes = null where seq = $1`, head+5)
	wantBad(t, f.verify(t, 0, 0), head+5, audit.ReasonDigest)
	if v, err = audit.VerifyExport(strings.NewReader(string(f.export(t))), nil, "", noWarning(t)); err != nil {
		t.Fatal(err)
	}
	wantBad(t, v, head+5, audit.ReasonDigest)
}

func TestAnEmptyingWhoseNoteIsNotSealedYetIsExcused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	site := f.addSite(t)
	f.seal(t)
	if _, err := f.Erase(t.Context(), "sites", site.String()); err != nil {
		t.Fatal(err)
	}
	f.tamper(t, `create or replace function audit_seal(most_rows integer) returns integer language sql security definer as 'select 0'`)
	wantBad(t, f.verify(t, 0, 0), 0, audit.ReasonUnsealed)
}

func TestABatchIsBrokenByEveryChangeThatNoEntryNames(t *testing.T) {
	t.Parallel()
	const unseen = `alter table webhook_events disable trigger user; `
	for name, c := range map[string]struct {
		sql string
		bad bool
	}{
		"nothing":                  {`select $1::uuid`, false},
		"an outcome":               {`update webhook_events set status = 'failed', retry_count = 2 where id = $1`, false},
		"retention":                {`update webhook_events set raw = null where id = $1`, false},
		"a deletion":               {`delete from webhook_events where id = $1`, false},
		"another type":             {`update webhook_events set event_type = 'refunded' where id = $1`, false},
		"another body, unseen":     {`update webhook_events set raw = 'x' where id = $1`, true},
		"an emptied body, unseen":  {`update webhook_events set raw = null where id = $1`, true},
		"a deletion, unseen":       {`delete from webhook_events where id = $1`, true},
		"another provider, unseen": {`update webhook_events set provider = 'codehost' where id = $1`, true},
		"another id, unseen":       {`update webhook_events set external_id = 'x' where id = $1`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.fill(t, 10)
			ids := f.receive(t, 5)
			f.receive(t, 5)
			f.tamper(t, `set waypost.actor_type = 'cli'`)
			if strings.HasSuffix(name, "unseen") {
				f.tamper(t, unseen)
			}
			f.tamper(t, c.sql, ids[2])
			v := f.verify(t, 0, 0)
			if c.bad {
				wantBad(t, v, 11, audit.ReasonBatch)
				return
			}
			wantBad(t, v, 0, "")
			// What one entry excuses excuses no other event.
			f.tamper(t, unseen)
			f.tamper(t, `update webhook_events set raw = 'x' where id = $1`, ids[3])
			wantBad(t, f.verify(t, 0, 0), 11, audit.ReasonBatch)
		})
	}
}

func TestTheListIsNarrowedByEveryFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	site := f.addSite(t)
	f.fill(t, 30)
	var total int64
	all, err := f.List(t.Context(), audit.Filter{}, 0, 100, &total)
	if err != nil || len(all) != 31 || total != 31 || all[0].Seq != 31 {
		t.Fatalf("%d, %d, %v", len(all), total, err)
	}
	page, err := f.List(t.Context(), audit.Filter{}, 10, 3, &total)
	if err != nil || len(page) != 3 || page[0].Seq != 9 || total != 31 {
		t.Errorf("%+v, %d, %v", page, total, err)
	}
	first := all[30]
	for name, c := range map[string]struct {
		filter audit.Filter
		want   int64
	}{
		"type":        {audit.Filter{ActorType: "system"}, 31},
		"other type":  {audit.Filter{ActorType: "user"}, 0},
		"actor":       {audit.Filter{ActorID: "test"}, 31},
		"other actor": {audit.Filter{ActorID: "x"}, 0},
		"action":      {audit.Filter{Action: "x"}, 0},
		"table":       {audit.Filter{Table: "posts"}, 0},
		"row":         {audit.Filter{Table: "sites", RowID: site.String()}, 1},
		"request":     {audit.Filter{RequestID: "x"}, 0},
		"to":          {audit.Filter{To: first.At}, 0},
		"from":        {audit.Filter{From: first.At}, 31},
		"one":         {audit.Filter{From: first.At, To: first.At.Add(time.Microsecond)}, 1},
	} {
		list, err := f.List(t.Context(), c.filter, 0, 100, &total)
		if err != nil || total != c.want || int64(len(list)) != c.want {
			t.Errorf("%s: %d of %d, want %d, %v", name, len(list), total, c.want, err)
		}
	}
	one, err := f.Get(t.Context(), 1)
	if diff := cmp.Diff(first, one); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := f.Get(t.Context(), 32); !errors.Is(err, audit.ErrEntry) {
		t.Error(err)
	}
}

func TestAnEntrysJSONHasItsFieldsInOrderAndGivesItsHash(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addSite(t)
	f.note(t, map[string]string{"text": "<&>é"})
	f.seal(t)
	for seq := range int64(2) {
		e, err := f.Get(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := e.ComputeHash()
		if err != nil || hex.EncodeToString(h[:]) != e.Hash {
			t.Errorf("%x, %v", h, err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for d := json.NewDecoder(strings.NewReader(string(text))); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			if s, ok := token.(string); ok && len(names) < 99 {
				names = append(names, s)
			}
		}
		if want := []string{"seq", "at", e.At.Format("2006-01-02T15:04:05.000000Z"), "actor_type", "system", "actor_id"}; !cmp.Equal(names[:6], want) {
			t.Errorf("%v", names)
		}
		var back audit.Entry
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnExportLeavesItsNoteBehindIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.fill(t, 30)
	var out strings.Builder
	n, err := f.Export(t.Context(), 11, &out)
	if err != nil || n != 20 || strings.Count(out.String(), "\n") != 20 {
		t.Fatalf("%d, %v", n, err)
	}
	f.seal(t)
	last, err := f.Get(t.Context(), 31)
	if err != nil || last.Op != "note" || last.Changes == nil || *last.Changes != `{"note": {"what": "export", "to_seq": 30, "from_seq": 11}}` {
		t.Errorf("%+v, %v", last, err)
	}
	var warned []string
	v, err := audit.VerifyExport(strings.NewReader(out.String()), nil, "", func(s string) { warned = append(warned, s) })
	if err != nil || len(warned) == 0 {
		t.Fatal(warned, err)
	}
	wantBad(t, v, 0, "")
	for _, text := range []string{"{", `{"seq":1,"seq":2}`, `{"extra":1}`, `{"hash":"xyz"}`, "\n"} {
		if _, err := audit.VerifyExport(strings.NewReader(text), nil, "", noWarning(t)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := audit.VerifyExport(strings.NewReader(""), strings.NewReader(""), "", noWarning(t)); err == nil {
		t.Error("checkpoints are taken without a key")
	}
}

func TestRecentVerificationSeesWhatChangedBehindItsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    string
		seq    int64
		reason string
	}{
		"nothing":              {`select 1`, 0, ""},
		"a new entry edited":   {`update audit_log set actor_id = 'x' where seq = 120`, 120, audit.ReasonRowHash},
		"a cut tail":           {`delete from audit_log where seq > 80; update audit_head set seq = 80, hash = (select hash from audit_log where seq = 80)`, 81, audit.ReasonTruncated},
		"all hashes new":       {`update audit_log set actor_id = 'x' where seq = 100; ` + rehashFrom100, 100, audit.ReasonLink},
		"the last one deleted": {`delete from audit_log where seq = 100`, 100, audit.ReasonGap},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var alarms []string
			fail := true
			f := newFixture(t, func(o *audit.Options) {
				o.Alarm = func(_ context.Context, kind string, b audit.Bad) error {
					if fail {
						fail = false
						return errors.New("not now")
					}
					alarms = append(alarms, fmt.Sprint(kind, " ", *b.Seq, " ", b.Reason))
					return nil
				}
			})
			f.fill(t, 100)
			if n, err := f.VerifyRecent(t.Context()); n != 100 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if n, err := f.VerifyRecent(t.Context()); n != 0 || err != nil {
				t.Fatalf("once more: %d, %v", n, err)
			}
			f.fill(t, 50)
			f.tamper(t, c.sql)
			if _, err := f.VerifyRecent(t.Context()); (err != nil) != (c.reason != "") {
				t.Errorf("while nobody can be told: %v", err)
			}
			for range 2 {
				if _, err := f.VerifyRecent(t.Context()); err != nil {
					t.Error(err)
				}
			}
			var want []string
			last, err := audit.Verifications(t.Context(), f.db)
			if err != nil || len(last) != 1 {
				t.Fatal(last, err)
			}
			if c.reason != "" {
				want = []string{fmt.Sprint("recent ", c.seq, " ", c.reason)}
			}
			wantBad(t, audit.Verdict{OK: last[0].FirstBad == nil, FirstBad: last[0].FirstBad}, c.seq, c.reason)
			if diff := cmp.Diff(want, alarms); diff != "" {
				t.Error(diff)
			}
			if _, err := f.VerifyWhole(t.Context()); err != nil && c.reason == "" {
				t.Error(err)
			}
		})
	}
}

func TestTheApplicationCantWriteTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.fill(t, 5)
	for _, sql := range []string{
		`insert into audit_pending (actor_type, op, salt, changes, changes_digest) values ('cli', 'note', '', '', '')`,
		`update audit_log set actor_id = 'x'`, `delete from audit_log`, `truncate audit_log`, `update audit_head set seq = 0`,
		`update audit_checkpoints set note = ''`, `delete from audit_checkpoints`, `select audit_write('note', null, null, '{}')`,
		`select audit_note('audit_log', null, '{"what":"emptied","from_seq":1,"to_seq":9}')`, `select seq from audit_head for update`,
	} {
		if _, err := f.db.Pool().Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: it may", sql)
		}
	}
	err := f.db.InTx(t.Context(), identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "audit_log", "", map[string]any{"what": "emptied", "from_seq": 1, "to_seq": 9})
	})
	if err == nil {
		t.Error("a note about the log itself is taken")
	}
}
