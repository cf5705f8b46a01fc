package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/audit"
)

func TestAnEntryThatNoSealingPlacesIsUnsealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.fill(t, 10)
	f.note(t, "x")
	f.tamper(t, `create or replace function audit_seal(most_rows integer) returns integer language sql security definer as 'select 0'`)
	v := f.verify(t, 0, 0)
	wantBad(t, v, 0, audit.ReasonUnsealed)
	if v.Unsealed != 1 {
		t.Errorf("%d are unsealed", v.Unsealed)
	}
}

func TestVerificationsThatClientsAskForHoldOneConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addSite(t)
	f.tamper(t, `begin; select from audit_head for update`) // the first waits here
	first := make(chan error, 1)
	go func() {
		_, err := f.Verify(context.WithoutCancel(t.Context()), 0, 0, 0)
		first <- err
	}()
	for ask[int](t, f, `select count(*)::int from pg_locks where not granted`) == 0 {
		select {
		case err := <-first:
			t.Fatal("the first verification didn't wait:", err)
		case <-time.After(time.Millisecond):
		}
	}
	if _, err := f.Verify(t.Context(), 0, 0, 0); !errors.Is(err, db.ErrBusy) {
		t.Errorf("a second at once: %v, want ErrBusy", err)
	}
	f.tamper(t, `rollback`)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if v, err := f.Verify(t.Context(), 0, 0, 0); err != nil || !v.OK {
		t.Errorf("after both: %+v, %v", v, err)
	}
}
