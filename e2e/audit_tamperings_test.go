package e2e_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/waypost/waypost/e2e/auditproof"
)

// proofTampering is what somebody does to the log, and what must be found.
type proofTampering struct {
	name    string
	entries []auditproof.Entry // nil for the true ones
	notes   []string           // nil for the true ones
	want    *auditproof.Finding
	// onlyLines can't be done to a table, whose keys are unique and in order.
	onlyLines bool
	// hides needs an outside checkpoint to be found, when those in the database are
	// deleted.
	hides bool
}

func (l *provenLog) tamperings(t *testing.T) []proofTampering {
	t.Helper()
	at := l.target(t)
	last := l.sizeOf(len(l.notes) - 1)
	edited := change(at, func(e *auditproof.Entry) { e.ActorID = new("somebody else") })
	suffix := l.after(edited, func(list []auditproof.Entry) []auditproof.Entry {
		rehash(t, list[at-2].Hash, list[at-1:])
		return list
	})
	found := func(seq int64, reason string) *auditproof.Finding {
		return &auditproof.Finding{Seq: seq, Reason: reason}
	}
	return []proofTampering{
		{name: "nothing"},
		{name: "an edited field", entries: l.after(edited), want: found(at, "row_hash")},
		{name: "edited changes", entries: l.after(change(at, func(e *auditproof.Entry) {
			e.Changes = new(strings.Replace(*e.Changes, `{"new": {`, `{"new": {"x": 1, `, 1))
		})), want: found(at, "digest")},
		{name: "an entry emptied without a note", entries: l.after(change(at, func(e *auditproof.Entry) { e.Salt, e.Changes = nil, nil })), want: found(at, "digest")},
		{name: "a deleted row", entries: l.after(func(list []auditproof.Entry) []auditproof.Entry {
			return slices.Delete(list, int(at-1), int(at))
		}), want: found(at, "gap")},
		{name: "an inserted row", entries: l.after(insert(t, at), renumber), want: found(at+1, "link")},
		{name: "an inserted line", entries: l.after(insert(t, at)), want: found(at, "gap"), onlyLines: true},
		// The notes about emptied entries, which come later, are no longer what was written.
		{name: "an inserted row before the notes about emptied entries", entries: l.after(insert(t, 2*proofEmptied), renumber), want: found(1, "digest")},
		{name: "two swapped rows", entries: l.after(swap(at), renumber), want: found(at, "link")},
		{name: "two swapped lines", entries: l.after(swap(at)), want: found(at, "gap"), onlyLines: true},
		{name: "a cut tail", entries: l.after()[:last-10], want: found(last-9, "truncated"), hides: true},
		{name: "a re-hashed suffix", entries: suffix, want: found(l.next(at), "root"), hides: true},
		{name: "a re-hashed suffix with forged checkpoints", entries: suffix, notes: l.forgedFrom(t, suffix, at), want: found(l.next(at), "checkpoint_signature")},
		{name: "a checkpoint of another key", notes: l.forgedFrom(t, l.entries, last), want: found(last, "checkpoint_signature")},
		{name: "a checkpoint whose size was edited", notes: l.resized(1), want: found(l.sizeOf(1)-1, "checkpoint_signature")},
	}
}

// target is an entry to tamper with. It is behind all that says of others that they
// were emptied, and no checkpoint is near.
func (l *provenLog) target(t *testing.T) int64 {
	t.Helper()
	for _, e := range l.entries[len(l.entries)*7/10:] {
		if e.Op == "insert" && l.next(e.Seq) > e.Seq+20 {
			return e.Seq
		}
	}
	t.Fatal("there is a checkpoint every twenty entries")
	return 0
}

// edit changes a list of entries, and returns it.
type edit func([]auditproof.Entry) []auditproof.Entry

// after are the log's entries after edits.
func (l *provenLog) after(edits ...edit) []auditproof.Entry {
	list := slices.Clone(l.entries)
	for _, e := range edits {
		list = e(list)
	}
	return list
}

func change(seq int64, how func(*auditproof.Entry)) edit {
	return func(list []auditproof.Entry) []auditproof.Entry {
		how(&list[seq-1])
		return list
	}
}

// swap exchanges an entry and the next one.
func swap(seq int64) edit {
	return func(list []auditproof.Entry) []auditproof.Entry {
		list[seq-1], list[seq] = list[seq], list[seq-1]
		return list
	}
}

// insert puts an entry at a place, which continues the one before that.
func insert(t *testing.T, seq int64) edit {
	return func(list []auditproof.Entry) []auditproof.Entry {
		forged := slices.Clone(list[seq-1 : seq])
		forged[0].ActorID = new("somebody else")
		rehash(t, list[seq-2].Hash, forged)
		return slices.Insert(list, int(seq-1), forged...)
	}
}

// renumber gives entries the numbers of their places.
func renumber(list []auditproof.Entry) []auditproof.Entry {
	for i := range list {
		list[i].Seq = int64(i + 1)
	}
	return list
}

// rehash chains entries anew behind one of that hash, as whoever owns the database
// can.
func rehash(t *testing.T, before string, list []auditproof.Entry) {
	t.Helper()
	for i := range list {
		list[i].PrevHash = before
		var err error
		if list[i].Hash, err = list[i].ComputeHash(); err != nil {
			t.Fatal(err)
		}
		before = list[i].Hash
	}
}

func (l *provenLog) sizeOf(checkpoint int) int64 {
	var size int64
	_, _ = fmt.Sscan(strings.Split(l.notes[checkpoint], "\n")[1], &size)
	return size
}

// next is the size of the first checkpoint that covers an entry.
func (l *provenLog) next(seq int64) int64 {
	for i := range l.notes {
		if l.sizeOf(i) >= seq {
			return l.sizeOf(i)
		}
	}
	return 0
}

// resized are the checkpoints, of which one says of the same tree that it has an
// entry less.
func (l *provenLog) resized(checkpoint int) []string {
	notes := slices.Clone(l.notes)
	size := l.sizeOf(checkpoint)
	notes[checkpoint] = strings.Replace(notes[checkpoint], fmt.Sprintf("\n%d\n", size), fmt.Sprintf("\n%d\n", size-1), 1)
	return notes
}

// forgedFrom are checkpoints of entries: all that cover a seq are signed by a key of
// the right name that is another.
func (l *provenLog) forgedFrom(t *testing.T, entries []auditproof.Entry, seq int64) []string {
	t.Helper()
	origin, _, _ := strings.Cut(l.key, "+")
	private, _, err := note.GenerateKey(nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	var leaves [][]byte
	for _, e := range entries {
		leaves = append(leaves, unhex(t, e.Hash))
	}
	notes := slices.Clone(l.notes)
	for i := range notes {
		size := l.sizeOf(i)
		if size < seq {
			continue
		}
		line := strings.Split(notes[i], "\n")
		line[2] = base64.StdEncoding.EncodeToString(auditproof.Root(leaves[:size]))
		line[3] = entries[size-1].Hash
		forged, err := note.Sign(&note.Note{Text: strings.Join(line[:5], "\n") + "\n"}, signer)
		if err != nil {
			t.Fatal(err)
		}
		notes[i] = string(forged)
	}
	return notes
}
