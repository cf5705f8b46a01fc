package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waypost/waypost/db/embedded/filelock"
)

func TestOfSeveralStartsAtOnceExactlyOneWins(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	actors := make([]*actor, 4)
	for i := range actors {
		actors[i] = play(t, script{Options: o})
	}
	winner := 0
	var losers []string
	for _, a := range actors {
		switch said := a.says(t); {
		case strings.HasPrefix(said, "ready"):
			if winner != 0 {
				t.Error("two processes hold one data directory")
			}
			winner = a.cmd.Process.Pid
		default:
			losers = append(losers, said)
		}
	}
	for _, said := range losers {
		if want := fmt.Sprint("in-use ", winner); said != want {
			t.Errorf("a loser said %q, want %q", said, want)
		}
	}
	wantServers(t, o, 1)
}

func TestAStartBesideALivingHolderNamesIt(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	mustStart(t, o)
	_, err := Start(t.Context(), o)
	inUse, ok := errors.AsType[*InUseError](err)
	if !ok || inUse.PID != os.Getpid() {
		t.Fatalf("Start: %v, want an InUseError with pid %d", err, os.Getpid())
	}
	if err := Remove(t.Context(), o.DataDir); !errors.As(err, &inUse) {
		t.Errorf("Remove: %v, want an InUseError", err)
	}
	wantServers(t, o, 1)
}

func TestAttachingNeedsARunningServer(t *testing.T) {
	t.Parallel()
	o := newPlace(t)
	if _, err := Attach(t.Context(), o); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Attach before the first start: %v, want ErrNotRunning", err)
	}
	mustStop(t, mustStart(t, o))
	if _, err := Attach(t.Context(), o); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Attach after the stop: %v, want ErrNotRunning", err)
	}
}

func TestAnAttachedProcessLeavesTheHoldersServerAlone(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	remember(t, s.AdminURL("postgres"))
	a := play(t, script{Options: o, Attach: true, Brief: true})
	a.mustSay(t, "ready")
	a.mustSay(t, "stopped")
	recall(t, s.AdminURL("postgres"))
	wantServers(t, o, 1)
}

func TestTheLastOfSeveralCommandsStopsTheServer(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	for range 3 {
		actors := make([]*actor, 4)
		for i := range actors {
			actors[i] = play(t, script{Options: o, Attach: true, Brief: true})
		}
		for _, a := range actors {
			a.mustSay(t, "ready")
		}
		for _, a := range actors {
			a.mustSay(t, "stopped")
		}
		wantServers(t, o, 0)
	}
}

func TestAnAttachedProcessOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			o := newOptions(t)
			a := play(t, script{Options: o})
			a.mustSay(t, "ready")
			s, err := AttachOrStart(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { mustStop(t, s) })
			url := s.AdminURL("postgres")
			remember(t, url)
			before := servers(t, o)
			if err := a.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = a.cmd.Wait()
			recall(t, url)
			if now := servers(t, o); len(now) != 1 || now[0] != before[0] {
				t.Errorf("servers before %v, after %v; want the same one", before, now)
			}
			// It supervises now.
			eventually(t, "the attached process holds the server", func() bool {
				return filelock.HolderPID(filepath.Join(o.DataDir, holderFile)) == os.Getpid()
			})
			if err := syscall.Kill(before[0].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "another server answers", func() bool {
				_, err := query(t.Context(), url, `select 'ok'`)
				return err == nil
			})
			recall(t, url)
			mustStop(t, s)
			wantServers(t, o, 0)
		})
	}
}

func TestAStartBesideAttachedProcessesKeepsTheirServer(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	holder := play(t, script{Options: o})
	holder.mustSay(t, "ready")
	attached := play(t, script{Options: o, Attach: true})
	attached.mustSay(t, "ready")
	before := servers(t, o)
	// Stopped, it can't be quicker than the start to take over.
	if err := attached.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	holder.kill(t)
	s := mustStart(t, o)
	if now := servers(t, o); len(now) != 1 || now[0] != before[0] {
		t.Errorf("servers before %v, after %v; want the same one", before, now)
	}
	mustStop(t, s)
	wantServers(t, o, 1)
	if err := errors.Join(attached.cmd.Process.Signal(syscall.SIGCONT), attached.cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	attached.mustSay(t, "stopped")
	wantServers(t, o, 0)
}

func TestStoppingTwiceIsStoppingOnce(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- s.Stop(context.Background()) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantServers(t, o, 0)
}

func TestAStopThatMayNotWaitForcesAndTheDataSurvives(t *testing.T) {
	t.Parallel()
	o := newOptions(t)
	s := mustStart(t, o)
	remember(t, s.AdminURL("postgres"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v, want the context's error", err)
	}
	s.stopOnce.Do(func() {}) // mustStart's clean-up need not stop it again
	wantServers(t, o, 0)
	recall(t, mustStart(t, o).AdminURL("postgres"))
}
