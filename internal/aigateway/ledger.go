package aigateway

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Outcome is how a call ended.
type Outcome string

// The outcomes of calls that reached an upstream.
const (
	Completed Outcome = "completed"
	Aborted   Outcome = "aborted" // by the client
	Cut       Outcome = "cut"     // by the upstream, in the middle of its answer
	Failed    Outcome = "failed"  // without an answer
	Lost      Outcome = "lost"    // by a crash of this service
)

// hold is what a call that is on keeps back.
type hold struct {
	id        uuid.UUID
	principal identity.Principal
	model     string
	upstream  string
	target    string // the model's name there
	worst     Usage
	cost      Money
	minute    int64 // tokens, against the limit of the minute
}

// settlement is what becomes of it.
type settlement struct {
	outcome   Outcome
	reached   bool // an upstream
	used      Usage
	cost      Money
	estimated bool
}

// Allowance is how an account stands against its limits of the minute: by itself or by
// its token, whichever is closer to them.
type Allowance struct {
	Requests, RemainingRequests int32
	Tokens, RemainingTokens     int64
	Reset                       time.Duration // until both are whole again; 0 if they are
}

func (s *Service) allowance() Allowance {
	l := s.o.Declared.Limits
	return Allowance{Requests: l.RPM, RemainingRequests: l.RPM, Tokens: l.TPM, RemainingTokens: l.TPM}
}

// less takes what was counted in a minute.
func (a *Allowance) less(requests int32, tokens int64, minuteAt, now time.Time) {
	left := minuteAt.Add(time.Minute).Sub(now)
	if left <= 0 || left > 2*time.Minute {
		return
	}
	a.RemainingRequests = max(min(a.RemainingRequests, a.Requests-requests), 0)
	a.RemainingTokens = max(min(a.RemainingTokens, a.Tokens-tokens), 0)
	a.Reset = max(a.Reset, left)
}

// Allowance tells how p stands.
func (s *Service) Allowance(ctx context.Context, p identity.Principal) (Allowance, error) {
	a, now := s.allowance(), s.o.Now()
	since, _ := s.o.Declared.Limits.Period.bounds(now)
	rows, err := s.queries.FindAIMeters(ctx, s.o.DB.Direct(), since, p.UserID, p.TokenID)
	if err != nil {
		return a, db.Translate(err)
	}
	for _, r := range rows {
		a.less(r.Requests, r.Tokens, r.MinuteAt, now)
	}
	return a, nil
}

// reserve keeps back what h costs at most, or returns ErrBudget, ErrRate, ErrTooLong or
// fairqueue.ErrBusy. Where the outcome is unknown, it is made sure that nothing stays reserved.
func (s *Service) reserve(ctx context.Context, h hold) (Allowance, error) {
	now := s.o.Now()
	limits := s.o.Declared.Limits
	since, until := limits.Period.bounds(now)
	params := dbsqlc.ReserveAICallParams{
		UserID: h.principal.UserID, TokenID: h.principal.TokenID, Since: since, Now: now, Budget: limits.Budget.numeric(), Cost: h.cost.numeric(),
		Rpm: limits.RPM, Tokens: h.minute, Tpm: limits.TPM, ID: h.id, Model: h.model, Upstream: h.upstream,
		InputTokens: h.worst.Input, OutputTokens: h.worst.Output, LeaseSeconds: s.o.Lease.Seconds(),
	}
	leave, err := s.reserving.Enter(ctx, account(h.principal))
	if err != nil {
		return s.allowance(), err
	}
	defer leave()
	single := s.o.DB.Single(h.principal)
	rows, err := s.queries.ReserveAICall(ctx, single, params)
	if err == nil && len(rows) < holders(h.principal) {
		err = s.queries.MakeAIMeters(ctx, single, dbsqlc.MakeAIMetersParams{Since: since, Now: now, TokenID: h.principal.TokenID, UserID: h.principal.UserID})
		if err == nil {
			rows, err = s.queries.ReserveAICall(ctx, single, params)
		}
	}
	if err != nil {
		s.work.Go(func() { s.settle(context.WithoutCancel(ctx), h, settlement{}) })
		return s.allowance(), db.Translate(err)
	}
	if len(rows) < holders(h.principal) {
		return s.allowance(), ErrCaller
	}
	a, err := s.judge(rows, h, now, until)
	if err == nil {
		s.hold(h.id)
	}
	return a, err
}

func holders(p identity.Principal) int {
	if p.TokenID != 0 {
		return 2
	}
	return 1
}

// judge says what the verdict on a reservation means for the client.
func (s *Service) judge(rows []dbsqlc.ReserveAICallRow, h hold, now, until time.Time) (Allowance, error) {
	a := s.allowance()
	var refusal error
	for _, r := range rows {
		if r.Granted {
			r.Requests, r.Tokens = r.Requests+1, r.Tokens+h.minute
		}
		a.less(r.Requests, r.Tokens, r.MinuteAt, now)
		spent, reserved, budget := moneyFrom(r.Spent), moneyFrom(r.Reserved), moneyFrom(r.Budget)
		wait := max(r.MinuteAt.Add(time.Minute).Sub(now), time.Millisecond)
		switch {
		case r.Granted || refusal != nil:
		case h.minute > a.Tokens:
			refusal = ErrTooLong.After(wait)
		case r.Requests >= a.Requests || r.Tokens+h.minute > a.Tokens:
			refusal = ErrRate.After(wait)
		case h.cost > 0 && spent+h.cost > budget:
			refusal = ErrBudget.After(until.Sub(now))
		case h.cost > 0 && spent+reserved+h.cost > budget:
			refusal = ErrBudget.After(callTime) // other calls keep it back, and may use less
		}
	}
	if !rows[0].Granted && refusal == nil {
		return a, fmt.Errorf("aigateway: a reservation was refused for no reason")
	}
	return a, refusal
}

// callTime is how long calls take, roughly.
const callTime = 5 * time.Second

// resize gives a call another worst case, for another target, if its account and its
// token may still have it. It returns ErrCaller, ErrModelRole or ErrBudget.
func (s *Service) resize(ctx context.Context, h hold, roles []identity.Role) error {
	role, err := s.queries.FindAICaller(ctx, s.o.DB.Direct(), h.principal.UserID, h.principal.TokenID, s.o.Now())
	if err != nil {
		return db.NotFound(err, ErrCaller)
	}
	if !contains(roles, role) {
		return ErrModelRole
	}
	granted, err := s.queries.ResizeAICall(ctx, s.o.DB.Single(h.principal), dbsqlc.ResizeAICallParams{
		ID: h.id, Budget: s.o.Declared.Limits.Budget.numeric(), Cost: h.cost.numeric(), Upstream: h.upstream,
		InputTokens: h.worst.Input, OutputTokens: h.worst.Output,
	})
	switch {
	case err != nil:
		return db.Translate(err)
	case !granted:
		return ErrBudget.After(callTime)
	}
	return nil
}

func contains(roles []identity.Role, role string) bool {
	for _, r := range roles {
		if string(r) == role {
			return true
		}
	}
	return false
}

// settleTries is how often a settlement is tried: for some 20 s, in which the database may
// have been restarted. After that the sweep books the call at its worst.
const settleTries = 12

// settle ends a call: it books what becomes of it. ctx is one that doesn't end with the
// request.
func (s *Service) settle(ctx context.Context, h hold, to settlement) {
	wait := 20 * time.Millisecond
	for try := 1; ; try++ {
		err := s.settleOnce(ctx, h, to)
		if err == nil {
			s.letGo(h.id)
			return
		}
		if try == settleTries {
			s.letGo(h.id)
			s.o.Logger.ErrorContext(ctx, "an AI call could not be booked; it will be at its worst case", "call", h.id, "error", err)
			return
		}
		time.Sleep(wait)
		wait = min(2*wait, 3*time.Second)
	}
}

func (s *Service) settleOnce(ctx context.Context, h hold, to settlement) error {
	leave, err := s.settling.Enter(ctx, account(h.principal))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now := s.o.Now()
	since, _ := s.o.Declared.Limits.Period.bounds(now)
	// Not waited for until it is on the disk: a database that crashes and forgets it has
	// the reservation again, which is then booked at its worst.
	n, err := s.queries.SettleAICall(ctx, s.o.DB.Single(h.principal), dbsqlc.SettleAICallParams{
		ID: h.id, Since: since, Now: now, InputTokens: to.used.Input, OutputTokens: to.used.Output, Cost: to.cost.numeric(),
		Reached: to.reached, Outcome: string(to.outcome), Estimated: to.estimated,
	})
	if err == nil && n > 0 && to.reached {
		s.metrics.booked(h.model, to)
	}
	return db.Translate(err)
}
