package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/identity"
)

const (
	auditConns  = 32
	auditRounds = 5
	// auditLeast is the least that audited mutations may be of the same without triggers.
	auditLeast = 0.5
	// auditSealed is the most that p99 of the time to a place in the chain may be.
	auditSealed = 100 * time.Millisecond
	// auditedNoop is the least that deliveries with a no-op handler may be of INSERT,
	// then UPDATE; bareNoop the least without triggers.
	auditedNoop = 1.15
	bareNoop    = 1.3
)

// auditFigure holds audited mutations against the same with the triggers off, and then
// deliveries and hits.
func auditFigure(ctx context.Context, w *world) error {
	if err := w.auditedMutations(ctx); err != nil {
		return err
	}
	if err := w.auditedDeliveries(ctx); err != nil {
		return err
	}
	return w.auditedHits(ctx)
}

// setTriggers switches the log of all tables on or off.
func (w *world) setTriggers(ctx context.Context, on bool) error {
	how := "disable"
	if on {
		how = "enable always"
	}
	_, err := w.owner.Exec(ctx, fmt.Sprintf(`do $$
		declare t record;
		begin
			for t in select tgrelid::regclass as target, tgname from pg_trigger where tgname in ('audit_row', 'audit_insert', 'audit_update', 'audit_delete') loop
				execute format('alter table %%s %s trigger %%I', t.target, t.tgname);
			end loop;
		end $$`, how))
	return err
}

// auditedMutations inserts posts, each in a transaction of its own.
func (w *world) auditedMutations(ctx context.Context) error {
	var author int64
	err := w.owner.QueryRow(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		values ('Bench', 'Mark', 'bench@example.com', 'bench@example.com', '', now(), now()) returning id`).Scan(&author)
	if err != nil {
		return err
	}
	writers, err := db.Open(ctx, db.Options{URL: w.server.AppURL("bench"), MaxConns: auditConns})
	if err != nil {
		return err
	}
	defer writers.Close()
	log, err := audit.New(audit.Options{DB: w.db, Logger: slog.New(slog.DiscardHandler), SecretKey: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		return err
	}
	committed := make(chan struct{}, 1)
	sealing := log.StartSealing(committed)
	write := func() error {
		err := writers.InTx(ctx, identity.System("bench"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into posts (author_id, title, body, tags, created_at, updated_at) values ($1, 'A post of the benchmark', $2, '{bench}', now(), now())`, author, filling[:200])
			return err
		})
		select {
		case committed <- struct{}{}:
		default:
		}
		return err
	}
	round := func(d time.Duration) (rate, error) {
		return inParallel(auditConns, d, func(until time.Time) ([]time.Duration, error) { return timed(until, write) })
	}
	if _, err := round(2 * time.Second); err != nil {
		return err
	}
	var ratios []float64
	var waits []time.Duration
	for i := range auditRounds {
		var with, without rate
		waited, err := w.watchSealing(ctx, func() (err error) { with, err = round(w.webhooks); return err })
		if err == nil {
			err = w.setTriggers(ctx, false)
		}
		if err == nil {
			without, err = round(w.webhooks)
		}
		if err := errors.Join(err, w.setTriggers(ctx, true)); err != nil {
			return err
		}
		fmt.Printf("   round %d: audited %.0f/s, p99 %v; without triggers %.0f/s, p99 %v\n", i+1, with.perSecond, with.p99, without.perSecond, without.p99)
		ratios, waits = append(ratios, with.perSecond/without.perSecond), append(waits, waited...)
	}
	slices.Sort(waits)
	p99 := waits[len(waits)*99/100]
	fmt.Printf("   audited mutations/s: %.2f of those without triggers (>= %.1f) %s\n", median(ratios), auditLeast, verdict(median(ratios) >= auditLeast))
	fmt.Printf("   time to a place in the chain: p50 %v, p99 %v (<= %v) %s\n", waits[len(waits)/2].Round(time.Millisecond), p99.Round(time.Millisecond), auditSealed, verdict(p99 <= auditSealed))
	if err := sealing.Stop(ctx); err != nil {
		return err
	}
	return verifyRate(ctx, log)
}

func verifyRate(ctx context.Context, log *audit.Service) error {
	started := time.Now()
	found, err := log.Verify(ctx, 0, 0, 0)
	if err != nil {
		return err
	}
	if !found.OK {
		return fmt.Errorf("the log is broken: %+v", found.FirstBad)
	}
	took := time.Since(started)
	fmt.Printf("   verification: %d entries in %v, %.0f/s\n", found.Checked, took.Round(time.Millisecond), float64(found.Checked)/took.Seconds())
	return nil
}

// watchSealing returns how long entries that were written while do ran waited for
// their places, as somebody sees it who looks every few milliseconds.
func (w *world) watchSealing(ctx context.Context, do func() error) ([]time.Duration, error) {
	conn, err := w.owner.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var last int64
	if err := conn.QueryRow(ctx, `select seq from audit_head`).Scan(&last); err != nil {
		return nil, err
	}
	var waits []time.Duration
	var failed error
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for failed == nil {
			select {
			case <-done:
				return
			case <-time.After(3 * time.Millisecond):
			}
			var rows pgx.Rows
			if rows, failed = conn.Query(ctx, `select seq, extract(epoch from clock_timestamp() - at)::float8 from audit_log where seq > $1 order by seq`, last); failed != nil {
				return
			}
			var seconds float64
			_, failed = pgx.ForEachRow(rows, []any{&last, &seconds}, func() error {
				waits = append(waits, time.Duration(seconds*float64(time.Second)))
				return nil
			})
		}
	})
	err = do()
	close(done)
	watching.Wait()
	return waits, errors.Join(err, failed)
}

// auditedDeliveries alternates deliveries with a no-op handler with the triggers, the
// same without them, and INSERT, then UPDATE.
func (w *world) auditedDeliveries(ctx context.Context) error {
	deliver, limit, end, err := w.rounds(ctx, typeNoop, insertThenUpdate)
	if err != nil {
		return err
	}
	defer end()
	var on, off []float64
	for i := range auditRounds {
		with, err := deliver(w.webhooks)
		if err == nil {
			err = w.setTriggers(ctx, false)
		}
		if err != nil {
			return err
		}
		without, err := deliver(w.webhooks)
		if err := errors.Join(err, w.setTriggers(ctx, true)); err != nil {
			return err
		}
		bare, err := limit(w.webhooks)
		if err != nil {
			return err
		}
		fmt.Printf("   deliveries, round %d: audited %.0f/s, p99 %v; without triggers %.0f/s, p99 %v; INSERT, then UPDATE %.0f/s\n",
			i+1, with.perSecond, with.p99, without.perSecond, without.p99, bare.perSecond)
		on, off = append(on, with.perSecond/bare.perSecond), append(off, without.perSecond/bare.perSecond)
	}
	fmt.Printf("   deliveries/s with a no-op handler: audited %.2f of the limit (>= %.2f) %s; without triggers %.2f (>= %.1f) %s\n",
		median(on), auditedNoop, verdict(median(on) >= auditedNoop), median(off), bareNoop, verdict(median(off) >= bareNoop))
	return nil
}

// auditedHits alternates batches of hits with the triggers and without them.
func (w *world) auditedHits(ctx context.Context) error {
	if _, err := w.owner.Exec(ctx, `select ensure_events_month($1)`, time.Now()); err != nil {
		return err
	}
	by := way{"batches of 1,000", batchConns, 1, 0, sendBatches}
	var ratios []float64
	for i := range auditRounds {
		var rates [2]loadedSite                         // without, with
		for _, on := range [2]int{i % 2, (i + 1) % 2} { // either goes first
			if err := w.setTriggers(ctx, on == 1); err != nil {
				return err
			}
			var err error
			if rates[on], err = w.collectRound(ctx, by, w.collect); err != nil {
				return err
			}
		}
		without, with := rates[0], rates[1]
		fmt.Printf("   hits, round %d: with triggers %.0f/s, without %.0f/s\n", i+1, float64(with.Events)/w.collect.Seconds(), float64(without.Events)/w.collect.Seconds())
		ratios = append(ratios, float64(with.Events)/float64(without.Events))
	}
	fmt.Printf("   hits/s: %.2f of those without triggers\n", median(ratios))
	return w.setTriggers(ctx, true)
}
