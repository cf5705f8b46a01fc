package webhook

import (
	"context"
	"strings"
	"time"

	"github.com/waypost/waypost/db"
)

// How far a Condition counts: to count a million would take longer than all else.
const (
	MaxCounted = 10_000 // deliveries
	MaxRefused = 1_000  // refused ones of one provider
)

// Condition is how the webhooks are at a moment.
type Condition struct {
	// Waiting are the deliveries without an outcome, up to MaxCounted. WaitingSince is when
	// the first came, of the thousand that are due first; zero when none waits.
	Waiting      int64
	WaitingSince time.Time
	// Failed are those that failed and can be replayed, up to MaxCounted.
	Failed int64
	// Providers are the registered ones, in their order.
	Providers []ProviderCondition
}

// ProviderCondition is how a provider's deliveries fare.
type ProviderCondition struct {
	Name      string
	SecretEnv string // the variable of its secret
	SecretSet bool
	// Refused are the deliveries that were refused since the last one that was stored, up
	// to MaxRefused, as far as the log of refused ones goes back; the latest was refused at
	// RefusedAt, for Reason. What was taken as a duplicate was not stored.
	Refused   int64
	RefusedAt time.Time
	Reason    string
	// StoredAt is when that last one came, zero if there was none.
	StoredAt time.Time
	// FailureStreak is the number of failing events that an alert was sent about, 0 once
	// the streak has ended.
	FailureStreak int64
}

// Condition asks for it in two questions whose work is bounded, whatever is stored.
func (a *Admin) Condition(ctx context.Context) (Condition, error) {
	measured, err := a.store.queries.MeasureWebhooks(ctx, a.o.AdminDB.Direct(), MaxCounted)
	if err != nil {
		return Condition{}, db.Translate(err)
	}
	c := Condition{Waiting: measured.Waiting, WaitingSince: known(measured.WaitingSince), Failed: measured.Failed}
	var names []string
	for _, p := range a.o.Registry.Providers() {
		names = append(names, p.Name)
		c.Providers = append(c.Providers, ProviderCondition{
			Name: p.Name, SecretEnv: p.SecretEnv, SecretSet: strings.TrimSpace(a.o.LookupSecret(p.SecretEnv)) != "",
		})
	}
	rows, err := a.store.queries.ListWebhookTroubles(ctx, a.o.AdminDB.Direct(), names, MaxRefused)
	if err != nil {
		return Condition{}, db.Translate(err)
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		for _, row := range rows {
			if row.Provider == p.Name {
				p.Refused, p.RefusedAt, p.Reason, p.StoredAt, p.FailureStreak = row.Refused, known(row.RefusedAt), row.Reason, known(row.TakenAt), row.Streak
			}
		}
	}
	return c, nil
}

// known is an instant of a statement, zero for the epoch, which stands for none.
func known(t time.Time) time.Time {
	if t.Unix() == 0 {
		return time.Time{}
	}
	return t.UTC()
}
