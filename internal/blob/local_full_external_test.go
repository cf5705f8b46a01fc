//go:build external && linux

package blob_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

// A disk that is really full: a file system of 16 MiB, which only root may mount. Smaller ones
// count their pages too roughly.
func TestAFullDiskIsToldAndTakesSmallerFilesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := local(t, dir)
	kept := blobtest.Bytes(1, 8<<20)
	blobtest.Must(t, s, "u/ab/kept", kept)
	_, err := s.Put(t.Context(), "u/ab/large", "text/plain", bytes.NewReader(make([]byte, 12<<20)))
	if !errors.Is(err, blob.ErrUnavailable) || !strings.Contains(err.Error(), "the disk of the directory for uploads is full") {
		t.Errorf("Put = %v", err)
	}
	small := blobtest.Bytes(2, 1<<20)
	blobtest.Must(t, s, "u/ab/small", small)
	blobtest.Holds(t, s, map[string][]byte{"u/ab/kept": kept, "u/ab/small": small})
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("Check of a full disk = %v", err)
	}
}
