package account_test

import (
	"errors"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/account"
)

func TestAVisitEndsWhenNobodyLooksAndAtItsLatestEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	open := func() account.Visit {
		v, err := f.OpenVisit(t.Context(), "ada@example.com", password)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	holds := func(v account.Visit, looking bool) bool {
		_, _, err := f.AuthenticateVisit(t.Context(), v.Secret, looking)
		if err != nil && !errors.Is(err, account.ErrSessionRevoked) {
			t.Fatal(err)
		}
		return err == nil
	}
	v := open()
	for elapsed := time.Duration(0); elapsed < 12*time.Hour; elapsed += 20 * time.Minute {
		if !holds(v, true) {
			t.Fatalf("it ended after %s, while somebody looked", elapsed)
		}
		*f.now = f.now.Add(20 * time.Minute)
	}
	if holds(v, true) {
		t.Error("it holds after twelve hours")
	}
	v = open()
	for range 6 { // a page that renews itself
		if !holds(v, false) {
			t.Fatal("it ended within half an hour")
		}
		*f.now = f.now.Add(5 * time.Minute)
	}
	if holds(v, false) {
		t.Error("it holds though nobody looked for half an hour")
	}
}

func TestVisitsCountAmongTheSessionsOfAnAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "ada@example.com", nil)
	first, err := f.OpenVisit(t.Context(), "ada@example.com", password)
	if err != nil {
		t.Fatal(err)
	}
	for range account.MaxSessions {
		*f.now = f.now.Add(time.Second)
		f.signIn(t, "ada@example.com")
	}
	if _, _, err := f.AuthenticateVisit(t.Context(), first.Secret, true); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("the first session of 51: %v", err)
	}
	if _, _, err := f.AuthenticateVisit(t.Context(), "wpv_"+first.Secret[4:20], true); !errors.Is(err, account.ErrSessionRevoked) {
		t.Errorf("half a secret: %v", err)
	}
}
