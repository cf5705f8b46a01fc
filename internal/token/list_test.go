package token_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/token"
)

func TestTheListFollowsAKeyThroughItsLife(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	states := func() []token.KeyState {
		t.Helper()
		keys, err := token.List(t.Context(), d, c.read())
		if err != nil {
			t.Fatal(err)
		}
		var list []token.KeyState
		for _, k := range keys {
			list = append(list, k.State)
		}
		return list
	}
	want := func(when string, wanted ...token.KeyState) {
		t.Helper()
		if diff := cmp.Diff(wanted, states()); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	want("before the first start")
	s := newClocked(t, d, c)
	want("at the first start", token.KeySigning)
	if err := s.RotateNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("rotated", token.KeyPublished, token.KeySigning)
	c.wait(16 * time.Minute)
	want("once the new key signs", token.KeySigning, token.KeyVerifying)
	c.wait(31 * time.Minute)
	want("once the last token of the old one is over", token.KeySigning)
	if err := s.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("replaced at once", token.KeySigning)
}
