package token_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

// Abuse case 6, as far as challenges go.
func TestCase06AChallengeAndAnAccessTokenNeverPassForEachOther(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	s, err := token.New(t.Context(), token.Options{
		DB: dbtest.New(t), Issuer: issuer, SecretKey: secret('k'), Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := token.Challenge{UserID: 7, First: "pwd", Version: "v"}
	raw, err := s.IssueChallenge(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.VerifyChallenge(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := s.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a challenge as access token: %v, want ErrInvalid", err)
	}
	access, err := s.IssueAccess(token.Claims{UserID: 7, SessionID: uuid.New(), Role: identity.User})
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{"an access token": access, "nothing": "", "noise": "a.b.c", "a changed one": raw[:len(raw)-4] + "AAAA"} {
		if _, err := s.VerifyChallenge(t.Context(), raw); !errors.Is(err, token.ErrChallenge) {
			t.Errorf("%s as challenge: %v, want ErrChallenge", name, err)
		}
	}
	now = now.Add(token.ChallengeTTL)
	if _, err := s.VerifyChallenge(t.Context(), raw); !errors.Is(err, token.ErrChallenge) {
		t.Errorf("after its time: %v, want ErrChallenge", err)
	}
}
