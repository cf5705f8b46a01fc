package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const lockVar = "FILELOCK_TEST_PATH"

// kept is the other process's lock: of one that nothing refers to, the garbage
// collector closes the file.
var kept *Lock

// TestMain lets the test binary be another process that takes a lock and waits.
func TestMain(m *testing.M) {
	path, ok := os.LookupEnv(lockVar)
	if !ok {
		os.Exit(m.Run())
	}
	l, held, err := TryExclusive(path)
	if err != nil || !held {
		fmt.Println("failed", held, err)
		os.Exit(1)
	}
	if err := l.WriteOwner(os.Getpid()); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	kept = l
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test, however that does
}

func mustTry(t *testing.T, path string, want bool) *Lock {
	t.Helper()
	l, held, err := TryExclusive(path)
	if err != nil || held != want {
		t.Fatalf("TryExclusive: %t (%v), want %t", held, err, want)
	}
	return l
}

func release(t *testing.T, l *Lock) {
	t.Helper()
	for range 2 { // twice is harmless
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestAKilledProcessHoldsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockVar+"="+path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := make([]byte, 6)
	if _, err := out.Read(said); err != nil || string(said) != "locked" {
		t.Fatalf("the other process said %q (%v)", said, err)
	}
	mustTry(t, path, false)
	if pid := HolderPID(path); pid != cmd.Process.Pid {
		t.Errorf("HolderPID %d, want %d", pid, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Exclusive(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
}

func TestSharersExcludeOnlyTheExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	a, err := Shared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Shared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	mustTry(t, path, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Exclusive(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Exclusive: %v, want the context's error", err)
	}
	if last, err := a.Upgrade(); err != nil || last {
		t.Errorf("the first to leave: last %t (%v)", last, err)
	}
	if last, err := b.Upgrade(); err != nil || !last {
		t.Errorf("the last to leave: last %t (%v)", last, err)
	}
	mustTry(t, path, false)
	if err := b.Downgrade(); err != nil {
		t.Error(err)
	}
	c, err := Shared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Lock{a, b, c} {
		release(t, l)
	}
	release(t, mustTry(t, path, true))
}

func TestALockOnARemovedFileIsNotCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	old := mustTry(t, path, true)
	if !old.Current() {
		t.Error("a fresh lock is not current")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next := mustTry(t, path, true)
	if old.Current() || !next.Current() {
		t.Error("the lock on the removed file passes for the one on its successor")
	}
	release(t, old)
	mustTry(t, path, false)
	release(t, next)
}

func TestAnIllegibleOwnerIsNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if pid := HolderPID(path); pid != 0 {
		t.Errorf("missing: %d", pid)
	}
	for _, text := range []string{"", "x", "12 13", "99999999999999999999"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid := HolderPID(path); pid != 0 {
			t.Errorf("%q: %d", text, pid)
		}
	}
}
