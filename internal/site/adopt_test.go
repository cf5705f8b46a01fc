package site_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
)

func TestKeysThatAnOperatorChoseWorkAndBelongToOneSite(t *testing.T) {
	t.Parallel()
	s, err := site.New(site.Options{DB: dbtest.New(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	first, err := s.Create(ctx, "First", "first.example", "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Create(ctx, "Second", "second.example", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AdoptSiteKey(ctx, first.ID, "my-site-key"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.BySiteKey(ctx, "my-site-key"); err != nil || got.ID != first.ID {
		t.Errorf("public key: %v, %v", got.ID, err)
	}
	if _, err := s.AdoptSiteKey(ctx, second.ID, "my-site-key"); !errors.Is(err, site.ErrKeyTaken) {
		t.Errorf("the same public key for another site: %v", err)
	}
	if _, err := s.AdoptKey(ctx, first.ID, "dev", site.ScopeRead, "my-secret-key"); err != nil {
		t.Fatal(err)
	}
	if got, key, err := s.AuthenticateKey(ctx, "my-secret-key"); err != nil || got.ID != first.ID || key.Scope != site.ScopeRead {
		t.Errorf("secret key: %v, %v, %v", got.ID, key.Scope, err)
	}
	if _, err := s.AdoptKey(ctx, second.ID, "dev", site.ScopeRead, "my-secret-key"); !errors.Is(err, site.ErrKeyTaken) {
		t.Errorf("the same secret for another site: %v", err)
	}
	for _, bad := range []string{"", "short", "has space in it", "has\x00nul in it"} {
		if _, err := s.AdoptSiteKey(ctx, first.ID, bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("public key %q: %v", bad, err)
		}
		if _, err := s.AdoptKey(ctx, first.ID, "dev", site.ScopeRead, bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("secret key %q: %v", bad, err)
		}
	}
}
