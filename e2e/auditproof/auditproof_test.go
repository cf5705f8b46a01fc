package auditproof_test

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/e2e/auditproof"
)

const entries = 10_000

// whole is a chain that nobody touched; clone it to change it.
var whole = sync.OnceValue(func() log { return newLog(entries) })

func check(t *testing.T, l log, checkpoints string, key string) auditproof.Report {
	t.Helper()
	r, err := auditproof.Check(strings.NewReader(l.export(t)), strings.NewReader(checkpoints), key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAChainThatNobodyTouchedIsAccepted(t *testing.T) {
	t.Parallel()
	ours := newSigner(1)
	var notes strings.Builder
	for _, size := range []int{1, 2, 3, 255, 256, 257, 5000, 9999, entries} {
		notes.WriteString(ours.checkpoint(whole(), size))
	}
	want := auditproof.Report{Entries: entries, Warnings: []string{"the rows of batches are in the database and were not checked"}}
	if diff := cmp.Diff(want, check(t, whole(), notes.String(), ours.verifierKey())); diff != "" {
		t.Error(diff)
	}
}

func TestATornLastCheckpointIsSkippedWithAWarning(t *testing.T) {
	t.Parallel()
	l, ours := newLog(100), newSigner(1)
	want := auditproof.Report{Entries: 100, Warnings: []string{"the last checkpoint is torn and was skipped", "the rows of batches are in the database and were not checked"}}
	last := ours.checkpoint(l, 90)
	for cut := 1; cut < len(last)-1; cut++ {
		if diff := cmp.Diff(want, check(t, l, ours.checkpoint(l, 3)+last[:cut], ours.verifierKey())); diff != "" {
			t.Fatalf("cut after %d bytes: %s", cut, diff)
		}
	}
	// Without its last line break it is whole, and counts.
	if got := check(t, l[:85], last[:len(last)-1], ours.verifierKey()).Bad; got == nil || *got != (auditproof.Finding{Seq: 86, Reason: "truncated"}) {
		t.Errorf("%+v, want truncated", got)
	}
}

// tampering is what somebody does to a chain, and what must be found.
type tampering struct {
	name        string
	tamper      func(l log) log
	checkpoints string // one of the whole chain before the tampering, unless given
	want        auditproof.Finding
}

func tamperings() []tampering {
	ours, theirs := newSigner(1), newSigner(2)
	forged := strings.Replace(ours.checkpoint(whole(), 7000), "\n7000\n", "\n7001\n", 1)
	same := func(l log) log { return l }
	return []tampering{
		{"an edited field", func(l log) log { l[5001].Action = str("delete-post"); return l }, "", auditproof.Finding{Seq: 5002, Reason: "row_hash"}},
		{"a field that becomes null", func(l log) log { l[7000].Table = nil; return l }, "", auditproof.Finding{Seq: 7001, Reason: "row_hash"}},
		{"an edited field, hashed anew", func(l log) log { l[6000].Op = "note"; l[6000].Hash = hashed(l[6000]); return l }, "", auditproof.Finding{Seq: 6002, Reason: "link"}},
		{"edited changes", func(l log) log { l[6000].Changes = str(`{"new": {}}`); return l }, "", auditproof.Finding{Seq: 6001, Reason: "digest"}},
		{"an edited salt", func(l log) log { l[6000].Salt = str("00"); return l }, "", auditproof.Finding{Seq: 6001, Reason: "digest"}},
		{"edited changes and their digest", func(l log) log {
			l[6000].Changes, l[6000].ChangesDigest = str(`{}`), hexSum(unhex(*l[6000].Salt)+`{}`)
			return l
		}, "", auditproof.Finding{Seq: 6001, Reason: "row_hash"}},
		{"an emptied entry that no note names", func(l log) log { l[6000].Changes, l[6000].Salt = nil, nil; return l }, "", auditproof.Finding{Seq: 6001, Reason: "digest"}},
		{"changes without their salt", func(l log) log { l[6000].Salt = nil; return l }, "", auditproof.Finding{Seq: 6001, Reason: "digest"}},
		{"a deleted row", func(l log) log { return slices.Delete(l, 5999, 6000) }, "", auditproof.Finding{Seq: 6000, Reason: "gap"}},
		{"an inserted row", func(l log) log {
			forged := l[5998]
			forged.Seq, forged.PrevHash = 6000, l[5998].Hash
			forged.Hash = hashed(forged)
			return slices.Insert(l, 5999, forged)
		}, "", auditproof.Finding{Seq: 6000, Reason: "gap"}},
		{"an inserted row, the later ones renumbered", func(l log) log {
			l = slices.Insert(l, 8999, l[8998])
			l[8999].PrevHash = l[8998].Hash
			for i := 8999; i < len(l); i++ {
				l[i].Seq = int64(i + 1)
			}
			l[8999].Hash = hashed(l[8999])
			return l
		}, "", auditproof.Finding{Seq: 9001, Reason: "link"}},
		{"two swapped rows", func(l log) log {
			l[6000], l[6001] = l[6001], l[6000]
			l[6000].Seq, l[6001].Seq = l[6001].Seq, l[6000].Seq
			return l
		}, "", auditproof.Finding{Seq: 6001, Reason: "link"}},
		{"two swapped lines", func(l log) log { l[6000], l[6001] = l[6001], l[6000]; return l }, "", auditproof.Finding{Seq: 6001, Reason: "gap"}},
		{"a cut tail", func(l log) log { return l[:9990] }, "", auditproof.Finding{Seq: 9991, Reason: "truncated"}},
		{"no entries at all", func(log) log { return nil }, "", auditproof.Finding{Seq: 1, Reason: "truncated"}},
		{"a re-hashed suffix", func(l log) log { l[6000].Action = str("delete-post"); l.seal(6001); return l }, "", auditproof.Finding{Seq: entries, Reason: "root"}},
		{
			"a re-hashed suffix between two checkpoints", func(l log) log { l[6000].Action = str("delete-post"); l.seal(6001); return l },
			ours.checkpoint(whole(), 9000) + ours.checkpoint(whole(), 6000) + ours.checkpoint(whole(), 7000), auditproof.Finding{Seq: 7000, Reason: "root"},
		},
		{"a chain of another installation", func(l log) log {
			l[0].PrevHash = hexSum("audit.v1:another")
			for i := range l {
				if i > 0 {
					l[i].PrevHash = l[i-1].Hash
				}
				l[i].Hash = hashed(l[i])
			}
			return l
		}, "", auditproof.Finding{Seq: 1, Reason: "link"}},
		{"a forged checkpoint", same, forged, auditproof.Finding{Seq: 7001, Reason: "checkpoint_signature"}},
		{"a checkpoint of another key", same, ours.checkpoint(whole(), 10) + theirs.checkpoint(whole(), 7000), auditproof.Finding{Seq: 7000, Reason: "checkpoint_signature"}},
		{"a forged checkpoint of more than there is", same, strings.Replace(ours.checkpoint(whole(), 7000), "\n7000\n", "\n20000\n", 1), auditproof.Finding{Seq: 20000, Reason: "checkpoint_signature"}},
		{"a checkpoint that nobody can read", same, ours.sign("nothing\n") + ours.checkpoint(whole(), 10), auditproof.Finding{Reason: "checkpoint_signature"}},
		{"a checkpoint of another log", same, ours.sign(strings.Replace(body(ours.checkpoint(whole(), 3)), origin, "waypost/x", 1)), auditproof.Finding{Seq: 3, Reason: "checkpoint_signature"}},
		{"a forged checkpoint before a true one, both of more than there is", func(l log) log { return l[:9000] }, strings.Replace(ours.checkpoint(whole(), 7000), "\n7000\n", "\n9500\n", 1) + ours.checkpoint(whole(), entries), auditproof.Finding{Seq: 9001, Reason: "truncated"}},
		{"an emptied entry, named by a note that was forged", func(l log) log {
			l[9500] = note(l[9500], `{"note": {"what": "erased", "seqs": [6001]}}`)
			l[6000].Changes, l[6000].Salt = nil, nil
			return l
		}, "", auditproof.Finding{Seq: 6001, Reason: "digest"}},
		{"a torn checkpoint that is not the last", same, ours.checkpoint(whole(), 10)[:150] + "\n" + ours.checkpoint(whole(), 20), auditproof.Finding{Seq: 10, Reason: "checkpoint_signature"}},
	}
}

// body is what was signed of a note.
func body(note string) string {
	signed, _, _ := strings.Cut(note, "\n\n")
	return signed + "\n"
}

func TestTheFirstBadEntryIsNamedWithItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range tamperings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ours := newSigner(1)
			if c.checkpoints == "" {
				c.checkpoints = ours.checkpoint(whole(), entries)
			}
			r := check(t, c.tamper(whole().clone()), c.checkpoints, ours.verifierKey())
			if diff := cmp.Diff(&c.want, r.Bad); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEditOfAnyFieldIsFound(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[auditproof.Entry]()
	for i := range fields.NumField() {
		l := newLog(100)
		field := reflect.ValueOf(&l[69]).Elem().Field(i)
		switch text := field.Interface().(type) {
		case int64:
			field.SetInt(text + 1)
		case string:
			field.SetString("2027" + text)
		case *string:
			field.Set(reflect.ValueOf(str("2027")))
		}
		r, err := auditproof.Check(strings.NewReader(l.export(t)), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if r.Bad == nil || r.Bad.Seq != 70 {
			t.Errorf("%s: %+v, want entry 70", fields.Field(i).Name, r.Bad)
		}
	}
}

func TestAnExportThatBeginsLaterIsCheckedFromThere(t *testing.T) {
	t.Parallel()
	l, ours := whole()[2000:], newSigner(1)
	r, err := auditproof.Check(strings.NewReader(l.export(t)), nil, ours.verifierKey())
	if err != nil || r.Bad != nil {
		t.Errorf("%+v, %v", r.Bad, err)
	}
	if _, err := auditproof.Check(strings.NewReader(l.export(t)), strings.NewReader(""), ours.verifierKey()); err == nil {
		t.Error("checkpoints on a part of the log were accepted")
	}
}

func TestWhatIsNoKeyOrNoExportIsRefused(t *testing.T) {
	t.Parallel()
	good := newSigner(1).verifierKey()
	for _, key := range []string{"x", strings.Replace(good, "+", "+0", 1), strings.Replace(good, "5f", "50", 1), good[:len(good)-4]} {
		if _, err := auditproof.Check(strings.NewReader(""), nil, key); err == nil {
			t.Errorf("%q is a key", key)
		}
	}
	for _, export := range []string{"x", `{"seq":"1"}`, `{"seq":1,"comment":"not hashed"}`} {
		if _, err := auditproof.Check(strings.NewReader(export), nil, ""); err == nil {
			t.Errorf("%q is an export", export)
		}
	}
	if _, err := auditproof.Check(strings.NewReader(""), strings.NewReader(""), ""); err == nil {
		t.Error("checkpoints were accepted without a key")
	}
}

// The leaves and roots are those of the test data of Certificate Transparency, of
// Google's implementation of RFC 6962.
func TestRootsAreThoseOfRFC6962(t *testing.T) {
	t.Parallel()
	var leaves [][]byte
	for _, input := range []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"} {
		leaves = append(leaves, []byte(unhex(hexSum("\x00"+unhex(input)))))
	}
	for n, want := range map[int]string{
		0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	} {
		if got := hex.EncodeToString(auditproof.Root(leaves[:n])); got != want {
			t.Errorf("%d leaves: %s, want %s", n, got, want)
		}
	}
}
