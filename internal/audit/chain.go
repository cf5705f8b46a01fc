package audit

import (
	"bytes"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Reasons why an entry is bad.
const (
	ReasonRowHash   = "row_hash"             // its fields do not give its hash
	ReasonDigest    = "digest"               // its changes do not give their digest, or were emptied and no note says so
	ReasonLink      = "link"                 // it does not continue the entry before, or the head is not it
	ReasonGap       = "gap"                  // it is missing
	ReasonBatch     = "batch"                // the webhook events that it covers are others now
	ReasonTruncated = "truncated"            // it and all behind it are missing
	ReasonSignature = "checkpoint_signature" // the checkpoint of that size is not signed by the key
	ReasonRoot      = "root"                 // the checkpoint of that size is of another tree
	ReasonUnsealed  = "unsealed"             // an entry got no place in the chain
)

// Verdict is what a verification found.
type Verdict struct {
	OK bool
	// Checked is how many entries are good, up to the first bad one.
	Checked  int64
	FirstBad *Bad // nil when OK
	Head     Head
	// Unsealed is how many entries had no place in the chain yet.
	Unsealed   int64
	Checkpoint *Checkpoint // the newest, nil when there is none
}

// Bad is the first entry that is bad. Of a checkpoint it is the last that the
// checkpoint covers.
type Bad struct {
	Seq    *int64 // nil when no entry can be named
	Reason string // one of the constants
}

// Head is the last entry, with its hash in hex.
type Head struct {
	Seq  int64
	Hash string
}

// chain checks entries in their order, in constant memory.
type chain struct {
	next int64 // the seq of the next entry
	prev [32]byte
	// tree is nil where the roots can't be computed, and then isn't checked.
	tree *frontier
	// genesisUnknown lets the first entry have any prev_hash.
	genesisUnknown bool
	buffer         []byte
}

// add takes the next entry, and returns why it, or another before it, is bad, or nil.
// An emptied entry is good here.
func (c *chain) add(e *dbsqlc.AuditLog) *Bad {
	switch {
	case e.Seq > c.next:
		return bad(c.next, ReasonGap)
	case e.Seq < c.next:
		return bad(e.Seq, ReasonGap)
	case !c.genesisUnknown && !bytes.Equal(e.PrevHash, c.prev[:]):
		return bad(e.Seq, ReasonLink)
	}
	c.buffer = c.buffer[:0]
	h := hashOf(e, c.buffer)
	if !bytes.Equal(h[:], e.Hash) || e.At.Nanosecond()%1000 != 0 {
		return bad(e.Seq, ReasonRowHash)
	}
	if !emptied(e) && !digestFits(e.Salt, e.Changes, e.ChangesDigest) {
		return bad(e.Seq, ReasonDigest)
	}
	c.genesisUnknown = false
	c.next, c.prev = e.Seq+1, h
	if c.tree != nil {
		c.tree.add(h)
	}
	return nil
}

// hold holds the log up to the last entry against what a checkpoint of its size says.
func (c *chain) hold(w statement) *Bad {
	if w.head != tlog.Hash(c.prev) || c.tree != nil && w.root != c.tree.root() {
		return bad(w.size, ReasonRoot)
	}
	return nil
}

// stored reads a checkpoint of the database, or says that it is not signed.
func stored(row dbsqlc.AuditCheckpoint, verifier note.Verifier) (statement, *Bad) {
	if verifier == nil {
		return statement{}, bad(row.Size, ReasonSignature)
	}
	c, err := openNote(row.Note, verifier)
	if err != nil || c.size != row.Size || !bytes.Equal(c.root[:], row.Root) || !bytes.Equal(c.head[:], row.HeadHash) || !c.at.Equal(row.At) {
		return c, bad(row.Size, ReasonSignature)
	}
	return c, nil
}

func bad(seq int64, reason string) *Bad { return &Bad{Seq: &seq, Reason: reason} }

// earlier returns the one of the smaller seq, a when they are equal. Either may be nil.
func earlier(a, b *Bad) *Bad {
	switch {
	case b == nil:
		return a
	case a == nil || b.Seq != nil && (a.Seq == nil || *b.Seq < *a.Seq):
		return b
	}
	return a
}
