package account_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/account"
)

// atOnce presents one refresh token n times in parallel and returns what came of
// each.
func (f fixture) atOnce(t *testing.T, token string, n int) ([]account.SignedIn, []error) {
	t.Helper()
	signed, errs := make([]account.SignedIn, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { signed[i], errs[i] = f.Refresh(t.Context(), token) })
	}
	wg.Wait()
	return signed, errs
}

// Whatever the clocks of those who ask show, one of them at most gets tokens when
// there is no grace, and the others end the session.
func TestOfFiftyParallelRefreshesAtMostOneSucceedsWhateverTheClock(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for name, step := range map[string]time.Duration{"forwards": time.Millisecond, "backwards": -time.Millisecond, "stands still": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var readings atomic.Int64
			f := newFixtureWith(t, func(o *account.Options) {
				o.Now = func() time.Time { return begin.Add(time.Duration(readings.Add(1)) * step) }
			})
			f.create(t, "ada@example.com", nil)
			for range 10 {
				s := f.signIn(t, "ada@example.com")
				signed, errs := f.atOnce(t, s.RefreshToken, 50)
				succeeded := slices.DeleteFunc(signed, func(s account.SignedIn) bool { return s.RefreshToken == "" })
				for _, err := range errs {
					if err != nil && !errors.Is(err, account.ErrRefreshReused) {
						t.Errorf("error is %v, want ErrRefreshReused", err)
					}
				}
				if len(succeeded) > 1 {
					t.Errorf("%d of 50 succeeded", len(succeeded))
				}
				for _, next := range succeeded {
					if _, err := f.Refresh(t.Context(), next.RefreshToken); !errors.Is(err, account.ErrSessionRevoked) {
						t.Errorf("the successor: %v, want ErrSessionRevoked", err)
					}
				}
			}
		})
	}
}

func TestAClockThatGoesBackForgivesNothing(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, time.Second, account.MaxRefreshGrace} {
		f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = grace })
		f.create(t, "ada@example.com", nil)
		s := f.signIn(t, "ada@example.com")
		f.refresh(t, s.RefreshToken)
		*f.now = f.now.Add(-time.Millisecond - grace)
		if _, err := f.Refresh(t.Context(), s.RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
			t.Errorf("grace %s: %v, want ErrRefreshReused", grace, err)
		}
		*f.now = f.now.Add(time.Millisecond + grace)
		f.wantRevoked(t, "afterwards", s.AccessToken)
	}
}

// Two tokens of one parent are two branches. Who uses one after the other was used
// is not the client that was forgiven.
func TestATokenOfAnotherBranchEndsTheFamily(t *testing.T) {
	t.Parallel()
	for branches := 2; branches <= 3; branches++ {
		for first := range branches {
			for second := range branches {
				if first == second {
					continue
				}
				t.Run(fmt.Sprintf("%d after %d of %d", second, first, branches), func(t *testing.T) {
					t.Parallel()
					f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = account.MaxRefreshGrace })
					f.create(t, "ada@example.com", nil)
					bystander := f.signIn(t, "ada@example.com")
					parent := f.signIn(t, "ada@example.com")
					siblings := make([]account.SignedIn, branches)
					for i := range siblings {
						siblings[i] = f.refresh(t, parent.RefreshToken)
					}
					*f.now = f.now.Add(time.Hour)
					next := f.refresh(t, siblings[first].RefreshToken)
					if _, err := f.Refresh(t.Context(), siblings[second].RefreshToken); !errors.Is(err, account.ErrRefreshReused) {
						t.Errorf("error is %v, want ErrRefreshReused", err)
					}
					f.wantRevoked(t, "the used branch", next.AccessToken)
					for what, s := range map[string]account.SignedIn{"the used branch": next, "a sibling": siblings[branches-1-first]} {
						if _, err := f.Refresh(t.Context(), s.RefreshToken); err == nil {
							t.Errorf("%s is refreshed on", what)
						}
					}
					f.refresh(t, bystander.RefreshToken)
				})
			}
		}
	}
}

func TestOfTwoBranchesUsedAtOnceAtMostOneGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = account.MaxRefreshGrace })
	f.create(t, "ada@example.com", nil)
	for range 20 {
		parent := f.signIn(t, "ada@example.com")
		siblings, _ := f.atOnce(t, parent.RefreshToken, 2)
		errs := make([]error, len(siblings))
		var wg sync.WaitGroup
		for i, s := range siblings {
			wg.Go(func() { _, errs[i] = f.Refresh(t.Context(), s.RefreshToken) })
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), account.ErrRefreshReused) {
			t.Errorf("two branches at once: %v", errs)
		}
		f.wantRevoked(t, "afterwards", parent.AccessToken)
	}
}

// A branch that nobody used stays without harm: clients that refresh twice at once
// keep one of the two answers.
func TestABranchThatIsNeverUsedEndsNothing(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = account.MaxRefreshGrace })
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	for range 5 {
		f.refresh(t, s.RefreshToken)
		s = f.refresh(t, s.RefreshToken)
		*f.now = f.now.Add(10 * time.Minute)
	}
	f.refresh(t, s.RefreshToken)
}

// family is what the rules say of one session, written down anew: a token is spent
// once, again only within the grace and while it is the youngest that was spent, and
// never once a token of its generation or of a later one was spent by another.
type family struct {
	tokens []familyToken
	ended  bool
}

type familyToken struct {
	secret     string
	generation int
	usedAt     time.Time // zero for never
}

func (m *family) spend(i int, now time.Time, grace time.Duration) (want error) {
	if m.ended {
		if m.tokens[i].usedAt.IsZero() {
			return account.ErrSessionRevoked
		}
		return account.ErrRefreshReused
	}
	k := &m.tokens[i]
	later, another := false, false
	for j, other := range m.tokens {
		if j == i || other.usedAt.IsZero() {
			continue
		}
		later = later || other.generation > k.generation
		another = another || other.generation == k.generation
	}
	switch {
	case k.usedAt.IsZero() && !later && !another:
		k.usedAt = now
		return nil
	case !k.usedAt.IsZero() && !later && now.Sub(k.usedAt) < grace:
		return nil
	}
	m.ended = true
	return account.ErrRefreshReused
}

func TestAFamilyLivesAndEndsByTheRulesInEveryOrder(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, account.MaxRefreshGrace} {
		f := newFixtureWith(t, func(o *account.Options) { o.RefreshGrace = grace })
		f.create(t, "ada@example.com", nil)
		rapid.Check(t, func(rt *rapid.T) {
			first := f.signIn(t, "ada@example.com")
			m := &family{tokens: []familyToken{{secret: first.RefreshToken, generation: 1}}}
			var did []string
			for range rapid.IntRange(1, 12).Draw(rt, "refreshes") {
				i := rapid.IntRange(0, len(m.tokens)-1).Draw(rt, "token")
				*f.now = f.now.Add(time.Duration(rapid.IntRange(0, 6).Draw(rt, "seconds")) * time.Second)
				did = append(did, fmt.Sprintf("token %d of generation %d", i, m.tokens[i].generation))
				next, err := f.Refresh(t.Context(), m.tokens[i].secret)
				want := m.spend(i, *f.now, grace)
				if !errors.Is(err, want) {
					rt.Fatalf("%v: %v, want %v", did, err, want)
				}
				if err == nil {
					m.tokens = append(m.tokens, familyToken{secret: next.RefreshToken, generation: m.tokens[i].generation + 1})
				}
			}
			_, err := f.Authenticate(t.Context(), first.AccessToken)
			if diff := cmp.Diff(m.ended, errors.Is(err, account.ErrSessionRevoked)); diff != "" {
				rt.Fatalf("%v: ended %s", did, diff)
			}
		})
	}
}
