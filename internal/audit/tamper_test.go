package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/audit"
)

// rehash computes the hashes of all entries from $1 on anew, as an owner of the
// database can, and makes the last one the head.
const rehash = `do $$
declare
	e record;
	before bytea;
	h bytea;
begin
	select hash into before from audit_log where seq = %d - 1;
	for e in select * from audit_log where seq >= %[1]d order by seq loop
		h := sha256('\x00'::bytea || audit_lp('audit.v1'::bytea) || int8send(e.seq) || int8send((extract(epoch from e.at) * 1000000)::bigint)
			|| audit_opt(e.actor_type) || audit_opt(e.actor_id) || audit_opt(e.session_id) || audit_opt(e.ip) || audit_opt(e.request_id)
			|| audit_opt(e.action) || audit_opt(e.op) || audit_opt(e.table_name) || audit_opt(e.row_id)
			|| audit_lp(e.changes_digest) || audit_lp(before));
		update audit_log set prev_hash = before, hash = h where seq = e.seq;
		before := h;
	end loop;
	update audit_head set seq = (select max(seq) from audit_log), hash = before;
end $$`

var rehashFrom100 = strings.NewReplacer("%d", "100", "%[1]d", "100").Replace(rehash)

func TestEachKindOfTamperingIsNamedWithItsFirstBadEntry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    string
		seq    int64
		reason string
	}{
		"nothing":                        {`select 1`, 0, ""},
		"an edited actor":                {`update audit_log set actor_id = 'somebody else' where seq = 100`, 100, audit.ReasonRowHash},
		"a moved time":                   {`update audit_log set at = at + interval '1 microsecond' where seq = 100`, 100, audit.ReasonRowHash},
		"a null that became empty":       {`update audit_log set session_id = '' where seq = 100`, 100, audit.ReasonRowHash},
		"an edited hash":                 {`update audit_log set hash = sha256(hash) where seq = 100`, 100, audit.ReasonRowHash},
		"edited changes":                 {`update audit_log set changes = changes || ' ' where seq = 100`, 100, audit.ReasonDigest},
		"changes with their digest":      {`update audit_log set changes = '{}', changes_digest = sha256(salt || '{}') where seq = 100`, 100, audit.ReasonRowHash},
		"changes that are no JSON":       {`update audit_log set changes = 'x' where op <> 'batch' and seq in (100, 101)`, 100, audit.ReasonDigest},
		"emptied changes":                {`update audit_log set changes = null, salt = null where seq = 100`, 100, audit.ReasonDigest},
		"an emptied salt":                {`update audit_log set salt = null where seq = 100`, 100, audit.ReasonDigest},
		"the first entry":                {`update audit_log set prev_hash = sha256('') where seq = 1`, 1, audit.ReasonLink},
		"a deleted row":                  {`delete from audit_log where seq = 100`, 100, audit.ReasonGap},
		"the first row deleted":          {`delete from audit_log where seq = 1`, 1, audit.ReasonGap},
		"a doubled row":                  {`update audit_log set seq = -seq where seq >= 100; update audit_log set seq = 1 - seq where seq < 0; insert into audit_log select 100, at, actor_type, actor_id, session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest, prev_hash, hash from audit_log where seq = 101`, 101, audit.ReasonLink},
		"an inserted row":                {`update audit_log set seq = -seq where seq >= 100; update audit_log set seq = 1 - seq where seq < 0; insert into audit_log select 100, at, actor_type, 'x', session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest, prev_hash, hash from audit_log where seq = 101`, 100, audit.ReasonRowHash},
		"a row before the first":         {`insert into audit_log select 0, at, actor_type, actor_id, session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest, prev_hash, hash from audit_log where seq = 1`, 0, audit.ReasonGap},
		"a row behind the head":          {`insert into audit_log select 601, at, actor_type, actor_id, session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest, prev_hash, hash from audit_log where seq = 1`, 601, audit.ReasonLink},
		"two swapped rows":               {`update audit_log set seq = -100 where seq = 100; update audit_log set seq = 100 where seq = 101; update audit_log set seq = 101 where seq = -100`, 100, audit.ReasonLink},
		"a cut tail":                     {`delete from audit_log where seq > 590`, 591, audit.ReasonTruncated},
		"a cut tail with its head":       {`delete from audit_log where seq > 590; update audit_head set seq = 590, hash = (select hash from audit_log where seq = 590)`, 591, audit.ReasonTruncated},
		"a suffix with new hashes":       {`update audit_log set actor_id = 'somebody else' where seq = 100; ` + rehashFrom100, 300, audit.ReasonRoot},
		"another head":                   {`update audit_head set hash = sha256(hash)`, 600, audit.ReasonLink},
		"a forged checkpoint":            {`update audit_checkpoints set note = replace(note, E'\n300\n', E'\n301\n') where size = 300`, 300, audit.ReasonSignature},
		"a checkpoint with another root": {`update audit_checkpoints set root = sha256(root) where size = 300`, 300, audit.ReasonSignature},
		"a made up checkpoint":           {`insert into audit_checkpoints select 200, root, head_hash, at, note from audit_checkpoints where size = 300`, 200, audit.ReasonSignature},
		"another key":                    {`set waypost.actor_type = 'cli'; update audit_keys set public_key = sha256(public_key)`, 300, audit.ReasonSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.verifierKey(t)
			f.fill(t, 299)
			if got := f.sign(t).Size; got != 300 {
				t.Fatalf("the checkpoint is of %d entries", got)
			}
			f.fill(t, 300)
			f.sign(t)
			f.tamper(t, c.sql)
			if name == "a row before the first" {
				v := f.verify(t, 0, 0)
				if v.FirstBad == nil || *v.FirstBad.Seq != 0 || v.FirstBad.Reason != c.reason {
					t.Errorf("%+v", v.FirstBad)
				}
				return
			}
			v := f.verify(t, 0, 0)
			wantBad(t, v, c.seq, c.reason)
			if want := c.seq - 1; c.reason != "" && v.Checked != want {
				t.Errorf("%d entries were good, want %d", v.Checked, want)
			}
			if c.seq == 100 {
				wantBad(t, f.verify(t, 50, 150), 100, c.reason)
			}
		})
	}
}

func TestAnExportThatWasTamperedWithNamesTheSameEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.verifierKey(t)
	f.fill(t, 299)
	first := f.sign(t)
	f.fill(t, 300)
	second := f.sign(t)
	notes := first.Note + second.Note
	lines := bytes.SplitAfter(bytes.TrimSuffix(f.export(t), []byte("\n")), []byte("\n"))
	if len(lines) != 600 {
		t.Fatalf("%d lines", len(lines))
	}
	lines[599] = append(lines[599], '\n')
	line := func(lines [][]byte, seq int) string { return string(lines[seq-1]) }
	for name, c := range map[string]struct {
		lines  func(l [][]byte) [][]byte
		notes  string
		seq    int64
		reason string
	}{
		"nothing": {func(l [][]byte) [][]byte { return l }, notes, 0, ""},
		"an edited field": {func(l [][]byte) [][]byte {
			l[99] = []byte(strings.Replace(line(l, 100), `"actor_type":"system"`, `"actor_type":"user"`, 1))
			return l
		}, notes, 100, audit.ReasonRowHash},
		"a deleted line":      {func(l [][]byte) [][]byte { return append(l[:99], l[100:]...) }, notes, 100, audit.ReasonGap},
		"a doubled line":      {func(l [][]byte) [][]byte { l[100] = l[99]; return l }, notes, 100, audit.ReasonGap},
		"swapped lines":       {func(l [][]byte) [][]byte { l[99], l[100] = l[100], l[99]; return l }, notes, 100, audit.ReasonGap},
		"a cut tail":          {func(l [][]byte) [][]byte { return l[:590] }, notes, 591, audit.ReasonTruncated},
		"nothing left":        {func([][]byte) [][]byte { return nil }, notes, 1, audit.ReasonTruncated},
		"a forged checkpoint": {func(l [][]byte) [][]byte { return l }, strings.Replace(notes, "\n300\n", "\n299\n", 1), 299, audit.ReasonSignature},
		"another log's checkpoint": {func(l [][]byte) [][]byte { return l }, func() string {
			other := newFixture(t, nil)
			other.fill(t, 20)
			return other.sign(t).Note
		}(), 21, audit.ReasonSignature},
		"a checkpoint without a size": {func(l [][]byte) [][]byte { return l }, strings.Replace(notes, "\n300\n", "\nmany\n", 1), 0, audit.ReasonSignature},
		"a torn last checkpoint":      {func(l [][]byte) [][]byte { return l }, notes[:len(notes)-30], 0, ""},
		"an unfinished last line":     {func(l [][]byte) [][]byte { return l }, notes[:len(notes)-1], 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := c.lines(append([][]byte(nil), lines...))
			v, err := audit.VerifyExport(bytes.NewReader(bytes.Join(changed, nil)), strings.NewReader(c.notes), key, noWarning(t))
			if err != nil {
				t.Fatal(err)
			}
			wantBad(t, v, c.seq, c.reason)
		})
	}
}
