package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
)

func roundTrips(t *testing.T, s blob.Store) {
	want := map[string][]byte{}
	for i, size := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 5*mib - 1, 5 * mib, 5*mib + 1, 10 * mib, 17 * mib} {
		key := blob.Key("u", fmt.Sprintf("%02dab", size%100)) + fmt.Sprint(i)
		want[key] = Bytes(uint64(i), size)
		Must(t, s, key, want[key])
		info, err := s.Stat(t.Context(), key)
		if err != nil || info.Size != int64(size) || info.Key != key || info.ModifiedAt.IsZero() || info.ModifiedAt.Location() != time.UTC {
			t.Errorf("Stat of %d bytes = %+v, %v", size, info, err)
		}
	}
	Holds(t, s, want)
	nothingHalfWritten(t, s)
}

var errBroken = errors.New("the client has gone")

func failingReaders(t *testing.T, s blob.Store) {
	for _, after := range []int{0, 1, 256 << 10, 5 * mib, 5*mib + 1, 11 * mib} {
		for name, broken := range map[string]error{"own": errBroken, "cut off": io.ErrUnexpectedEOF} {
			key := fmt.Sprintf("u/ab/%d-%d", after, len(name))
			n, err := s.Put(t.Context(), key, "text/plain", &Breaking{After: after, Then: func() error { return broken }})
			if !errors.Is(err, broken) || n != 0 {
				t.Errorf("Put of a reader that breaks after %d bytes = %d, %v; want 0, %v", after, n, err, broken)
			}
			Absent(t, s, key)
		}
	}
	Holds(t, s, nil)
	nothingHalfWritten(t, s)
}

// nothingHalfWritten checks that no Put has left anything behind.
func nothingHalfWritten(t *testing.T, s blob.Store) {
	t.Helper()
	if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("%d half-written objects are left, %v", n, err)
	}
}

func cancelled(t *testing.T, s blob.Store) {
	for _, after := range []int{0, 1, 11 * mib} {
		ctx, cancel := context.WithCancel(t.Context())
		r := io.MultiReader(&Breaking{After: after, Then: func() error { cancel(); return io.EOF }}, bytes.NewReader(make([]byte, 11*mib)))
		if n, err := s.Put(ctx, "u/ab/abc", "text/plain", r); !errors.Is(err, context.Canceled) || n != 0 {
			t.Errorf("Put cancelled after %d bytes = %d, %v; want the context's error", after, n, err)
		}
		Absent(t, s, "u/ab/abc")
	}
	nothingHalfWritten(t, s)
}

func failedOverwriting(t *testing.T, s blob.Store) {
	want := Bytes(1, 1000)
	Must(t, s, "u/ab/abc", want)
	for _, after := range []int{10, 11 * mib} {
		if _, err := s.Put(t.Context(), "u/ab/abc", "text/plain", &Breaking{After: after, Then: func() error { return errBroken }}); !errors.Is(err, errBroken) {
			t.Errorf("Put = %v", err)
		}
		Holds(t, s, map[string][]byte{"u/ab/abc": want})
	}
}

func overwriting(t *testing.T, s blob.Store) {
	for i, size := range []int{1000, 6 * mib, 0, 10} {
		want := Bytes(uint64(i), size)
		Must(t, s, "u/ab/abc", want)
		Holds(t, s, map[string][]byte{"u/ab/abc": want})
	}
}

// paused begins a Put that waits after some bytes, calls between, and lets it end.
func paused(t *testing.T, s blob.Store, key string, after int, between func()) (int64, error) {
	t.Helper()
	waits, goOn := make(chan struct{}), make(chan struct{})
	var size int64
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		size, err = s.Put(t.Context(), key, "text/plain", &Breaking{After: after, Then: func() error {
			close(waits)
			<-goOn
			return io.EOF
		}})
	})
	<-waits
	between()
	close(goOn)
	done.Wait()
	return size, err
}

func underWay(t *testing.T, s blob.Store) {
	for _, after := range []int{10, 11 * mib} {
		key := fmt.Sprintf("u/ab/new%d", after)
		if n, err := paused(t, s, key, after, func() { Absent(t, s, key) }); err != nil || n != int64(after) {
			t.Errorf("Put = %d, %v", n, err)
		}
		old := Bytes(2, 100)
		Must(t, s, "u/ab/old", old)
		_, err := paused(t, s, "u/ab/old", after, func() {
			if !bytes.Equal(Read(t, s, "u/ab/old"), old) {
				t.Error("a Put under way can be seen")
			}
		})
		if err != nil {
			t.Errorf("Put = %v", err)
		}
		if got := len(Read(t, s, "u/ab/old")); got != after {
			t.Errorf("%d bytes were put, and %d came out", after, got)
		}
	}
}

func concurrentPuts(t *testing.T, s blob.Store) {
	want := map[string][]byte{}
	var all sync.WaitGroup
	for i := range 20 {
		key, content := blob.Key("u", fmt.Sprintf("%02x", i)), Bytes(uint64(i), i*400<<10)
		want[key] = content
		all.Go(func() {
			if n, err := s.Put(t.Context(), key, "text/plain", bytes.NewReader(content)); err != nil || n != int64(len(content)) {
				t.Errorf("Put = %d, %v", n, err)
			}
		})
	}
	all.Wait()
	Holds(t, s, want)
	nothingHalfWritten(t, s)
}

func concurrentOverwriting(t *testing.T, s blob.Store) {
	var all sync.WaitGroup
	contents := make([][]byte, 20)
	for i := range contents {
		contents[i] = bytes.Repeat([]byte{byte(i)}, 1+i*300<<10)
		all.Go(func() {
			if _, err := s.Put(t.Context(), "u/ab/abc", "text/plain", bytes.NewReader(contents[i])); err != nil {
				t.Errorf("Put = %v", err)
			}
		})
	}
	all.Wait()
	got := Read(t, s, "u/ab/abc")
	if want := contents[got[0]]; !bytes.Equal(got, want) {
		t.Errorf("%d bytes begin like one of %d", len(got), len(want))
	}
}

func sweepYoung(t *testing.T, s blob.Store) {
	n, err := paused(t, s, "u/ab/abc", 11*mib, func() {
		if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
			t.Errorf("SweepIncomplete = %d, %v; want nothing", n, err)
		}
	})
	if n != 11*mib || err != nil {
		t.Errorf("Put = %d, %v", n, err)
	}
	if got := len(Read(t, s, "u/ab/abc")); got != 11*mib {
		t.Errorf("%d bytes", got)
	}
}

func sweepOld(t *testing.T, s blob.Store) {
	kept := Bytes(3, 100)
	Must(t, s, "u/ab/kept", kept)
	_, err := paused(t, s, "u/ab/abc", 11*mib, func() {
		if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
			t.Errorf("SweepIncomplete = %d, %v; want 1", n, err)
		}
		nothingHalfWritten(t, s)
	})
	if !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("a Put whose bytes were swept away = %v, want ErrUnavailable", err)
	}
	Holds(t, s, map[string][]byte{"u/ab/kept": kept})
}

const (
	streamed    = 300 * mib
	memoryLimit = 32 * mib
)

// watched gives so many bytes and notes the largest heap meanwhile.
type watched struct {
	left, sinceLook int
	peak            uint64
	sum             hash.Hash
}

func (w *watched) look(n int) {
	if w.sinceLook += n; w.sinceLook < 4*mib {
		return
	}
	w.sinceLook = 0
	w.peak = max(w.peak, heap())
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	n := min(w.left, len(p))
	for i := 0; i < n; i += 512 {
		p[i] = byte(w.left >> 10)
	}
	w.sum.Write(p[:n])
	w.left -= n
	w.look(n)
	return n, nil
}

func (w *watched) Write(p []byte) (int, error) {
	w.look(len(p))
	return w.sum.Write(p)
}

func constantMemory(t *testing.T, s blob.Store) {
	runtime.GC()
	before := heap()
	in := watched{left: streamed, sum: sha256.New()}
	if n, err := s.Put(t.Context(), "u/ab/abc", "text/plain", &in); n != streamed || err != nil {
		t.Fatalf("Put = %d, %v", n, err)
	}
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	out := watched{sum: sha256.New()}
	if n, err := io.Copy(&out, o); n != streamed || err != nil {
		t.Fatalf("io.Copy = %d, %v", n, err)
	}
	if !bytes.Equal(in.sum.Sum(nil), out.sum.Sum(nil)) {
		t.Error("other bytes came out")
	}
	if in.peak > before+memoryLimit || out.peak > before+memoryLimit {
		t.Errorf("the heap grew from %d to %d MiB writing, %d MiB reading", before/mib, in.peak/mib, out.peak/mib)
	}
}
