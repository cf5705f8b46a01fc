package webhook_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/webhook"
)

type brokenError struct{ text *string }

func (e *brokenError) Error() string { return *e.text } // panics on its nil text

// Case 55.
func TestAHandlersEffectExistsIfAndOnlyIfTheEventIsProcessed(t *testing.T) {
	t.Parallel()
	exec := func(sql string, args ...any) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}
	}
	for name, c := range map[string]struct {
		after func(context.Context, pgx.Tx) error // behind the effect, in its transaction
		want  webhook.Status
		text  string // within handler_error
	}{
		"success":                    {func(context.Context, pgx.Tx) error { return nil }, webhook.Processed, ""},
		"error":                      {func(context.Context, pgx.Tx) error { return errHandler }, webhook.Failed, errHandler.Error()},
		"panic":                      {func(context.Context, pgx.Tx) error { panic("boom") }, webhook.Failed, "the handler panicked: boom"},
		"panic with nil":             {func(context.Context, pgx.Tx) error { panic(*new(error)) }, webhook.Failed, "panicked"},
		"Goexit":                     {func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil }, webhook.Failed, "ended its goroutine"},
		"an error that panics":       {func(context.Context, pgx.Tx) error { return &brokenError{} }, webhook.Failed, "panicked"},
		"an error without text":      {func(context.Context, pgx.Tx) error { return errors.New("") }, webhook.Failed, "without a text"},
		"statement error returned":   {exec(`select 1/0`), webhook.Failed, "division by zero"},
		"statement error swallowed":  {func(ctx context.Context, tx pgx.Tx) error { _ = exec(`select 1/0`)(ctx, tx); return nil }, webhook.Failed, "aborted"},
		"a deferred constraint":      {exec(`insert into effects (event, once) select gen_random_uuid(), 1 from generate_series(1, 2)`), webhook.Failed, "effects_once"},
		"it tries to commit":         {func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, webhook.Failed, "the receiver commits"},
		"it tries to roll back":      {func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, webhook.Failed, "the receiver commits"},
		"its own query times out":    {impatient, webhook.Failed, "deadline exceeded"},
		"a savepoint is rolled back": {savepoint, webhook.Processed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := f.receiver(t, setup{bindings: []webhook.Binding{webhook.Handle("payment", "paid", func(ctx context.Context, d *webhook.Delivery) error {
				if err := inTx(ctx, d); err != nil {
					return err
				}
				tx, err := d.Tx(ctx)
				if err != nil {
					return err
				}
				return c.after(ctx, tx)
			})}})
			got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			rec := mustFind(t, r, got.ID)
			if got.Status != c.want || rec.Status != c.want {
				t.Errorf("answered %s, stored %s, want %s (%s)", got.Status, rec.Status, c.want, rec.HandlerError)
			}
			if !strings.Contains(rec.HandlerError, c.text) || (c.want == webhook.Processed) != (rec.HandlerError == "") {
				t.Errorf("handler_error %q", rec.HandlerError)
			}
			if (rec.ProcessedAt != nil) != (c.want == webhook.Processed) {
				t.Errorf("processed_at %v", rec.ProcessedAt)
			}
			effects := f.count(t, `select count(*) from effects`)
			if (effects == 1) != (c.want == webhook.Processed) || effects > 1 {
				t.Errorf("%d effects", effects)
			}
		})
	}
}

func impatient(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := tx.Exec(ctx, `select pg_sleep(60)`)
	return err
}

func savepoint(ctx context.Context, tx pgx.Tx) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := inner.Exec(ctx, `select 1/0`); err == nil {
		return errors.New("1/0 is fine?")
	}
	return inner.Rollback(ctx)
}

// Case 56.
func TestAHandlersErrorIsStoredAsTextThatPostgreSQLTakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, text := range []string{
		"a\x00b", "\xff\xfe", "\x00", strings.Repeat("é", 1<<20), "x" + strings.Repeat("é", 1<<20), strings.Repeat("\xff", 1<<20), "line\nbreak",
	} {
		r := f.receiver(t, setup{bindings: []webhook.Binding{
			webhook.Handle("payment", "", func(context.Context, *webhook.Delivery) error { return errors.New(text) }),
		}})
		got := mustReceive(t, r, signed(t, "payment", "paid", eventID(i), `{}`))
		rec := mustFind(t, r, got.ID)
		if got.Status != webhook.Failed || rec.Status != webhook.Failed {
			t.Errorf("%.10q: answered %s, stored %s", text, got.Status, rec.Status)
		}
		if rec.HandlerError == "" || !utf8.ValidString(rec.HandlerError) || len(rec.HandlerError) > 5000 {
			t.Errorf("%.10q: stored %d bytes: %.40q", text, len(rec.HandlerError), rec.HandlerError)
		}
	}
}

func TestTheExactBindingComesBeforeTheCatchAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var exact, rest, host atomic.Int64
	r := f.receiver(t, setup{bindings: []webhook.Binding{
		webhook.Handle("payment", "", counting(&rest)),
		webhook.Handle("payment", "paid", counting(&exact)),
		webhook.Handle("codehost", "push", counting(&host)),
	}})
	for i, in := range []webhook.Inbound{
		signed(t, "payment", "paid", "1", `{}`), signed(t, "payment", "PAID", "2", `{}`), signed(t, "payment", "", "3", `{}`),
		signed(t, "codehost", "push", "1", `{}`), signed(t, "codehost", "ping", "2", `{}`),
	} {
		if got := mustReceive(t, r, in); got.Status != webhook.Processed {
			t.Errorf("delivery %d: %s", i, got.Status)
		}
	}
	if exact.Load() != 1 || rest.Load() != 2 || host.Load() != 1 {
		t.Errorf("exact %d, catch-all %d, code host %d", exact.Load(), rest.Load(), host.Load())
	}
}

// Case 57.
func TestASlowHandlerIsAnsweredAsPendingAndWorksOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.AnswerAfter = 20 * time.Millisecond; o.Budget = time.Hour },
		bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
			if err := inTx(ctx, d); err != nil {
				return err
			}
			<-release
			return nil
		})},
	})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	if got.Status != webhook.Pending || got.EventType != "paid" || got.ExternalID != "evt_1" {
		t.Errorf("receipt %+v", got)
	}
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Pending {
		t.Errorf("stored %s while the handler runs", rec.Status)
	}
	close(release)
	eventually(t, r, got.ID, webhook.Processed)
	if n := f.count(t, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAnOverrunFailsTheEventAndItsLateEffectIsRolledBack(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]func(release chan struct{}) webhook.Handler{
		"in its transaction, deaf to its context": func(release chan struct{}) webhook.Handler {
			return func(ctx context.Context, d *webhook.Delivery) error {
				err := inTx(ctx, d)
				<-release
				return err
			}
		},
		"asking for the transaction too late": func(release chan struct{}) webhook.Handler {
			return func(ctx context.Context, d *webhook.Delivery) error {
				<-release
				return inTx(context.WithoutCancel(ctx), d)
			}
		},
		"returning when told to": func(chan struct{}) webhook.Handler {
			return func(ctx context.Context, d *webhook.Delivery) error {
				if err := inTx(ctx, d); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			release := make(chan struct{})
			r := f.receiver(t, setup{
				change:   func(o *webhook.Options) { o.AnswerAfter = 10 * time.Millisecond; o.Budget = 300 * time.Millisecond },
				bindings: []webhook.Binding{webhook.Handle("payment", "", h(release))},
			})
			got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
			rec := eventually(t, r, got.ID, webhook.Failed)
			if !strings.Contains(rec.HandlerError, "time budget") && !strings.Contains(rec.HandlerError, "context") {
				t.Errorf("handler_error %q", rec.HandlerError)
			}
			close(release)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := r.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if rec := mustFind(t, r, got.ID); rec.Status != webhook.Failed {
				t.Errorf("afterwards %s", rec.Status)
			}
			if n := f.count(t, `select count(*) from effects`); n != 0 {
				t.Errorf("%d effects of a failed event", n)
			}
		})
	}
}

// Case 59; with processes, TestTwoInstancesKeepThePromisesThroughARollingRestart.
func TestCloseWaitsForHandlersAndRefusesNewWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.AnswerAfter = 10 * time.Millisecond; o.Budget = time.Hour },
		bindings: []webhook.Binding{webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
			<-release
			return inTx(ctx, d)
		})},
	})
	got := mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	closed := make(chan error, 1)
	go func() { closed <- r.Close(t.Context()) }()
	for { // until Close has begun
		_, err := r.Receive(t.Context(), signed(t, "codehost", "push", "", `{}`))
		if errors.Is(err, webhook.ErrStorage) {
			break
		}
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Sweep(t.Context()); err == nil {
		t.Error("a sweep starts while closing")
	}
	if _, err := r.Replay(t.Context(), got.ID, true); err == nil {
		t.Error("a replay starts while closing")
	}
	select {
	case err := <-closed:
		t.Fatalf("closed under a running handler: %v", err)
	default:
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if rec := mustFind(t, r, got.ID); rec.Status != webhook.Processed {
		t.Errorf("after Close: %s", rec.Status)
	}
}
