package account_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
)

const (
	refreshRounds = 500
	// parties share the rounds: each has an account, and one round at a time.
	parties = 4
)

// skewed is a fixture whose clock shows, at each reading, another time within spread:
// so differ the clocks of several instances.
func skewed(t *testing.T, spread, grace time.Duration) fixture {
	t.Helper()
	begin := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	return newFixtureWith(t, func(o *account.Options) {
		o.RefreshGrace = grace
		o.Now = func() time.Time { return begin.Add(rand.N(spread)) }
	})
}

// rounds gives each round a new session of its party's account.
func (f fixture) rounds(t *testing.T, do func(t *testing.T, round int, s account.SignedIn)) {
	t.Helper()
	for party := range parties {
		t.Run(fmt.Sprintf("party %d", party), func(t *testing.T) {
			t.Parallel()
			for round := party; round < refreshRounds; round += parties {
				// Another account after some rounds: one may only refresh so often.
				email := fmt.Sprintf("ada%d-%d@example.com", party, round/100)
				if round%100 == party {
					f.create(t, email, nil)
				}
				do(t, round, f.signIn(t, email))
			}
		})
	}
}

// twentyAtOnce presents one token twenty times and returns what those got that were
// answered; whoever was not was told that the token was used.
func (f fixture) twentyAtOnce(t *testing.T, round int, token string) []account.SignedIn {
	t.Helper()
	signed, errs := f.atOnce(t, token, 20)
	var answered []account.SignedIn
	for i, err := range errs {
		switch {
		case err == nil:
			answered = append(answered, signed[i])
		case !errors.Is(err, account.ErrRefreshReused) && !errors.Is(err, account.ErrSessionRevoked):
			t.Errorf("round %d: error is %v", round, err)
		}
	}
	return answered
}

func TestCase10OfTwentyParallelRefreshesNeverTwoSucceedWithoutGraceIn500Rounds(t *testing.T) {
	t.Parallel()
	f := skewed(t, 4*time.Second, 0)
	f.rounds(t, func(t *testing.T, round int, s account.SignedIn) {
		answered := f.twentyAtOnce(t, round, s.RefreshToken)
		if len(answered) > 1 {
			t.Errorf("round %d: %d of 20 succeeded", round, len(answered))
		}
		for _, next := range answered {
			if _, err := f.Refresh(t.Context(), next.RefreshToken); !errors.Is(err, account.ErrSessionRevoked) {
				t.Errorf("round %d: the successor: %v, want ErrSessionRevoked", round, err)
			}
		}
	})
}

// With grace, each of the twenty may be the client's, so all are answered; then the
// branch that is used first lives, until another one is used, which ends both.
func TestCase10OfTwentyParallelRefreshesWithGraceOneBranchLivesIn500Rounds(t *testing.T) {
	t.Parallel()
	f := skewed(t, 4*time.Second, account.MaxRefreshGrace)
	f.rounds(t, func(t *testing.T, round int, s account.SignedIn) {
		branches := f.twentyAtOnce(t, round, s.RefreshToken)
		if len(branches) != 20 {
			t.Errorf("round %d: %d of 20 were answered", round, len(branches))
			return
		}
		lives := branches[rand.N(20)]
		for range 2 {
			next, err := f.Refresh(t.Context(), lives.RefreshToken)
			if err != nil {
				t.Errorf("round %d: the branch in use: %v", round, err)
				return
			}
			lives = next
		}
		other := branches[rand.N(20)] // perhaps the same one, which was used long before then
		if _, err := f.Refresh(t.Context(), other.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
			t.Errorf("round %d: another branch: %v, want ErrRefreshReused", round, err)
		}
		if _, err := f.Refresh(t.Context(), lives.RefreshToken); !errors.Is(err, account.ErrSessionRevoked) {
			t.Errorf("round %d: the branch that was in use: %v, want ErrSessionRevoked", round, err)
		}
	})
}
