package token_test

import (
	"errors"
	"testing"
	"time"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/token"
)

func TestATokenThatWasGoodOnceIsJudgedAnewEachTime(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	s := newClocked(t, d, c)
	verify := func(raw string) error {
		_, err := s.VerifyAccess(t.Context(), raw)
		return err
	}
	// Among more tokens than are remembered.
	first := issue(t, s, someClaims())
	for range token.VerifiedKept*2 + 10 {
		raw := issue(t, s, someClaims())
		if err := errors.Join(verify(raw), verify(raw)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Remembered(); n > 2*token.VerifiedKept {
		t.Errorf("%d tokens are remembered", n)
	}
	if err := errors.Join(verify(first), verify(first)); err != nil {
		t.Error(err)
	}
	last := first[len(first)-2:]
	for _, forged := range []string{first + "A", first[:len(first)-1], first[:len(first)-2] + string([]byte{last[1], last[0]}), "A" + first} {
		if err := verify(forged); forged != first && !errors.Is(err, token.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", forged, err)
		}
	}
	if _, err := s.VerifyChallenge(t.Context(), first); err == nil {
		t.Error("it passes for a challenge")
	}
	if err := s.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := verify(first); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("its key was replaced: %v, want ErrInvalid", err)
	}
	second := issue(t, s, someClaims())
	if err := verify(second); err != nil {
		t.Error(err)
	}
	c.wait(time.Hour)
	if err := verify(second); !errors.Is(err, token.ErrExpired) {
		t.Errorf("an hour later: %v, want ErrExpired", err)
	}
}
