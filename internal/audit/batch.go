package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbsqlc"
)

// batchOf is the changes of a batch entry.
type batchOf struct {
	New, Old *struct {
		Rows   int64       `json:"rows"`
		IDs    []uuid.UUID `json:"ids"`
		SHA256 string      `json:"sha256"`
		Status []string    `json:"status"`
	}
}

// arrivals reports whether it covers events as they came in.
func (b batchOf) arrivals() bool { return b.New != nil && b.Old == nil && b.New.Status == nil }

// eventsAtOnce is how many webhook events are read for the digests of batches.
const eventsAtOnce = 10_000

// batchCheck is some batches whose digests are computed together.
type batchCheck struct {
	seqs    []int64 // beside ids
	ids     []uuid.UUID
	batches map[int64]batchOf
	order   []int64
}

// checkBatches returns the first of entries that is a batch of arrivals whose events
// are others now, unless a later entry says so of them.
func (w *walk) checkBatches(ctx context.Context, entries []dbsqlc.AuditLog) (*Bad, error) {
	var some batchCheck
	for i := range entries {
		e := &entries[i]
		if e.Op != "batch" || e.TableName == nil || *e.TableName != "webhook_events" || e.Changes == nil {
			continue
		}
		var b batchOf
		if err := json.Unmarshal([]byte(*e.Changes), &b); err != nil {
			return bad(e.Seq, ReasonBatch), nil
		}
		if !b.arrivals() {
			continue
		}
		if some.batches == nil {
			some.batches = make(map[int64]batchOf)
		}
		some.batches[e.Seq], some.order = b, append(some.order, e.Seq)
		for _, id := range b.New.IDs {
			some.seqs, some.ids = append(some.seqs, e.Seq), append(some.ids, id)
		}
		if len(some.ids) < eventsAtOnce {
			continue
		}
		if b, err := w.checkSome(ctx, some); err != nil || b != nil {
			return b, err
		}
		some = batchCheck{}
	}
	return w.checkSome(ctx, some)
}

func (w *walk) checkSome(ctx context.Context, some batchCheck) (*Bad, error) {
	if len(some.order) == 0 {
		return nil, nil
	}
	rows, err := w.queries.ListBatchDigests(ctx, w.tx, some.seqs, some.ids)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]dbsqlc.ListBatchDigestsRow, len(rows))
	for _, row := range rows {
		found[row.Seq] = row
	}
	for _, seq := range some.order {
		b, now := some.batches[seq].New, found[seq]
		same := now.Found == b.Rows && hex.EncodeToString(now.Digest) == b.SHA256
		if same && now.Emptied == 0 {
			continue
		}
		explained, err := w.explained(ctx, b.IDs, same)
		if err != nil {
			return nil, err
		}
		if !explained {
			return bad(seq, ReasonBatch), nil
		}
	}
	return nil, nil
}

// change is what later entries say became of an event.
type change uint8

const (
	gone    change = iota + 1 // it was deleted, or its body was emptied
	altered                   // it is another now
)

// explained reports whether later entries say of all those events of a batch that are
// no longer what they were that this is so. same says that the digest fits all the
// same: then only bodies were emptied.
func (w *walk) explained(ctx context.Context, ids []uuid.UUID, same bool) (bool, error) {
	changes, err := w.changesOf(ctx, ids)
	if err != nil {
		return false, err
	}
	rows, err := w.queries.ListBatchRows(ctx, w.tx, ids)
	if err != nil {
		return false, err
	}
	there := make(map[uuid.UUID]dbsqlc.ListBatchRowsRow, len(rows))
	for _, row := range rows {
		there[row.ID] = row
	}
	excepted := false // one of them, so that the digest says nothing
	for _, id := range ids {
		row, found := there[id]
		switch changed := changes[id]; {
		case changed == altered || !found && changed == gone || found && !row.Emptied && changed == gone:
			excepted = true
		case !found || row.Emptied && changed != gone || !row.Intact:
			return false, nil
		}
	}
	return same || excepted, nil
}

// changesOf reads what later entries say of events.
func (w *walk) changesOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]change, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	var all []string
	rows, err := w.queries.ListBatchesOfGone(ctx, w.tx, names)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if intact(&rows[i]) {
			all = append(all, *rows[i].Changes)
		}
	}
	pending, err := w.queries.ListPendingBatchesOfGone(ctx, w.tx, names)
	if err != nil {
		return nil, err
	}
	for _, r := range pending {
		if digestFits(r.Salt, &r.Changes, r.ChangesDigest) {
			all = append(all, r.Changes)
		}
	}
	changes := make(map[uuid.UUID]change)
	for _, text := range all {
		var b batchOf
		if err := json.Unmarshal([]byte(text), &b); err != nil || b.Old == nil {
			continue
		}
		for _, id := range b.Old.IDs {
			if b.New != nil {
				changes[id] = altered
			} else {
				changes[id] = max(changes[id], gone)
			}
		}
	}
	return changes, nil
}
