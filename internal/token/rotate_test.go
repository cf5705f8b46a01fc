package token_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/token"
)

// kids are the key ids of the published set.
func kids(t *testing.T, s *token.Service) []string {
	t.Helper()
	raw, err := s.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, k := range set.Keys {
		list = append(list, k.Kid)
	}
	return list
}

func kidOf(t *testing.T, raw string) string {
	t.Helper()
	kid, _ := header(t, raw)["kid"].(string)
	return kid
}

type movingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movingClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movingClock) wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClocked(t *testing.T, d *db.DB, c *movingClock) *token.Service {
	t.Helper()
	return newService(t, d, func(o *token.Options) { o.Now = c.read })
}

func TestARotationInvalidatesNoTokenAndIsPublishedAhead(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	one, other := newClocked(t, d, c), newClocked(t, d, c)
	if n, err := one.Rotate(t.Context()); err != nil || n != 0 {
		t.Fatalf("a young key: %d, %v", n, err)
	}
	first := kidOf(t, issue(t, one, someClaims()))
	c.wait(token.DefaultKeyLifetime)
	if n, err := one.Rotate(t.Context()); err != nil || n != 1 {
		t.Fatalf("an old key: %d, %v", n, err)
	}
	if n, err := other.Rotate(t.Context()); err != nil || n != 0 {
		t.Fatalf("once more: %d, %v", n, err)
	}
	// Every five minutes for two hours: what one instance signs the other verifies
	// at once, and to the end of the token's life.
	type issued struct {
		raw     string
		expires time.Time
	}
	var good []issued
	signers := map[string]bool{}
	for range 24 {
		for _, s := range []*token.Service{one, other} {
			raw := issue(t, s, someClaims())
			if published := kids(t, s); !slices.Contains(published, kidOf(t, raw)) {
				t.Errorf("signed by %s, which is not among %v", kidOf(t, raw), published)
			}
			signers[kidOf(t, raw)] = true
			good = append(good, issued{raw, c.read().Add(token.AccessTTL)})
		}
		for _, g := range good {
			for _, s := range []*token.Service{one, other} {
				if _, err := s.VerifyAccess(t.Context(), g.raw); c.read().Before(g.expires) && err != nil {
					t.Fatalf("a good token: %v", err)
				}
			}
		}
		c.wait(5 * time.Minute)
	}
	if len(signers) != 2 || !signers[first] {
		t.Errorf("signers: %v", signers)
	}
	if published := kids(t, other); len(published) != 1 || published[0] == first {
		t.Errorf("in the end %v are published", published)
	}
}

func TestOfInstancesThatRotateAtOnceOneDoes(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	s := newClocked(t, d, c)
	c.wait(token.DefaultKeyLifetime)
	counts := make([]int, 8)
	errs := make([]error, len(counts))
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() { counts[i], errs[i] = s.Rotate(t.Context()) })
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if err := errors.Join(errs...); err != nil || sum != 1 || len(kids(t, s)) != 2 {
		t.Errorf("%d rotations, %v, keys %v", sum, err, kids(t, s))
	}
}

func TestReplacedKeysVerifyNothing(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	one, other := newClocked(t, d, c), newClocked(t, d, c)
	raw := issue(t, one, someClaims())
	if err := one.RotateNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := one.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("here: %v, want ErrInvalid", err)
	}
	c.wait(time.Minute)
	if _, err := other.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("on another instance, a minute later: %v, want ErrInvalid", err)
	}
	if _, err := other.VerifyAccess(t.Context(), issue(t, one, someClaims())); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
}

func TestAKeyThatIsNewToAnInstanceIsLookedUpButNotAtEveryGuess(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	one, other := newClocked(t, d, c), newClocked(t, d, c)
	if err := one.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := issue(t, one, someClaims())
	if _, err := other.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("it looked again within seconds: %v", err)
	}
	c.wait(5 * time.Second)
	if _, err := other.VerifyAccess(t.Context(), raw); err != nil {
		t.Errorf("seconds later: %v", err)
	}
}

func TestKeysSurviveTheLossOfTheDatabase(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	s := newClocked(t, d, c)
	d.Close()
	c.wait(time.Hour)
	if _, err := s.VerifyAccess(t.Context(), issue(t, s, someClaims())); err != nil {
		t.Error(err)
	}
}

// Whoever hangs up while the keys are read keeps nobody from new ones: reading them is
// tried at most every few seconds, and it would be the next one who hangs up that tries.
func TestARequestThatIsCancelledKeepsNoInstanceOnOldKeys(t *testing.T) {
	t.Parallel()
	d, c := dbtest.New(t), &movingClock{now: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	one, other := newClocked(t, d, c), newClocked(t, d, c)
	old := issue(t, one, someClaims())
	if err := one.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wait(time.Minute)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	other.RefreshKeys(gone)
	if _, err := other.VerifyAccess(t.Context(), old); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a token of a replaced key: %v, want ErrInvalid", err)
	}
	if _, err := other.VerifyAccess(t.Context(), issue(t, one, someClaims())); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
}
