package process

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestAProcessIsSeenUntilItsEnd(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat", "-")
	cmd.Dir = t.TempDir()
	in, out := startEcho(t, cmd)
	p, err := Lookup(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name() != "cat" || p.Command != "cat -" || p.Started == "" || !p.Alive() {
		t.Errorf("cat - is seen as %+v", p)
	}
	if hasProc() && (!p.WorksIn(cmd.Dir) || p.WorksIn("/")) {
		t.Errorf("its working directory is not seen as %s", cmd.Dir)
	}
	later := p
	later.Started += "0"
	if later.Alive() {
		t.Error("another process with the same pid counts as the same")
	}
	found, err := Matching(func(q Process) bool { return q == p })
	if err != nil || len(found) != 1 {
		t.Errorf("Matching: %v (%v)", found, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not waited for, it remains a zombie, whom kill(pid, 0) calls alive.
	deadline := time.Now().Add(time.Minute)
	for p.Alive() {
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as alive")
		}
		<-time.After(time.Millisecond)
	}
	_, _ = in.Close(), out.Close()
	_ = cmd.Wait()
	if _, err := Lookup(cmd.Process.Pid); err != ErrGone {
		t.Errorf("Lookup after the end: %v, want ErrGone", err)
	}
}

// startEcho starts cat and waits for its echo: a child has no command line of its
// own yet when its start is only known to have succeeded.
func startEcho(t *testing.T, cmd *exec.Cmd) (io.Closer, io.Closer) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return in, out
}

func TestImpossiblePidsAreGone(t *testing.T) {
	t.Parallel()
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, err := Lookup(pid); err != ErrGone {
			t.Errorf("%d: %v, want ErrGone", pid, err)
		}
	}
}

func TestPSAgreesWithProc(t *testing.T) {
	t.Parallel()
	p, err := askPS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != os.Getpid() || !strings.HasPrefix(p.Command, os.Args[0]) || p.Started == "" {
		t.Errorf("ps sees this process as %+v", p)
	}
	all, err := askPSAll()
	if err != nil {
		t.Fatal(err)
	}
	var seen bool
	for _, q := range all {
		seen = seen || q == p
	}
	if !seen {
		t.Error("ps does not list this process")
	}
	if _, err := askPS(1 << 22); err != ErrGone {
		t.Errorf("a pid that is no process's: %v, want ErrGone", err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 98765 20 21"))
	f.Add([]byte("42 ()"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		state, started, ok := parseStat(stat)
		if ok && (state == 0 || started == "") {
			t.Errorf("%q: state %q, started %q", stat, state, started)
		}
	})
}

func FuzzParsePS(f *testing.F) {
	f.Add("  951 Ss   Thu Nov 21 13:41:00 2024 /usr/lib/postgresql/15/bin/postgres -D /srv/my data")
	f.Add("1 Z Thu Nov 21 13:41:00 2024 x")
	f.Add("1 S")
	f.Fuzz(func(t *testing.T, line string) {
		p, ok := parsePS(line)
		if ok && strings.Count(p.Started, " ") != 4 {
			t.Errorf("%q: %+v", line, p)
		}
	})
}
