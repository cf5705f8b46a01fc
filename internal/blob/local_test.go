package blob_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/blob/blobtest"
)

func local(t *testing.T, dir string) *blob.Local {
	t.Helper()
	s, err := blob.NewLocal(blob.LocalOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Not parallel: it measures memory.
func TestALocalStoreKeepsThePromisesOfStores(t *testing.T) {
	blobtest.Conform(t, func(t *testing.T) blob.Store { return local(t, t.TempDir()) })
}

func TestMain(m *testing.M) {
	if dir := os.Getenv("BLOB_TEST_PUT_IN"); dir != "" {
		putForEver(dir)
	}
	os.Exit(m.Run())
}

// putForEver is the process that TestAKilledProcess... kills: it overwrites an
// object, makes another one, and says when both are under way.
func putForEver(dir string) {
	s, err := blob.NewLocal(blob.LocalOptions{Dir: dir})
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"u/ab/old", "u/ab/new"} {
		go func() {
			_, err := s.Put(context.Background(), key, "text/plain", &blobtest.Breaking{After: 3 << 20, Then: func() error {
				fmt.Println("under way")
				select {}
			}})
			panic(err)
		}()
	}
	select {}
}

func TestAKilledProcessLeavesNothingThatIsVisible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := local(t, dir)
	old := blobtest.Bytes(1, 1000)
	blobtest.Must(t, s, "u/ab/old", old)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "BLOB_TEST_PUT_IN="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatal("the process ended by itself")
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()

	blobtest.Holds(t, s, map[string][]byte{"u/ab/old": old})
	blobtest.Absent(t, s, "u/ab/new")
	if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("a sweep of what is older than an hour = %d, %v", n, err)
	}
	if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(time.Hour)); n != 2 || err != nil {
		t.Errorf("a sweep = %d, %v; want 2", n, err)
	}
	if files := tree(t, dir); len(files) != 1 {
		t.Errorf("there are %v", files)
	}
	blobtest.Holds(t, s, map[string][]byte{"u/ab/old": old})
}

// tree lists the files below dir.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOnlyItsOwnUserReadsADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "uploads")
	s := local(t, dir)
	blobtest.Must(t, s, "u/ab/abc", []byte("x"))
	if err := s.Move(t.Context(), "u/ab/abc", "t/cd/cde"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingPlantedInADirectoryLeadsOutOfIt(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := local(t, dir)
	kept := blobtest.Bytes(1, 10)
	blobtest.Must(t, s, "u/ab/kept", kept)
	for link, target := range map[string]string{
		"u/ab/file": secret, "u/cd": outside, "u/ab/relative": "../../../" + filepath.Base(outside) + "/secret", "u/ab/inside": "kept", "v": "u",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "u/ab/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, key := range []string{"u/ab/file", "u/cd/secret", "u/ab/relative", "u/ab/inside", "u/ab/pipe"} {
		if o, err := s.Open(ctx, key); err == nil {
			got, _ := io.ReadAll(o)
			t.Errorf("%s can be opened: %q", key, got)
		}
		if info, err := s.Stat(ctx, key); err == nil {
			t.Errorf("%s is told of: %+v", key, info)
		}
	}
	if _, err := s.Put(ctx, "u/cd/new", "text/plain", strings.NewReader("x")); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Put through a link = %v", err)
	}
	_ = s.Delete(ctx, "u/cd/secret")
	_ = s.Delete(ctx, "u/ab/file") // the link itself
	if err := s.Move(ctx, "u/ab/kept", "u/cd/secret"); err == nil {
		t.Error("Move through a link")
	}
	if got, err := os.ReadFile(secret); string(got) != "hidden" || err != nil {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	if files := tree(t, outside); len(files) != 1 {
		t.Errorf("outside there are %v", files)
	}
	blobtest.Holds(t, s, map[string][]byte{"u/ab/kept": kept})
}

// What can't be opened by one call is opened as os.Root does it.
func TestALinkBetweenDirectoriesInsideIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := local(t, dir)
	want := blobtest.Bytes(1, 10)
	blobtest.Must(t, s, "u/ab/kept", want)
	if err := os.Symlink("u", filepath.Join(dir, "v")); err != nil {
		t.Fatal(err)
	}
	o, err := s.Open(t.Context(), "v/ab/kept")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// What other programs leave in the directory, or a mount has, is no object.
func TestForeignFilesAreNoObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := local(t, dir)
	blobtest.Must(t, s, "u/ab/abc", []byte("x"))
	for _, name := range []string{"lost+found/file", ".snapshot/u/ab/abc", "u/ab/.nfs000", "u/ab/README.md", "u/AB/abc"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("foreign"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blobtest.Holds(t, s, map[string][]byte{"u/ab/abc": []byte("x")})
	if n, err := s.SweepIncomplete(t.Context(), time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("a sweep = %d, %v", n, err)
	}
}

func TestAFailureOfTheDiskLeavesNothingAndIsExplained(t *testing.T) {
	t.Parallel()
	for failure, says := range map[error]string{
		syscall.ENOSPC: "is full", syscall.EDQUOT: "is full", syscall.EROFS: "read-only", fs.ErrPermission: "may not be written", syscall.EIO: "input/output error",
	} {
		for _, at := range []blob.Boundary{blob.Created, blob.Written, blob.Synced, blob.Renamed} {
			dir := t.TempDir()
			broken := false
			s, err := blob.NewLocal(blob.LocalOptions{Dir: dir, Interrupt: func(b blob.Boundary) error {
				if broken && b == at {
					return failure
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			old := []byte("old")
			blobtest.Must(t, s, "u/ab/old", old)
			broken = true
			n, err := s.Put(t.Context(), "u/ab/abc", "text/plain", strings.NewReader("x"))
			if n != 0 || !errors.Is(err, blob.ErrUnavailable) || !errors.Is(err, failure) || !strings.Contains(err.Error(), says) {
				t.Errorf("at %s: Put = %d, %v; want ErrUnavailable that says %q", at, n, err, says)
			}
			blobtest.Absent(t, s, "u/ab/abc")
			if at != blob.Renamed {
				if _, err := s.Put(t.Context(), "u/ab/old", "text/plain", strings.NewReader("x")); !errors.Is(err, failure) {
					t.Errorf("at %s: Put = %v", at, err)
				}
			}
			blobtest.Holds(t, s, map[string][]byte{"u/ab/old": old})
			if files := tree(t, dir); len(files) != 1 {
				t.Errorf("at %s: %v are left", at, files)
			}
		}
	}
}

func TestADirectoryThatSomebodyEmptiedIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := local(t, dir)
	blobtest.Must(t, s, "u/ab/abc", []byte("x"))
	for _, name := range []string{"u", ".incomplete"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	blobtest.Absent(t, s, "u/ab/abc")
	blobtest.Must(t, s, "u/ab/abc", []byte("y"))
	blobtest.Holds(t, s, map[string][]byte{"u/ab/abc": []byte("y")})
}

func TestADirectoryThatCantBeUsedIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if _, err := blob.NewLocal(blob.LocalOptions{Dir: dir}); err == nil {
			t.Errorf("a store in %q was made", dir)
		}
	}
	s := local(t, t.TempDir())
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
}

func TestALocalStoreSignsNoAddresses(t *testing.T) {
	t.Parallel()
	_, err := local(t, t.TempDir()).PresignPut(t.Context(), "u/ab/abc", blob.PutTerms{ContentType: "text/plain", Size: 1, Expires: time.Minute})
	if !errors.Is(err, blob.ErrNotSupported) {
		t.Errorf("PresignPut = %v", err)
	}
}
