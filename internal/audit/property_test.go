package audit_test

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/audit"
)

func TestATreeThatGrowsHasTheRootsOfRFC6962(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 600).Draw(t, "leaves")
		begin := rapid.Int64Range(0, n).Draw(t, "from")
		var stored []tlog.Hash
		reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			var list []tlog.Hash
			for _, i := range indexes {
				list = append(list, stored[i])
			}
			return list, nil
		})
		var whole, part audit.Frontier
		for i := range n {
			if i == begin {
				var err error
				if part, err = audit.FrontierAt(reader, i); err != nil {
					t.Fatal(err)
				}
			}
			leaf := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
			hashes, err := tlog.StoredHashesForRecordHash(i, leaf, reader)
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, hashes...)
			whole.Add(leaf)
			if i >= begin {
				part.Add(leaf)
			}
		}
		want, err := tlog.TreeHash(n, reader)
		if err != nil {
			t.Fatal(err)
		}
		if whole.Root() != want || begin < n && part.Root() != want {
			t.Errorf("another root")
		}
	})
}

func TestRangesAreTheSetThatTheyStandFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r audit.Ranges
		set := map[int64]bool{}
		next := int64(1)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				next += rapid.Int64Range(1, 2).Draw(t, "gap")
				r.Add(next)
				set[next] = true
			case 2:
				n := rapid.Int64Range(0, next+1).Draw(t, "remove")
				r.Remove(n)
				delete(set, n)
			case 3:
				n := rapid.Int64Range(0, 5).Draw(t, "to")
				r.RemoveTo(n)
				for k := range set {
					if k <= n {
						delete(set, k)
					}
				}
			}
		}
		var got, want []int64
		for _, run := range r.Runs() {
			for n := run[0]; n <= run[1]; n++ {
				got = append(got, n)
			}
		}
		for n := range set {
			want = append(want, n)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// fuzzKey is a verifier key that has signed nothing.
func fuzzKey(t testing.TB) note.Verifier {
	t.Helper()
	key, err := note.NewEd25519VerifierKey("waypost/x", secret('x'))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzNoFileOfCheckpointsIsTakenWithoutASignature(f *testing.F) {
	f.Add("waypost/x\n1\nAAAA\n00\n2026-01-02T15:04:05Z\n\n— waypost/x AAAA\n")
	f.Add("\n\n— x\n— y\nz")
	f.Add("torn")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := audit.ReadNotes(strings.NewReader(text), fuzzKey(t), func(string) {})
		if err != nil {
			return
		}
		for _, w := range list {
			if !w.Forged() || w.Size() < 0 {
				t.Errorf("%+v", w)
			}
		}
	})
}

func FuzzNoExportIsTakenThatHasNoHashes(f *testing.F) {
	f.Add(`{"seq":1,"at":"2026-01-02T15:04:05.000001Z","actor_type":"cli","op":"note","changes_digest":"00","prev_hash":"","hash":""}`)
	f.Add("{}\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := audit.VerifyExport(strings.NewReader(text), nil, "", func(string) {})
		if err == nil && v.OK && v.Checked > 0 {
			t.Errorf("%q has %d good entries", text, v.Checked)
		}
	})
}
