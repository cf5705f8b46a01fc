package webhook_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

// mailed keeps the alerts that were to be mailed.
type mailed struct{ details []string }

func (m *mailed) Alert(_ context.Context, _ pgx.Tx, _, _, detail string) (int, error) {
	m.details = append(m.details, detail)
	return 1, nil
}

func TestAnAlertIsMailedOncePerStreakEvenWithoutAURL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var broken atomic.Bool
	broken.Store(true)
	r := f.receiver(t, setup{bindings: []webhook.Binding{flaky(&broken)}})
	for n := range 3 {
		mustReceive(t, r, signed(t, "payment", "paid", eventID(n+1), `{}`))
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var box mailed
	for range 2 { // instances, and rounds
		a, err := webhook.NewAlerts(webhook.AlertOptions{
			DB: f.db, Registry: registry, Logger: slog.New(slog.DiscardHandler), Jobs: jobs, Streak: 3, Mail: &box,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := a.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(box.details) != 1 || box.details[0] != "The last 3 webhook events of payment in a row have failed." {
		t.Errorf("%q", box.details)
	}
}
