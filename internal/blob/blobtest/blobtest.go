// Package blobtest holds every store of bytes to the same promises.
package blobtest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/waypost/waypost/internal/blob"
)

const mib = 1 << 20

// Conform runs the promises of blob.Store as subtests. Each opens a store that is
// empty. The test that calls it must not be parallel: memory is measured.
func Conform(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Helper()
	// Alone, because nothing else may take memory meanwhile.
	t.Run("memory is constant", func(t *testing.T) { constantMemory(t, open(t)) })
	for name, test := range map[string]func(*testing.T, blob.Store){
		"what was put comes out":                     roundTrips,
		"a reader that fails leaves nothing":         failingReaders,
		"a context that ends leaves nothing":         cancelled,
		"a failed overwriting leaves what was there": failedOverwriting,
		"overwriting":                              overwriting,
		"a Put under way is not visible":           underWay,
		"twenty Puts at once":                      concurrentPuts,
		"twenty Puts of one key leave one of them": concurrentOverwriting,
		"Move":                     moving,
		"Move of what isn't there": movingNothing,
		"Delete":                   deleting,
		"List is ordered by key and keeps to its prefix":   listing,
		"ranges are those of the bytes":                    ranges,
		"bad keys are refused":                             badKeys,
		"a sweep leaves what is under way":                 sweepYoung,
		"a sweep removes what is half-written":             sweepOld,
		"a closed object can't be read":                    closedObject,
		"an object that was opened can be opened again":    openedTwice,
		"a context that has ended is the error, not a 503": endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// Bytes are size bytes that seed chooses.
func Bytes(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(b) // never fails
	return b
}

// Must puts content under key.
func Must(t *testing.T, s blob.Store, key string, content []byte) {
	t.Helper()
	n, err := s.Put(t.Context(), key, "application/octet-stream", onlyReader{bytes.NewReader(content)})
	if err != nil || n != int64(len(content)) {
		t.Fatalf("Put(%s) = %d, %v; want %d bytes", key, n, err, len(content))
	}
}

// Read returns what is under key.
func Read(t *testing.T, s blob.Store, key string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("Open(%s): %v", key, err)
	}
	defer o.Close()
	content, err := io.ReadAll(o)
	if err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	if o.Size() != int64(len(content)) {
		t.Errorf("%s: Size is %d, and %d bytes came", key, o.Size(), len(content))
	}
	if o.ModifiedAt().IsZero() {
		t.Errorf("%s has no time", key)
	}
	return content
}

// Holds checks that a store has exactly these objects, and that nothing else can
// be found in it.
func Holds(t *testing.T, s blob.Store, want map[string][]byte) {
	t.Helper()
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		content, ok := want[info.Key]
		if !ok {
			t.Errorf("there is an object %s of %d bytes that nobody put", info.Key, info.Size)
			continue
		}
		if info.Size != int64(len(content)) {
			t.Errorf("%s is listed with %d bytes, want %d", info.Key, info.Size, len(content))
		}
	}
	for key, content := range want {
		if got := Read(t, s, key); !bytes.Equal(got, content) {
			t.Errorf("%s has other bytes than were put: %d of them, want %d", key, len(got), len(content))
		}
	}
}

// Absent checks that nobody can find key.
func Absent(t *testing.T, s blob.Store, key string) {
	t.Helper()
	if o, err := s.Open(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Open(%s) = %v, %v; want ErrNotFound", key, o, err)
	}
	if info, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat(%s) = %v, %v; want ErrNotFound", key, info, err)
	}
	for info, err := range s.List(t.Context(), key) {
		if err != nil || info.Key == key {
			t.Errorf("List has %v, %v", info, err)
		}
	}
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

// Breaking gives the first after bytes of an endless stream, then calls then and
// fails with its error.
type Breaking struct {
	After int
	Then  func() error
}

func (b *Breaking) Read(p []byte) (int, error) {
	if b.After == 0 {
		return 0, b.Then()
	}
	n := min(len(p), b.After)
	for i := range p[:n] {
		p[i] = byte(i)
	}
	b.After -= n
	return n, nil
}
