package webhook_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// short makes handlers' times short.
func short(o *webhook.Options) {
	o.MaxTransactions, o.Budget, o.Grace, o.AnswerAfter = 1, 100*time.Millisecond, 50*time.Millisecond, 10*time.Millisecond
}

func TestAHandlerThatIgnoresItsEndLosesItsTransactionAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(*webhook.Delivery, chan struct{}) error{
		"it waits": func(_ *webhook.Delivery, release chan struct{}) error { <-release; return nil },
		"in a statement": func(d *webhook.Delivery, release chan struct{}) error {
			tx, err := d.Tx(context.Background())
			if err == nil {
				_, err = tx.Exec(context.Background(), `select pg_sleep(1000)`)
			}
			<-release
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			release, ended := make(chan struct{}), make(chan error, 1)
			r := f.receiver(t, setup{change: short, bindings: []webhook.Binding{
				webhook.Handle("payment", "stuck", func(ctx context.Context, d *webhook.Delivery) error {
					if err := inTx(ctx, d); err != nil {
						return err
					}
					err := hang(d, release)
					tx, txErr := d.Tx(context.Background())
					if txErr == nil {
						_, txErr = tx.Exec(context.Background(), `insert into effects (event) values ($1)`, d.Event.ID)
					}
					ended <- txErr
					return err
				}),
				webhook.Handle("payment", "quick", inTx),
			}})
			got := mustReceive(t, r, signed(t, "payment", "stuck", "1", `{}`))
			eventually(t, r, got.ID, webhook.Failed)
			if !within(patience, func() bool {
				return f.count(t, `select count(*) from pg_stat_activity where datname = current_database() and (state = 'idle in transaction' or query like '%pg_sleep%' and pid <> pg_backend_pid())`) == 0
			}) {
				t.Error("its transaction is still open")
			}
			// The only place for transactions is free.
			quick := mustReceive(t, r, signed(t, "payment", "quick", "2", `{}`))
			eventually(t, r, quick.ID, webhook.Processed)
			close(release)
			if err := <-ended; err == nil {
				t.Error("it could still write")
			}
			if n := f.count(t, `select count(*) from effects`); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestOfAHandlerThatNeverEndsOnlySoManyRunAtOnceAndOthersGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var started, others atomic.Int64
	release := make(chan struct{})
	r := f.receiver(t, setup{change: short, bindings: []webhook.Binding{
		webhook.Handle("payment", "stuck", func(context.Context, *webhook.Delivery) error { started.Add(1); <-release; return nil }),
		webhook.Handle("payment", "quick", counting(&others)),
	}})
	for i := range 30 {
		mustReceive(t, r, signed(t, "payment", "stuck", eventID(i), `{}`))
		<-time.After(20 * time.Millisecond)
	}
	if !within(patience, func() bool {
		return f.count(t, `select count(*) from webhook_events where status = 'pending' and lease_id is not null`) == 0
	}) {
		t.Error("some are still being handled")
	}
	if n := started.Load(); n < 16 || n > 26 {
		t.Errorf("%d runs were started", n)
	}
	if n := f.count(t, `select count(*) from webhook_events where status = 'pending' and tries = 0`); n != 30-int(started.Load()) {
		t.Errorf("%d events wait, %d were started", n, started.Load())
	}
	mustReceive(t, r, signed(t, "payment", "quick", "2", `{}`))
	if others.Load() != 1 {
		t.Error("another handler was held up")
	}
	close(release)
	if !within(patience, func() bool { f.workJobs(t, r); return started.Load() == 30 }) {
		t.Errorf("%d runs after they ended", started.Load())
	}
}

// The service ends although they don't.
func TestARunThatNeverEndsDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newTarget(t, status(http.StatusOK))
	release := make(chan struct{})
	defer close(release)
	r := f.receiver(t, setup{change: short, bindings: []webhook.Binding{
		forwardTo(t, to, "forwarded"),
		webhook.Handle("payment", "stuck", func(context.Context, *webhook.Delivery) error { <-release; return nil }),
	}})
	got := mustReceive(t, r, signed(t, "payment", "stuck", "1", `{}`))
	eventually(t, r, got.ID, webhook.Failed)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
