package webhook

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// ErrTarget is for a target that no instance has.
var ErrTarget = fault.Missing("webhook target")

// targetForgotten is for how long no instance has had a target whose state is deleted.
const targetForgotten = 90 * 24 * time.Hour

// absentText is the error of a forward to a target that no instance has.
const absentText = "no running instance has had this target for an hour; start one whose configuration has it and replay the event, or replay it with force to send it to the targets of today"

// TargetCondition is how a target is.
type TargetCondition string

// The conditions of targets.
const (
	TargetWorks  TargetCondition = "ok"
	TargetPaused TargetCondition = "paused"
	// TargetFailing is one whose breaker is open: it is probed until it answers 2xx.
	TargetFailing TargetCondition = "failing"
	// TargetMissing is one that no running instance has.
	TargetMissing TargetCondition = "missing"
)

// TargetState is a target of forwards, and what waits for it.
type TargetState struct {
	Provider, Name string
	Condition      TargetCondition
	// Waiting are its forwards without an outcome, up to MaxCounted: Due of them wait for
	// a place and nothing else, InFlight are being sent. Oldest is when the first of these
	// events arrived, nil without any.
	Waiting, Due, InFlight int64
	Oldest                 *time.Time
	// Failures counts the failed attempts in a row.
	Failures                     int
	PausedAt, OpenedAt, ProbedAt *time.Time // ProbedAt is when the next probe is due
	// Rate is how many events a second this instance forwarded within the last minute.
	Rate float64
	// Here is its configuration on this instance, nil without one.
	Here *TargetConfiguration
}

// TargetConfiguration is what an instance's configuration says of a target. The URL and
// the headers may hold secrets.
type TargetConfiguration struct {
	EventType   string // "" for the catch-all
	SecretEnv   string
	SecretSet   bool
	Attempts    int
	Timeout     time.Duration
	Concurrency int
	RateLimit   float64 // attempts a second; 0 is none
	PassHeaders bool
}

// Targets returns the targets that instances have, or had within the last hour, and those
// that something waits for, by provider and name.
func (a *Admin) Targets(ctx context.Context) ([]TargetState, error) {
	rows, err := a.store.queries.ListWebhookTargets(ctx, a.o.AdminDB.Direct(), announcedLately.Seconds(), MaxCounted, absence.Seconds())
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]TargetState, len(rows))
	for i, r := range rows {
		key := targetKey{r.Provider, r.Target}
		t := TargetState{
			Provider: r.Provider, Name: r.Target, Condition: TargetWorks, Waiting: r.Waiting, Due: r.Due, InFlight: r.InFlight,
			Failures: int(r.Failures), PausedAt: r.PausedAt, OpenedAt: r.OpenedAt, ProbedAt: r.ProbeAt,
			Rate: a.sending.rate(key), Here: a.configuration(key),
		}
		switch {
		case !r.Live:
			t.Condition = TargetMissing
		case r.PausedAt != nil:
			t.Condition = TargetPaused
		case r.OpenedAt != nil:
			t.Condition = TargetFailing
		}
		if oldest := known(r.Oldest); !oldest.IsZero() {
			t.Oldest = &oldest
		}
		list[i] = t
	}
	return list, nil
}

func (a *Admin) configuration(key targetKey) *TargetConfiguration {
	p := a.o.Registry.targets[key]
	if p == nil {
		return nil
	}
	return &TargetConfiguration{
		EventType: p.target.EventType, SecretEnv: p.target.SecretEnv, SecretSet: strings.TrimSpace(p.o.LookupSecret(p.target.SecretEnv)) != "",
		Attempts: p.retry.Attempts, Timeout: p.target.Timeout, Concurrency: p.target.Concurrency, RateLimit: p.target.Rate, PassHeaders: p.target.PassHeaders,
	}
}

// PauseTarget has every instance leave a target alone: what is being sent ends, what waits
// goes on waiting, and spends no attempt. It returns the target, or ErrTarget.
func (a *Admin) PauseTarget(ctx context.Context, provider, name string) (TargetState, error) {
	return a.changeTarget(ctx, provider, name, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return a.store.queries.PauseWebhookTarget(ctx, tx, a.o.Now(), provider, name)
	})
}

// ResumeTarget ends a pause, and closes the breaker: what is due goes at once. It returns
// the target, or ErrTarget.
func (a *Admin) ResumeTarget(ctx context.Context, provider, name string) (TargetState, error) {
	return a.changeTarget(ctx, provider, name, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return a.store.queries.ResumeWebhookTarget(ctx, tx, provider, name)
	})
}

func (a *Admin) changeTarget(ctx context.Context, provider, name string, change func(context.Context, pgx.Tx) (int64, error)) (TargetState, error) {
	if !text.Storable(provider) || !text.Storable(name) {
		return TargetState{}, ErrTarget
	}
	var n int64
	err := a.o.AdminDB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		n, err = change(ctx, tx)
		return err
	})
	if err != nil {
		return TargetState{}, err
	}
	a.sending.wakeAll()
	list, err := a.Targets(ctx)
	if err != nil {
		return TargetState{}, err
	}
	for _, t := range list {
		if n > 0 && t.Provider == provider && t.Name == name {
			return t, nil
		}
	}
	return TargetState{}, ErrTarget
}

// announceTargets says that this instance has its targets. Nothing is claimed for one that
// nobody has announced.
func (r *core) announceTargets(ctx context.Context) error {
	providers, names := r.o.Registry.sortedTargets()
	return r.o.DB.InTx(ctx, identity.Step(ctx, "webhook-targets"), func(ctx context.Context, tx pgx.Tx) error {
		return r.store.queries.AnnounceWebhookTargets(ctx, tx, providers, names)
	})
}

// reportAbsent logs the targets that something waits for and this instance lacks.
func (w *Worker) reportAbsent(ctx context.Context) error {
	rows, err := w.store.queries.ListWebhookTargets(ctx, w.o.DB.Direct(), announcedLately.Seconds(), MaxCounted, absence.Seconds())
	if err != nil {
		return db.Translate(err)
	}
	lines := 0
	for _, row := range rows {
		if w.o.Registry.targets[targetKey{row.Provider, row.Target}] != nil || row.Waiting == 0 {
			continue
		}
		if lines++; lines > unboundLines {
			w.o.Logger.WarnContext(ctx, "webhook events wait for still more targets that this instance lacks")
			return nil
		}
		w.o.Logger.WarnContext(ctx, "webhook events wait for a target that this instance lacks; they fail when no running instance has it for an hour",
			"provider", row.Provider, "target", row.Target, "events", row.Waiting, "oldest", row.Oldest)
	}
	return nil
}

// failAbsent ends, batch by batch, forwards to targets that no instance has.
func (w *Worker) failAbsent(ctx context.Context, p identity.Principal) (int, error) {
	rows, err := w.store.queries.ListWebhookTargets(ctx, w.o.DB.Direct(), absence.Seconds(), 1, absence.Seconds())
	if err != nil {
		return 0, db.Translate(err)
	}
	total := 0
	for _, row := range rows {
		if row.Live || row.Waiting == 0 {
			continue
		}
		n, err := w.failAbsentTarget(ctx, p, targetKey{row.Provider, row.Target})
		if n > 0 {
			w.o.Logger.ErrorContext(ctx, "webhook events failed: no running instance has had their target for an hour",
				"provider", row.Provider, "target", row.Target, "events", n)
		}
		if total += n; err != nil {
			return total, err
		}
	}
	return total, w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		return w.store.queries.DeleteOldWebhookTargets(ctx, tx, targetForgotten.Seconds())
	})
}

func (w *Worker) failAbsentTarget(ctx context.Context, p identity.Principal, key targetKey) (int, error) {
	for total := 0; ; {
		var failed []uuid.UUID
		err := w.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			failed, err = w.store.queries.FailAbsentWebhookForwards(ctx, tx, dbsqlc.FailAbsentWebhookForwardsParams{
				Error: absentText, Provider: key.provider, Target: key.name, Seconds: absence.Seconds(), MaxRows: unboundBatch,
			})
			if err != nil || len(failed) == 0 {
				return err
			}
			_, err = w.store.queries.SettleWebhookEvents(ctx, tx, w.o.Now(), failed)
			return err
		})
		if total += len(failed); err != nil || len(failed) < unboundBatch {
			return total, err
		}
	}
}
