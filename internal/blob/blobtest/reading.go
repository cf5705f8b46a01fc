package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/blob"
)

func moving(t *testing.T, s blob.Store) {
	small, large := Bytes(1, 100), Bytes(2, 17*mib)
	Must(t, s, "p/ab/small", small)
	Must(t, s, "p/ab/large", large)
	Must(t, s, "u/cd/there", Bytes(3, 200))
	for _, move := range [][2]string{
		{"p/ab/small", "u/ab/small"}, {"p/ab/large", "u/ef/large"},
		{"u/ab/small", "u/cd/there"},                               // in the place of what was there
		{"u/ef/large", "u/ef/large"}, {"u/cd/there", "u/cd/there"}, // stays
	} {
		if err := s.Move(t.Context(), move[0], move[1]); err != nil {
			t.Fatalf("Move(%s, %s): %v", move[0], move[1], err)
		}
	}
	for _, gone := range []string{"p/ab/small", "p/ab/large", "u/ab/small"} {
		Absent(t, s, gone)
	}
	Holds(t, s, map[string][]byte{"u/cd/there": small, "u/ef/large": large})
	nothingHalfWritten(t, s)
}

func movingNothing(t *testing.T, s blob.Store) {
	there := Bytes(1, 100)
	Must(t, s, "u/ab/there", there)
	for _, from := range []string{"u/ab/nothing", "v/ab/nothing"} {
		for _, to := range []string{"u/ab/there", "w/ab/new", from} {
			if err := s.Move(t.Context(), from, to); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("Move(%s, %s) = %v, want ErrNotFound", from, to, err)
			}
		}
	}
	Holds(t, s, map[string][]byte{"u/ab/there": there})
}

func deleting(t *testing.T, s blob.Store) {
	kept := Bytes(1, 100)
	Must(t, s, "u/ab/kept", kept)
	Must(t, s, "u/ab/gone", kept)
	for range 2 {
		for _, key := range []string{"u/ab/gone", "u/ab", "u", "x/yz/never", "u/ab/kept/below"} {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Errorf("Delete(%s): %v", key, err)
			}
		}
	}
	for _, key := range []string{"u/ab/gone", "u/ab", "u", "x/yz/never", "u/ab/kept/below"} {
		Absent(t, s, key)
	}
	Holds(t, s, map[string][]byte{"u/ab/kept": kept})
}

func listing(t *testing.T, s blob.Store) {
	want := map[string][]byte{}
	for i, key := range []string{
		"a", "b/c", "b-c", "b_c", "b0", "b/0", "b/c-/x", "bb/a", "u/ab/abc", "u/ab/abd", "u/ab-/a", "u/abc/a", "u/ab0", "z/z/z/z/z",
	} {
		want[key] = Bytes(uint64(i), i)
		Must(t, s, key, want[key])
	}
	Holds(t, s, want)
	for _, prefix := range []string{"", "a", "b", "b/", "b/c", "b/c-", "u/ab", "u/ab/", "u/ab/ab", "u/ab/abc", "u/ab/abc/", "z/z/", "none", "none/", "a/"} {
		var got, expected []string
		for info, err := range s.List(t.Context(), prefix) {
			if err != nil {
				t.Fatalf("List(%q): %v", prefix, err)
			}
			got = append(got, info.Key)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if strings.HasPrefix(key, prefix) {
				expected = append(expected, key)
			}
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", prefix, diff)
		}
	}
	for info := range s.List(t.Context(), "") {
		if info.Key != "a" {
			t.Errorf("the first key is %s", info.Key)
		}
		break // and the rest isn't asked for
	}
}

func ranges(t *testing.T, s blob.Store) {
	content := Bytes(1, 300<<10)
	Must(t, s, "u/ab/abc", content)
	rapid.Check(t, func(rt *rapid.T) {
		o, err := s.Open(t.Context(), "u/ab/abc")
		if err != nil {
			rt.Fatal(err)
		}
		defer o.Close()
		model := bytes.NewReader(content)
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "seek") {
				offset, whence := rapid.Int64Range(-350<<10, 350<<10).Draw(rt, "offset"), rapid.IntRange(0, 2).Draw(rt, "whence")
				wantAt, wantErr := model.Seek(offset, whence)
				at, err := o.Seek(offset, whence)
				if at != wantAt || (err == nil) != (wantErr == nil) {
					rt.Fatalf("Seek(%d, %d) = %d, %v; want %d, %v", offset, whence, at, err, wantAt, wantErr)
				}
				continue
			}
			size := rapid.IntRange(0, 200<<10).Draw(rt, "size")
			got, want := make([]byte, size), make([]byte, size)
			wantN, wantErr := io.ReadFull(model, want)
			n, err := io.ReadFull(o, got)
			if n != wantN || !errors.Is(err, wantErr) || !bytes.Equal(got, want) {
				rt.Fatalf("reading %d bytes = %d, %v; want %d, %v; the bytes are equal: %t", size, n, err, wantN, wantErr, bytes.Equal(got, want))
			}
		}
	})
}

// badKeysOfOthers are keys that no store may take.
var badKeysOfOthers = []string{
	"", "/", "../x", "u/../x", "..", ".", "/etc/passwd", "u//x", "u/x/", "/u/x", "u/\x00", "u/\x00x", "U/x", "u/x y", "u/ü", "u\\x",
	"u/.incomplete", ".incomplete/x", "u/x\n", "u/x%2f", "c:x", strings.Repeat("a", 201), strings.Repeat("a/", 100) + "aa",
}

func badKeys(t *testing.T, s blob.Store) {
	good := strings.Repeat("a", 200)
	Must(t, s, good, []byte("good"))
	for _, key := range badKeysOfOthers {
		ctx := t.Context()
		_, put := s.Put(ctx, key, "text/plain", strings.NewReader("x"))
		_, open := s.Open(ctx, key)
		_, stat := s.Stat(ctx, key)
		_, presign := s.PresignPut(ctx, key, blob.PutTerms{ContentType: "text/plain", Size: 1, Expires: 1e9})
		for method, err := range map[string]error{
			"Put": put, "Open": open, "Stat": stat, "Move from": s.Move(ctx, key, "x"), "Move to": s.Move(ctx, good, key), "Delete": s.Delete(ctx, key),
		} {
			if !errors.Is(err, blob.ErrBadKey) {
				t.Errorf("%s(%.50q) = %v, want ErrBadKey", method, key, err)
			}
		}
		if !errors.Is(presign, blob.ErrBadKey) && !errors.Is(presign, blob.ErrNotSupported) {
			t.Errorf("PresignPut(%.50q) = %v", key, presign)
		}
		for info, err := range s.List(ctx, key) {
			if key != "" {
				t.Errorf("List(%.50q) has %v, %v", key, info, err)
			}
		}
	}
	Holds(t, s, map[string][]byte{good: []byte("good")})
}

func closedObject(t *testing.T, s blob.Store) {
	Must(t, s, "u/ab/abc", Bytes(1, 100))
	o, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if n, err := o.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read of a closed object = %d, %v", n, err)
	}
}

func openedTwice(t *testing.T, s blob.Store) {
	content := Bytes(1, 200<<10)
	Must(t, s, "u/ab/abc", content)
	first, err := s.Open(t.Context(), "u/ab/abc")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := io.ReadFull(first, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if got := Read(t, s, "u/ab/abc"); !bytes.Equal(got, content) {
		t.Error("the second reader sees other bytes")
	}
	if rest, err := io.ReadAll(first); err != nil || !bytes.Equal(rest, content[1000:]) {
		t.Errorf("the first reader sees other bytes, %v", err)
	}
}

func endedContext(t *testing.T, s blob.Store) {
	Must(t, s, "u/ab/abc", Bytes(1, 100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, "u/ab/new", "text/plain", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	listed := false
	for _, err := range s.List(ctx, "") {
		listed = true
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List = %v", err)
		}
	}
	if !listed {
		t.Error("a listing that was cancelled looks like an empty store")
	}
	Absent(t, s, "u/ab/new")
}
