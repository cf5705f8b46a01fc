package aigateway

import (
	"context"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// DayUsage is what an account used of a model on a day.
type DayUsage struct {
	Day      time.Time // its beginning, in UTC
	UserID   int64
	Model    string
	Requests int64 // that reached an upstream
	Tokens   Usage
	Cost     Money
}

// UsageFilter chooses from the usage of all. Its days are their beginnings in UTC.
type UsageFilter struct {
	UserID      int64     // 0 for everybody
	First, Last time.Time // zero for no bound
	// After is where the page before ended; nil for the first.
	After *DayUsage
	Limit int
}

var (
	firstDay = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	lastDay  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// Usage lists what was used, newest days first, within a day by model and account. It
// sets total to how many rows there are, unless that is nil.
func (s *Service) Usage(ctx context.Context, f UsageFilter, total *int64) ([]DayUsage, error) {
	first, last := f.First, f.Last
	if first.IsZero() {
		first = firstDay
	}
	if last.IsZero() {
		last = lastDay
	}
	if total != nil {
		n, err := s.queries.CountAIUsage(ctx, s.o.DB.Direct(), dbsqlc.CountAIUsageParams{Anyones: f.UserID == 0, UserID: f.UserID, First: first, Last: last})
		if err != nil {
			return nil, db.Translate(err)
		}
		*total = n
	}
	after := DayUsage{Day: lastDay.AddDate(0, 0, 1)}
	if f.After != nil {
		after = *f.After
	}
	rows, err := s.queries.ListAIUsage(ctx, s.o.DB.Direct(), dbsqlc.ListAIUsageParams{
		Anyones: f.UserID == 0, UserID: f.UserID, First: first, Last: last, AfterDay: after.Day, AfterModel: after.Model, AfterUser: after.UserID, Most: int32(f.Limit),
	})
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]DayUsage, len(rows))
	for i, r := range rows {
		list[i] = DayUsage{Day: r.Day, UserID: r.UserID, Model: r.Model, Requests: r.Requests, Tokens: Usage{r.InputTokens, r.OutputTokens}, Cost: moneyFrom(r.Cost)}
	}
	return list, nil
}

// Standing is how an account stands against its budget.
type Standing struct {
	Limit, Spent, Reserved Money
	// Own says that an administrator set the limit.
	Own      bool
	Period   Period
	ResetsAt time.Time
}

// Remaining is what is left, never below zero.
func (s Standing) Remaining() Money { return max(s.Limit-s.Spent-s.Reserved, 0) }

// Budget tells how an account stands. It returns ErrNoUser.
func (s *Service) Budget(ctx context.Context, userID int64) (Standing, error) {
	limits := s.o.Declared.Limits
	since, until := limits.Period.bounds(s.o.Now())
	out := Standing{Limit: limits.Budget, Period: limits.Period, ResetsAt: until}
	direct := s.o.DB.Direct()
	own, err := s.queries.FindAIBudget(ctx, direct, userID)
	if err != nil {
		return out, db.NotFound(err, ErrNoUser)
	}
	if own.Valid {
		out.Limit, out.Own = moneyFrom(own), true
	}
	rows, err := s.queries.FindAIMeters(ctx, direct, since, userID, 0)
	if err != nil || len(rows) == 0 {
		return out, db.Translate(err)
	}
	out.Reserved, out.Spent = moneyFrom(rows[0].Reserved), moneyFrom(rows[0].Spent)
	if !rows[0].Current {
		sum, err := s.queries.SumAIUsage(ctx, direct, userID, since)
		if err != nil {
			return out, db.Translate(err)
		}
		out.Spent = moneyFrom(sum)
	}
	return out, nil
}

// SetBudget gives an account a budget of its own, or with nil the configured one. It
// returns ErrNoUser.
func (s *Service) SetBudget(ctx context.Context, userID int64, budget *Money) (Standing, error) {
	single := s.o.DB.Single(identity.FromContext(ctx))
	if budget == nil {
		if _, err := s.queries.ClearAIBudget(ctx, single, userID); err != nil {
			return Standing{}, db.Translate(err)
		}
		return s.Budget(ctx, userID)
	}
	n, err := s.queries.SetAIBudget(ctx, single, budget.numeric(), s.o.Now(), userID)
	switch {
	case err != nil:
		return Standing{}, db.Translate(err)
	case n == 0:
		return Standing{}, ErrNoUser
	}
	return s.Budget(ctx, userID)
}

// Days sums what was used by day, oldest first; days without calls are left out. It takes
// no notice of f.After and f.Limit.
func (s *Service) Days(ctx context.Context, f UsageFilter) ([]DayUsage, error) {
	rows, err := s.queries.ListAIDays(ctx, s.o.DB.Direct(), dbsqlc.ListAIDaysParams{Anyones: f.UserID == 0, UserID: f.UserID, First: f.First, Last: f.Last})
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]DayUsage, len(rows))
	for i, r := range rows {
		list[i] = DayUsage{Day: r.Day, Requests: r.Requests, Cost: moneyFrom(r.Cost)}
	}
	return list, nil
}
