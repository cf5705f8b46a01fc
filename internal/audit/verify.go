package audit

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// readAtOnce is how many entries a verification holds in memory.
const readAtOnce = 512

// lookedFor is how many entries without a place a verification looks for again.
const lookedFor = 1000

// askedWait is how long a verification waits for the one before it.
const askedWait = time.Second

// span is the part of the log that is verified: from 0 is 1, to 0 the head. A span of
// more than most entries is refused, unless that is 0.
type span struct{ from, to, most int64 }

// outside is what a verification knows from elsewhere than the database.
type outside struct {
	verifier  note.Verifier // nil for the key in the database
	witnesses []witness     // by size
}

// Verify seals what is waiting, and verifies the entries from to to in one snapshot,
// with their checkpoints: 0 is the first, or the last. It returns a validation fault
// for more than most entries, unless that is 0, and for entries behind the head, and
// db.ErrBusy when another call is at work for longer than a second: each holds a
// connection for as long as it takes. A chain that is broken is no error.
func (s *Service) Verify(ctx context.Context, from, to, most int64) (Verdict, error) {
	select {
	case s.asked <- struct{}{}:
		defer func() { <-s.asked }()
	case <-time.After(askedWait):
		return Verdict{}, db.ErrBusy
	case <-ctx.Done():
		return Verdict{}, context.Cause(ctx)
	}
	return s.verify(ctx, s.o.DB, span{from, to, most}, outside{})
}

// VerifyAgainst verifies the whole log against checkpoints that were kept outside of
// it, nil for none, and a verifier key that was, "" for the one in the database. warn
// is told about a last checkpoint that is torn.
func (s *Service) VerifyAgainst(ctx context.Context, checkpoints io.Reader, key string, warn func(string)) (Verdict, error) {
	if key == "" && checkpoints != nil {
		row, err := s.findKey(ctx)
		if err != nil {
			return Verdict{}, err
		}
		k, err := s.publicKey(ctx, s.o.DB.Direct(), row)
		if err != nil {
			return Verdict{}, err
		}
		key = k.VerifierKey
	}
	known, err := outsideOf(checkpoints, key, warn)
	if err != nil {
		return Verdict{}, err
	}
	return s.verify(ctx, s.o.DB, span{}, known)
}

func outsideOf(checkpoints io.Reader, key string, warn func(string)) (outside, error) {
	var known outside
	var err error
	if key != "" {
		if known.verifier, err = note.NewVerifier(key); err != nil {
			return known, fmt.Errorf("audit: the verifier key: %w", err)
		}
	}
	if checkpoints != nil {
		known.witnesses, err = readNotes(checkpoints, known.verifier, warn)
	}
	return known, err
}

func (s *Service) verify(ctx context.Context, d *db.DB, part span, known outside) (Verdict, error) {
	seen, err := s.queries.ListPendingAudit(ctx, d.Direct(), lookedFor)
	if err != nil {
		return Verdict{}, fmt.Errorf("audit: verify: %w", db.Translate(err))
	}
	if _, err := s.Seal(ctx); err != nil {
		return Verdict{}, err
	}
	var v Verdict
	err = d.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		w, err := s.newWalk(ctx, tx, part, known)
		if err != nil {
			return err
		}
		if v, err = w.verdict(ctx); err != nil {
			return err
		}
		pending, err := s.queries.CountPendingAudit(ctx, tx, seen)
		v.Unsealed = pending.Entries
		if v.FirstBad == nil && pending.SeenBefore > 0 {
			v.FirstBad = &Bad{Reason: ReasonUnsealed}
		}
		v.OK = v.FirstBad == nil
		return err
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("audit: verify: %w", err)
	}
	return v, nil
}

// walk is a verification in a snapshot.
type walk struct {
	tx       pgx.Tx
	queries  dbsqlc.Queries
	head     dbsqlc.FindAuditHeadRow
	from, to int64
	known    outside
	verifier note.Verifier // nil when the database has no key
	chain    chain
	// emptiedTo is the last entry that retention has emptied.
	emptiedTo int64
}

func (s *Service) newWalk(ctx context.Context, tx pgx.Tx, part span, known outside) (*walk, error) {
	w := &walk{tx: tx, known: known, verifier: known.verifier, from: max(part.from, 1), to: part.to}
	var err error
	if w.head, err = s.queries.FindAuditHead(ctx, tx); err != nil {
		return nil, err
	}
	if part.to == 0 {
		w.to = w.head.Seq
	}
	switch {
	case part.from < 0 || w.from > max(w.head.Seq, 1):
		return nil, invalid("query.from_seq", fmt.Sprintf("The log has %d entries; it must be from 1 to that.", w.head.Seq))
	case part.to < 0 || w.to > w.head.Seq:
		return nil, invalid("query.to_seq", fmt.Sprintf("The log has %d entries; it must be from 1 to that.", w.head.Seq))
	case part.to > 0 && w.to < w.from:
		return nil, invalid("query.to_seq", "It must not be before from_seq.")
	case part.most > 0 && w.to-w.from+1 > part.most:
		return nil, invalid("query.to_seq", fmt.Sprintf("At most %d entries can be verified at once; `waypost audit verify` has no such limit.", part.most))
	}
	if w.verifier == nil {
		if w.verifier, err = s.storedVerifier(ctx, tx); err != nil {
			return nil, err
		}
	}
	w.emptiedTo, err = w.readEmptied(ctx)
	return w, err
}

// storedVerifier is of the key in the database, nil when there is none.
func (s *Service) storedVerifier(ctx context.Context, tx pgx.Tx) (note.Verifier, error) {
	row, err := s.queries.FindAuditKey(ctx, tx)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k, err := s.publicKey(ctx, tx, row)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(k.VerifierKey)
}

func (w *walk) verdict(ctx context.Context) (Verdict, error) {
	v := Verdict{Head: Head{Seq: w.head.Seq, Hash: hex.EncodeToString(w.head.Hash)}}
	newest, err := w.queries.FindNewestCheckpoint(ctx, w.tx)
	if err == nil {
		c := checkpointOf(newest)
		v.Checkpoint = &c
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return v, err
	}
	if v.FirstBad, err = w.start(ctx); err != nil || v.FirstBad != nil {
		return v, err
	}
	for w.chain.next <= w.to && v.FirstBad == nil {
		if v.FirstBad, err = w.step(ctx); err != nil {
			return v, err
		}
	}
	if v.FirstBad == nil && w.to == w.head.Seq {
		if v.FirstBad, err = w.end(ctx); err != nil {
			return v, err
		}
	}
	v.Checked = w.chain.next - w.from
	if b := v.FirstBad; b != nil && b.Seq != nil {
		v.Checked = min(v.Checked, max(*b.Seq-w.from, 0))
	}
	return v, nil
}

// start finds what the first entry continues: the entry before, as it is stored, and
// the tree up to that.
func (w *walk) start(ctx context.Context) (*Bad, error) {
	w.chain = chain{next: w.from, prev: genesis(w.head.InstallID.String()), tree: new(frontier), buffer: make([]byte, 0, 1024)}
	if w.from == 1 {
		before, err := w.queries.ListAuditEntries(ctx, w.tx, math.MinInt64, 0, 1)
		if err != nil || len(before) == 0 {
			return w.forgedWithoutSize(), err
		}
		return bad(before[0].Seq, ReasonGap), nil
	}
	before, err := w.queries.FindAuditEntry(ctx, w.tx, w.from-1)
	if errors.Is(err, pgx.ErrNoRows) {
		return bad(w.from-1, ReasonGap), nil
	}
	if err != nil {
		return nil, err
	}
	if len(before.Hash) != len(w.chain.prev) {
		return bad(w.from-1, ReasonRowHash), nil
	}
	w.chain.prev = [32]byte(before.Hash)
	tree, err := frontierAt(nodes(ctx, w.tx), w.from-1)
	if errors.Is(err, errNode) {
		return bad(w.from-1, ReasonRoot), nil
	}
	w.chain.tree = &tree
	return nil, err
}

// forgedWithoutSize finds checkpoints from outside that say of no entry what it is.
func (w *walk) forgedWithoutSize() *Bad {
	if list := w.known.witnesses; len(list) > 0 && list[0].size == 0 {
		return &Bad{Reason: ReasonSignature}
	}
	return nil
}

// step verifies the next entries.
func (w *walk) step(ctx context.Context) (*Bad, error) {
	from := w.chain.next
	last := min(from+readAtOnce-1, w.to)
	entries, err := w.queries.ListAuditEntries(ctx, w.tx, from, last, readAtOnce)
	if err != nil {
		return nil, err
	}
	checkpoints, err := w.queries.ListCheckpointsBetween(ctx, w.tx, from, last)
	if err != nil {
		return nil, err
	}
	found := w.walkThrough(entries, checkpoints)
	if missing := from + int64(len(entries)); found == nil && missing <= last {
		if found = bad(missing, ReasonGap); w.head.LastSeq < missing {
			found.Reason = ReasonTruncated
		}
	}
	good := entries[:w.chain.next-from]
	if b, err := w.checkEmptied(ctx, good); err != nil || b != nil {
		return earlier(b, found), err
	}
	b, err := w.checkBatches(ctx, good)
	return earlier(b, found), err
}

// walkThrough adds entries to the chain, and holds it against the checkpoints on the
// way, up to the first that is bad.
func (w *walk) walkThrough(entries []dbsqlc.AuditLog, checkpoints []dbsqlc.AuditCheckpoint) *Bad {
	for i := range entries {
		e := &entries[i]
		if b := w.chain.add(e); b != nil {
			return b
		}
		for len(checkpoints) > 0 && checkpoints[0].Size == e.Seq {
			c, b := stored(checkpoints[0], w.verifier)
			if b == nil {
				b = w.chain.hold(c)
			}
			if b != nil {
				return b
			}
			checkpoints = checkpoints[1:]
		}
		if b := w.holdAgainstWitnesses(e.Seq); b != nil {
			return b
		}
	}
	return nil
}

// holdAgainstWitnesses holds the chain, whose last entry is seq, against the
// checkpoints of that size that were kept outside.
func (w *walk) holdAgainstWitnesses(seq int64) *Bad {
	for len(w.known.witnesses) > 0 && w.known.witnesses[0].size <= seq {
		c := w.known.witnesses[0]
		w.known.witnesses = w.known.witnesses[1:]
		switch {
		case c.size < seq: // before the part of the log that is verified
		case c.forged:
			return bad(seq, ReasonSignature)
		default:
			if b := w.chain.hold(c.statement); b != nil {
				return b
			}
		}
	}
	return nil
}

// end says what is wrong behind the last entry: a head that is another, or checkpoints
// of more entries.
func (w *walk) end(ctx context.Context) (*Bad, error) {
	if w.head.LastSeq > w.head.Seq {
		return bad(w.head.Seq+1, ReasonLink), nil
	}
	if !bytes.Equal(w.head.Hash, w.chain.prev[:]) {
		return bad(w.head.Seq, ReasonLink), nil
	}
	var found *Bad
	row, err := w.queries.FindCheckpointBehind(ctx, w.tx, w.head.Seq)
	switch {
	case err == nil:
		if _, found = stored(row, w.verifier); found == nil {
			found = bad(w.head.Seq+1, ReasonTruncated)
		}
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	}
	for _, c := range w.known.witnesses {
		if c.forged {
			found = earlier(found, bad(c.size, ReasonSignature))
			continue
		}
		found = earlier(found, bad(w.head.Seq+1, ReasonTruncated))
	}
	return found, nil
}
