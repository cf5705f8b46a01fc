package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/seal"
)

func TestACheckpointIsSignedWhenItIsDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	sign := func(s *audit.Service, final, want bool) {
		t.Helper()
		if got, err := s.SignCheckpoint(t.Context(), final); err != nil || got != want {
			t.Errorf("signed: %v, %v; want %v", got, err, want)
		}
	}
	sign(f.Service, false, false)
	sign(f.Service, true, false)
	f.verifierKey(t)
	f.seal(t)
	sign(f.Service, false, false)
	f.clock.wait(31 * time.Second)
	sign(f.Service, false, true)
	sign(f.Service, true, false)
	f.fill(t, 998)
	f.clock.wait(2 * time.Second)
	f.note(t, "at the time of the database, which the clock is ahead of")
	f.clock.wait(-33 * time.Second)
	sign(f.Service, false, false)
	f.note(t, "the thousandth")
	f.seal(t)
	f.clock.wait(31 * time.Second)
	sign(f.Service, false, false) // within a second of the last
	f.clock.wait(2 * time.Second)
	sign(f.Service, false, true)
	list, err := f.Checkpoints(t.Context(), 0, 10)
	if err != nil || len(list) != 2 || list[0].Size != 1001 || list[1].Size != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err = f.Checkpoints(t.Context(), 1001, 10); err != nil || len(list) != 1 || list[0].Size != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	v := f.verify(t, 0, 0)
	wantBad(t, v, 0, "")
	if v.Checkpoint == nil || v.Checkpoint.Size != 1001 || v.Checkpoint.HeadHash != v.Head.Hash {
		t.Errorf("%+v", v)
	}
	verifier, err := note.NewVerifier(f.verifierKey(t))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Open([]byte(v.Checkpoint.Note), note.VerifierList(verifier))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(signed.Text, "\n"); len(lines) != 6 || lines[0] != verifier.Name() || lines[1] != "1001" || lines[3] != v.Head.Hash {
		t.Errorf("%q", signed.Text)
	}
}

func TestOfInstancesThatSignAtOnceOneDoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.verifierKey(t)
	f.fill(t, 20)
	f.clock.wait(time.Minute)
	var wg sync.WaitGroup
	signed := make([]bool, 4)
	for i := range signed {
		s := f.another(t, nil)
		wg.Go(func() {
			var err error
			if signed[i], err = s.SignCheckpoint(t.Context(), false); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, did := range signed {
		if did {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d instances signed", n)
	}
}

func TestALogThatWasWrittenAnewIsNotSigned(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"another tree": `update audit_tree set hash = sha256(hash)`,
		"a cut tail":   `delete from audit_log where seq > 400; update audit_head set seq = 400, hash = (select hash from audit_log where seq = 400)`,
		"another note": `update audit_checkpoints set note = replace(note, E'\n600\n', E'\n599\n')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.verifierKey(t)
			f.fill(t, 599)
			f.sign(t)
			f.tamper(t, sql)
			if name != "a cut tail" {
				f.fill(t, 20)
			}
			f.clock.wait(time.Minute)
			if signed, err := f.SignCheckpoint(t.Context(), false); signed || err == nil {
				t.Errorf("signed: %v, %v", signed, err)
			}
		})
	}
}

func TestTheFileHasEveryCheckpointAndATornEndIsRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "checkpoints")
	f := newFixture(t, func(o *audit.Options) { o.CheckpointFile = file })
	var want string
	for i := range 4 {
		f.fill(t, 20)
		want += f.sign(t).Note
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Fatal(diff)
		}
		if torn := got[:len(got)-20*i]; i > 0 {
			if err := os.WriteFile(file, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(want, "\n")
			want = strings.Join(lines[:len(lines)-1-7], "") // the last note is gone
		}
	}
	read, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	v, err := f.VerifyAgainst(t.Context(), read, "", noWarning(t))
	if err != nil {
		t.Fatal(err)
	}
	wantBad(t, v, 0, "")
}

func TestACheckpointKeptOutsideProvesACutTailAndANewSuffix(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.verifierKey(t)
	f.fill(t, 299)
	notes := f.sign(t).Note
	f.fill(t, 300)
	notes += f.sign(t).Note
	against := func(notes, key string) audit.Verdict {
		t.Helper()
		v, err := f.VerifyAgainst(t.Context(), strings.NewReader(notes), key, noWarning(t))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	wantBad(t, against(notes, key), 0, "")
	wantBad(t, against(notes, ""), 0, "")
	// The owner forgets what was signed, and writes all anew.
	f.tamper(t, `delete from audit_checkpoints; update audit_log set actor_id = 'x' where seq = 100; `+rehashFrom100)
	wantBad(t, f.verify(t, 0, 0), 0, "")
	wantBad(t, against(notes, key), 300, audit.ReasonRoot)
	f.tamper(t, `delete from audit_log where seq > 200; update audit_head set seq = 200, hash = (select hash from audit_log where seq = 200)`)
	wantBad(t, f.verify(t, 0, 0), 0, "")
	wantBad(t, against(notes, key), 201, audit.ReasonTruncated)
	other, err := note.NewEd25519VerifierKey(strings.SplitN(key, "+", 2)[0], secret('x'))
	if err != nil {
		t.Fatal(err)
	}
	wantBad(t, against(notes, other), 300, audit.ReasonSignature)
}

func TestTheKeyOutlivesTheProcessAndFollowsTheSecretKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	none := f.another(t, func(o *audit.Options) { o.SecretKey = nil })
	if _, err := none.Key(t.Context()); !errors.Is(err, audit.ErrNoKey) {
		t.Errorf("without a secret key: %v", err)
	}
	key := f.verifierKey(t)
	f.fill(t, 5)
	f.sign(t)
	next := f.another(t, func(o *audit.Options) { o.SecretKey, o.PreviousSecretKey = secret('n'), secret('k') })
	f.fill(t, 5)
	f.clock.wait(time.Minute)
	if signed, err := next.SignCheckpoint(t.Context(), true); !signed || err != nil {
		t.Fatalf("%v, %v", signed, err)
	}
	dropped := f.another(t, func(o *audit.Options) { o.SecretKey = secret('n') })
	f.fill(t, 5)
	f.clock.wait(time.Minute)
	if signed, err := dropped.SignCheckpoint(t.Context(), true); !signed || err != nil {
		t.Fatalf("after the previous one was dropped: %v, %v", signed, err)
	}
	if k, err := none.Key(t.Context()); err != nil || k.VerifierKey != key || k.Origin != "waypost/"+k.InstallID {
		t.Errorf("%+v, %v", k, err)
	}
	wantBad(t, f.verify(t, 0, 0), 0, "")
	f.note(t, "one more")
	f.seal(t)
	f.clock.wait(time.Minute)
	wrong := f.another(t, func(o *audit.Options) { o.SecretKey = secret('w') })
	if _, err := wrong.SignCheckpoint(t.Context(), true); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("with another secret key: %v", err)
	}
	if _, err := none.SignCheckpoint(t.Context(), true); !errors.Is(err, audit.ErrNoKey) {
		t.Errorf("without a secret key: %v", err)
	}
}

func TestInstancesThatNeedAKeyAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var wg sync.WaitGroup
	keys := make([]string, 4)
	for i := range keys {
		s := f.another(t, nil)
		wg.Go(func() {
			k, err := s.Key(t.Context())
			if err != nil {
				t.Error(err)
			}
			keys[i] = k.VerifierKey
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k == "" {
			t.Errorf("keys: %v", keys)
		}
	}
}
