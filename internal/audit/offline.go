package audit

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"github.com/waypost/waypost/db/dbsqlc"
)

// maxLine bounds a line of an export, in bytes.
const maxLine = 256 << 20

// VerifyExport verifies what Export wrote, against checkpoints that were kept, nil for
// none, which the verifier key signed. It needs no database, but can't see webhook
// events, so it doesn't check the batches that cover them; warn is told that, and
// whatever else can't be checked. It returns an error when the entries can't be read,
// and when there are checkpoints but no key.
func VerifyExport(entries, checkpoints io.Reader, key string, warn func(string)) (Verdict, error) {
	if checkpoints != nil && key == "" {
		return Verdict{}, errors.New("audit: checkpoints without a key prove nothing: give the verifier key")
	}
	known, err := outsideOf(checkpoints, key, warn)
	if err != nil {
		return Verdict{}, err
	}
	x := exported{walk: walk{known: known, verifier: known.verifier}, warn: warn}
	if err := x.readAll(entries); err != nil {
		return Verdict{}, err
	}
	return x.verdict(), nil
}

// exported is the verification of an export.
type exported struct {
	walk
	warn     func(string)
	started  bool
	first    int64 // the first entry's seq
	found    *Bad
	batches  bool
	unproven ranges // entries that were emptied, and no note has said so yet
}

func (x *exported) readAll(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("audit: line %d is not an entry: %w", n, err)
		}
		record, err := e.record()
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		x.take(&record)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("audit: read entries: %w", err)
	}
	return nil
}

// take checks the next entry. Behind one that is bad it only looks for notes about
// entries before that.
func (x *exported) take(e *dbsqlc.AuditLog) {
	if !x.started {
		x.begin(e)
	}
	if n := emptyingOf(e.Op, e.TableName, e.Changes); n.What != "" && intact(e) {
		if n.What == "emptied" {
			x.unproven.removeTo(n.ToSeq)
		}
		for _, seq := range n.Seqs {
			x.unproven.remove(seq)
		}
	}
	if x.found != nil {
		return
	}
	x.found = x.walkThrough([]dbsqlc.AuditLog{*e}, nil)
	if x.chain.next > e.Seq && emptied(e) {
		x.unproven.add(e.Seq)
	}
	x.batches = x.batches || e.Op == "batch"
}

// begin finds what the first entry continues. Of an export that begins later, that
// entry's own word is taken.
func (x *exported) begin(e *dbsqlc.AuditLog) {
	x.started = true
	x.first = max(e.Seq, 1)
	x.chain = chain{next: x.first, buffer: make([]byte, 0, 1024)}
	if x.first > 1 {
		x.chain.genesisUnknown = true
		x.warn(fmt.Sprintf("the export begins with entry %d: what that continues, and the roots of checkpoints, can't be checked", x.first))
		return
	}
	x.chain.tree = new(frontier)
	if x.verifier == nil {
		x.chain.genesisUnknown = true
		x.warn("without a key it can't be checked of which installation the log is")
		return
	}
	x.chain.prev = genesis(strings.TrimPrefix(x.verifier.Name(), originPrefix))
	x.found = x.forgedWithoutSize()
}

func (x *exported) verdict() Verdict {
	v := Verdict{FirstBad: x.found}
	if x.started {
		v.Head = Head{Seq: x.chain.next - 1, Hash: hex.EncodeToString(x.chain.prev[:])}
		v.Checked = x.chain.next - x.first
	}
	if x.found == nil {
		v.FirstBad = x.behind()
	}
	if seq, any := x.unproven.first(); any {
		v.FirstBad = earlier(bad(seq, ReasonDigest), v.FirstBad)
	}
	if b := v.FirstBad; b != nil && b.Seq != nil {
		v.Checked = min(v.Checked, max(*b.Seq-x.first, 0))
	}
	if x.batches {
		x.warn("the log covers webhook deliveries by digests over them; an export does not have them, so they were not checked")
	}
	v.OK = v.FirstBad == nil
	return v
}

// behind says what checkpoints of more entries than there are prove.
func (x *exported) behind() *Bad {
	var found *Bad
	for _, c := range x.known.witnesses {
		if c.forged && c.size == 0 {
			return &Bad{Reason: ReasonSignature}
		}
		if c.forged {
			found = earlier(found, bad(c.size, ReasonSignature))
			continue
		}
		found = earlier(found, bad(max(x.chain.next, 1), ReasonTruncated))
	}
	return found
}

// ranges are numbers, added in ascending order, in runs.
type ranges [][2]int64

func (r *ranges) add(n int64) {
	if last := len(*r) - 1; last >= 0 && (*r)[last][1] == n-1 {
		(*r)[last][1] = n
		return
	}
	*r = append(*r, [2]int64{n, n})
}

// removeTo removes all numbers up to n.
func (r *ranges) removeTo(n int64) {
	*r = slices.DeleteFunc(*r, func(run [2]int64) bool { return run[1] <= n })
	if len(*r) > 0 {
		(*r)[0][0] = max((*r)[0][0], n+1)
	}
}

func (r *ranges) remove(n int64) {
	i, found := slices.BinarySearchFunc(*r, n, func(run [2]int64, n int64) int {
		switch {
		case run[1] < n:
			return -1
		case run[0] > n:
			return 1
		}
		return 0
	})
	if !found {
		return
	}
	run := (*r)[i]
	var rest [][2]int64
	if run[0] < n {
		rest = append(rest, [2]int64{run[0], n - 1})
	}
	if run[1] > n {
		rest = append(rest, [2]int64{n + 1, run[1]})
	}
	*r = slices.Replace(*r, i, i+1, rest...)
}

func (r *ranges) first() (int64, bool) {
	if len(*r) == 0 {
		return 0, false
	}
	return (*r)[0][0], true
}

// VerifierKey checks the form of a verifier key, without what is around it.
func VerifierKey(text string) (string, error) {
	key := strings.TrimSpace(text)
	if _, err := note.NewVerifier(key); err != nil {
		return "", fmt.Errorf("that is no verifier key, which looks like waypost/ID+HASH+KEY: %w", err)
	}
	return key, nil
}
