// Package auditproof verifies an exported audit log. It is written from
// docs/audit.md alone, imports the standard library only and shares no code with the
// product, so that the tests can hold the product against it. It favours the obvious
// over the fast: the whole export is in memory.
package auditproof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Finding is what is wrong first. Seq is 0 when it is about no entry that has a number.
type Finding struct {
	Seq    int64
	Reason string
}

// Report is what a verification found.
type Report struct {
	Entries  int
	Bad      *Finding // nil when all is well
	Warnings []string
}

// Check verifies an export in NDJSON, and checkpoints against it unless they are nil;
// they need the verifier key. With a key, the first entry's prev_hash is checked, too.
// It returns an error for what is no export or no key, and for checkpoints on an
// export that doesn't begin with entry 1.
func Check(export, checkpoints io.Reader, key string) (Report, error) {
	entries, err := read(export)
	if err != nil {
		return Report{}, err
	}
	var signer *verifier
	if key != "" {
		if signer, err = parseKey(key); err != nil {
			return Report{}, err
		}
	}
	report := Report{Entries: len(entries)}
	var claims []checkpoint
	if checkpoints != nil {
		if signer == nil {
			return Report{}, errors.New("auditproof: checkpoints without a key prove nothing")
		}
		if len(entries) > 0 && entries[0].Seq != 1 {
			return Report{}, fmt.Errorf("auditproof: the export begins with entry %d, checkpoints are about all from 1", entries[0].Seq)
		}
		text, err := io.ReadAll(checkpoints)
		if err != nil {
			return Report{}, fmt.Errorf("auditproof: read the checkpoints: %w", err)
		}
		var torn bool
		if claims, torn = signer.checkpoints(string(text)); torn {
			report.Warnings = append(report.Warnings, "the last checkpoint is torn and was skipped")
		}
	}
	for _, e := range entries {
		if e.Op == "batch" {
			report.Warnings = append(report.Warnings, "the rows of batches are in the database and were not checked")
			break
		}
	}
	report.Bad = judge(entries, claims, signer)
	return report, nil
}

func read(export io.Reader) ([]Entry, error) {
	d := json.NewDecoder(export)
	d.DisallowUnknownFields()
	var entries []Entry
	for {
		var e Entry
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return entries, nil
		} else if err != nil {
			return nil, fmt.Errorf("auditproof: line %d of the export: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}

// judge walks the chain once. Where it is at entry n, it has the root of the first n.
func judge(entries []Entry, claims []checkpoint, signer *verifier) *Finding {
	allowed := emptyings(entries)
	bySize := map[int64][]checkpoint{}
	last := int64(0)
	for _, c := range claims {
		if c.size == 0 {
			return &Finding{0, "checkpoint_signature"}
		}
		bySize[c.size] = append(bySize[c.size], c)
	}
	var grown tree
	for i, e := range entries {
		before := ""
		switch {
		case i > 0:
			before = entries[i-1].Hash
		case e.Seq == 1 && signer != nil:
			before = genesis(signer.name)
		}
		want := e.Seq
		if i > 0 {
			want = entries[i-1].Seq + 1
		}
		if reason := e.fault(want, before, allowed); reason != "" {
			return &Finding{min(want, e.Seq), reason}
		}
		last = e.Seq
		grown.add(e.leaf())
		for _, c := range bySize[e.Seq] {
			if reason := c.fault(grown.root(), e.Hash); reason != "" {
				return &Finding{c.size, reason}
			}
		}
	}
	return beyond(claims, last)
}

// beyond finds what is wrong with checkpoints of more entries than there are.
func beyond(claims []checkpoint, last int64) *Finding {
	var found *Finding
	for _, c := range claims {
		switch {
		case c.size <= last:
		case c.signed:
			return &Finding{last + 1, "truncated"}
		case found == nil || c.size < found.Seq:
			found = &Finding{c.size, "checkpoint_signature"}
		}
	}
	return found
}

// fault is the reason why an entry can't be the one of number want after an entry
// with the hash before ("" when that is unknown), or "".
func (e Entry) fault(want int64, before string, allowed func(int64) bool) string {
	hash, err := e.ComputeHash()
	switch {
	case e.Seq != want:
		return "gap"
	case before != "" && e.PrevHash != before:
		return "link"
	case err != nil || hash != e.Hash:
		return "row_hash"
	case !e.contentsHold(allowed):
		return "digest"
	}
	return ""
}

// emptyings says of an entry whether a later note names it as emptied.
func emptyings(entries []Entry) func(int64) bool {
	type note struct {
		What string  `json:"what"`
		From int64   `json:"from_seq"`
		To   int64   `json:"to_seq"`
		Seqs []int64 `json:"seqs"`
	}
	single := map[int64]bool{}
	var ranges []note
	for _, e := range entries {
		if e.Op != "note" || e.Table == nil || *e.Table != "audit_log" || e.Changes == nil || !e.intact() {
			continue
		}
		var parsed struct{ Note note }
		if json.NewDecoder(strings.NewReader(*e.Changes)).Decode(&parsed) != nil {
			continue
		}
		switch n := parsed.Note; n.What {
		case "emptied":
			n.To = min(n.To, e.Seq-1)
			ranges = append(ranges, n)
		case "erased":
			for _, seq := range n.Seqs {
				single[seq] = single[seq] || seq < e.Seq
			}
		}
	}
	return func(seq int64) bool {
		for _, r := range ranges {
			if r.From <= seq && seq <= r.To {
				return true
			}
		}
		return single[seq]
	}
}
