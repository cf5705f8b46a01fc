package account_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/throttle"
)

// notes are what the audit log notes of refused sign-ins, oldest first.
func notes(t *testing.T, f fixture) []string {
	t.Helper()
	rows, err := f.db.Direct().Query(t.Context(), `select table_name || ' ' || row_id || ' ' || (changes::jsonb #>> '{note,reason}') || ' by ' || actor_type
		from audit_pending where op = 'note' order by id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRefusedSignInsOfAccountsAreNotedAndThrottledOnesOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := f.create(t, "ada@example.com", nil)
	ctx := from(t, "198.51.100.7")
	try := func(email string, want error) {
		t.Helper()
		if _, err := f.SignIn(ctx, email, "wrong password"); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", email, err, want)
		}
	}
	wrong := fmt.Sprintf("users %d password by anonymous", ada.ID)
	throttled := fmt.Sprintf("users %d throttled by anonymous", ada.ID)
	var want []string
	for range 10 {
		try("ada@example.com", account.ErrInvalidCredentials)
		try("nobody@example.com", account.ErrInvalidCredentials)
		want = append(want, wrong)
	}
	if diff := cmp.Diff(want, notes(t, f)); diff != "" {
		t.Error("tries:", diff)
	}
	for range 5 { // nobody's come first, and hide nothing
		try("nobody@example.com", throttle.ErrLimited)
		try("ada@example.com", throttle.ErrLimited)
	}
	want = append(want, throttled)
	if diff := cmp.Diff(want, notes(t, f)); diff != "" {
		t.Error("throttled:", diff)
	}
	ctx = from(t, "203.0.113.9")
	try("ada@example.com", throttle.ErrLimited)
	want = append(want, throttled)
	*f.now = f.now.Add(30 * time.Second)
	try("ada@example.com", throttle.ErrLimited)
	if diff := cmp.Diff(want, notes(t, f)); diff != "" {
		t.Error("from elsewhere:", diff)
	}
}
