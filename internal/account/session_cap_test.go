package account_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/token"
)

// another is another instance at the same database.
func (f fixture) another(t *testing.T) *account.Service {
	t.Helper()
	clock := func() time.Time { return *f.now }
	tokens, err := token.New(t.Context(), token.Options{
		DB: f.db, Issuer: "https://waypost.example", SecretKey: bytes.Repeat([]byte{'k'}, token.MinSecretKey), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := account.New(account.Options{DB: f.db, Tokens: tokens, PasswordCost: cheapHashes, Now: clock, Mail: f.mail, Jobs: f.jobs, URL: "https://waypost.example"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// live is how many sessions of an account hold.
func (f fixture) live(t *testing.T, email string) int {
	t.Helper()
	var n int
	err := f.db.Direct().QueryRow(t.Context(), `select count(*) from auth_sessions s join users u on u.id = s.user_id
		where u.email = $1 and s.revoked_at is null and s.expires_at > $2`, email, *f.now).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheFiftyFirstSessionEndsTheFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	f.create(t, "eve@example.com", nil)
	bystander := f.signIn(t, "eve@example.com")
	var all []account.SignedIn
	for range account.MaxSessions + 2 {
		*f.now = f.now.Add(time.Second)
		all = append(all, f.signIn(t, "ada@example.com"))
	}
	// Its age counts, not when it was used last.
	f.wantRevoked(t, "the first", all[0].AccessToken)
	f.wantRevoked(t, "the second", all[1].AccessToken)
	if _, err := f.Refresh(t.Context(), all[0].RefreshToken); err == nil {
		t.Error("the first is refreshed on")
	}
	for i, s := range append(all[2:], bystander) {
		if _, err := f.Authenticate(t.Context(), s.AccessToken); err != nil {
			t.Errorf("session %d: %v", i+3, err)
		}
	}
	if n := f.live(t, "ada@example.com"); n != account.MaxSessions {
		t.Errorf("%d sessions hold", n)
	}
}

func TestSessionsThatEndedTakeNoPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	first := f.signIn(t, "ada@example.com")
	for range account.MaxSessions + 10 {
		*f.now = f.now.Add(time.Second)
		if err := f.SignOut(f.as(t, f.signIn(t, "ada@example.com").AccessToken)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Authenticate(t.Context(), first.AccessToken); err != nil {
		t.Errorf("the first: %v", err)
	}
}

// However many sign in at once, at several instances, and even if their clocks show
// the same.
func TestOfSignInsAtOnceNoMoreThanFiftySessionsHoldAndTheNewestIsAmongThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	instances := []*account.Service{f.Service, f.another(t), f.another(t)}
	var wg sync.WaitGroup
	for _, instance := range instances {
		for range 30 {
			wg.Go(func() {
				err := error(account.ErrBusy) // which a slow machine may answer
				for errors.Is(err, account.ErrBusy) {
					_, err = instance.SignIn(t.Context(), "ada@example.com", password)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := f.live(t, "ada@example.com"); n != account.MaxSessions {
		t.Errorf("%d sessions hold", n)
	}
	newest := f.signIn(t, "ada@example.com")
	if _, err := f.Authenticate(t.Context(), newest.AccessToken); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

// A bot that signs in for every request leaves a bounded number of rows.
func TestABotThatSignsInForEachRequestLeavesABoundedRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "bot@example.com", nil)
	f.exec(t, `insert into auth_sessions (id, user_id, created_at, expires_at, revoked_at, authenticated_at, last_used_at)
		select gen_random_uuid(), $1, $2::timestamptz - make_interval(secs => i), $2::timestamptz + interval '1 day', $2, $2, $2 from generate_series(1, 1500) i`, u.ID, *f.now)
	*f.now = f.now.Add(time.Second)
	kept := f.signIn(t, "bot@example.com")
	f.signIn(t, "bot@example.com")
	if n := f.rows(t, "auth_sessions"); n != 2+450 {
		t.Errorf("%d sessions are on record", n)
	}
	if _, err := f.Authenticate(t.Context(), kept.AccessToken); err != nil {
		t.Error(err)
	}
}

// An older version of this program, which runs beside this one, opens as many as it
// likes.
func TestSurplusSessionsOfBeforeEndAFewAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.create(t, "bot@example.com", nil)
	f.exec(t, `insert into auth_sessions (id, user_id, created_at, expires_at, authenticated_at, last_used_at)
		select gen_random_uuid(), $1, $2::timestamptz - make_interval(secs => i), $2::timestamptz + interval '1 day', $2, $2 from generate_series(1, 2040) i`, u.ID, *f.now)
	*f.now = f.now.Add(time.Second)
	var got []int
	for range 3 {
		f.signIn(t, "bot@example.com")
		got = append(got, f.live(t, "bot@example.com"))
	}
	if diff := cmp.Diff([]int{1041, 50, 50}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfARefreshedSessionABoundedNumberOfTokensIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	s := f.signIn(t, "ada@example.com")
	// As after 1,199 refreshes.
	f.exec(t, `insert into refresh_tokens (token_sha256, session_id, created_at, used_at, generation)
		select sha256(int4send(i)), (select id from auth_sessions), $1, $1, i from generate_series(1, 1198) i`, *f.now)
	f.exec(t, `update refresh_tokens set generation = 1199 where used_at is null`)
	next := f.refresh(t, s.RefreshToken)
	if n := f.rows(t, "refresh_tokens"); n != 1001 {
		t.Errorf("%d tokens are kept", n)
	}
	f.refresh(t, next.RefreshToken)
	if _, err := f.Refresh(t.Context(), s.RefreshToken); err == nil {
		t.Error("a token that was used is good again")
	}
	f.wantRevoked(t, "after a token was used again", next.AccessToken)
}
