package audit

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/waypost/waypost/db/dbsqlc"
)

// emptying is a note about entries that were emptied.
type emptying struct {
	What  string  `json:"what"` // emptied, or erased
	ToSeq int64   `json:"to_seq"`
	Seqs  []int64 `json:"seqs"`
}

// emptyingOf returns what a note says of emptied entries, or the zero value.
func emptyingOf(op string, table, changes *string) emptying {
	if op != "note" || table == nil || *table != "audit_log" || changes == nil {
		return emptying{}
	}
	var c struct {
		Note emptying `json:"note"`
	}
	if err := json.Unmarshal([]byte(*changes), &c); err != nil {
		return emptying{}
	}
	return c.Note
}

// intact reports whether an entry that is read out of turn is what it was when it was
// written.
func intact(e *dbsqlc.AuditLog) bool {
	h := hashOf(e, nil)
	return string(h[:]) == string(e.Hash) && digestFits(e.Salt, e.Changes, e.ChangesDigest)
}

// pendingNotes are those that have no place in the chain yet.
func (w *walk) pendingNotes(ctx context.Context) ([]emptying, error) {
	rows, err := w.queries.ListPendingAuditNotes(ctx, w.tx)
	if err != nil {
		return nil, err
	}
	var list []emptying
	for _, r := range rows {
		if digestFits(r.Salt, &r.Changes, r.ChangesDigest) {
			list = append(list, emptyingOf(r.Op, r.TableName, &r.Changes))
		}
	}
	return list, nil
}

// readEmptied returns the last entry that retention has emptied, 0 for none.
func (w *walk) readEmptied(ctx context.Context) (int64, error) {
	pending, err := w.pendingNotes(ctx)
	if err != nil {
		return 0, err
	}
	var to int64
	for _, n := range pending {
		if n.What == "emptied" {
			to = max(to, n.ToSeq)
		}
	}
	rows, err := w.queries.ListEmptiedNotes(ctx, w.tx)
	for i := range rows {
		if n := emptyingOf(rows[i].Op, rows[i].TableName, rows[i].Changes); n.What == "emptied" && intact(&rows[i]) {
			to = max(to, n.ToSeq)
		}
	}
	return to, err
}

// checkEmptied returns the first of entries that was emptied though no note says so.
func (w *walk) checkEmptied(ctx context.Context, entries []dbsqlc.AuditLog) (*Bad, error) {
	var seqs []int64
	for i := range entries {
		if e := &entries[i]; emptied(e) && e.Seq > w.emptiedTo {
			seqs = append(seqs, e.Seq)
		}
	}
	if len(seqs) == 0 {
		return nil, nil
	}
	pending, err := w.pendingNotes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range pending {
		seqs = without(seqs, n.Seqs)
	}
	for after := seqs; len(after) > 0 && len(seqs) > 0; {
		rows, err := w.queries.ListErasedNotes(ctx, w.tx, after[0])
		if err != nil {
			return nil, err
		}
		after = nil
		for i := range rows {
			if n := emptyingOf(rows[i].Op, rows[i].TableName, rows[i].Changes); n.What == "erased" && intact(&rows[i]) {
				seqs = without(seqs, n.Seqs)
			}
			after = []int64{rows[i].Seq}
		}
	}
	if len(seqs) == 0 {
		return nil, nil
	}
	return bad(seqs[0], ReasonDigest), nil
}

// without is list without what is in gone, which is in ascending order.
func without(list, gone []int64) []int64 {
	return slices.DeleteFunc(list, func(n int64) bool {
		_, found := slices.BinarySearch(gone, n)
		return found
	})
}
