package account

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// VisitOptions bound the sessions of the operator pages.
type VisitOptions struct {
	// Max is how long one lasts at most; default 12 h.
	Max time.Duration
	// Idle is after how long without a request it ends; default 30 min.
	Idle time.Duration
	// Lost is the path of the page for who comes back from a provider too late, or to
	// another browser; "" for the API's own answer.
	Lost string
}

// Visit is a session of the operator pages, or the challenge on the way to it.
type Visit struct {
	// Secret is the value of its cookie; only its SHA-256 is stored. ExpiresAt is when the
	// session ends at last.
	Secret    string
	ExpiresAt time.Time
	// Challenge is set, and nothing else, when a second factor is wanted first.
	Challenge string
}

// Visits signs people in to the operator pages, by the same passwords, second factors
// and limits as everywhere; what they get is a cookie in place of tokens, which the API
// doesn't take.
type Visits struct {
	*core
	sessions *Sessions
	signIns  *SignIns
	factor   *SecondFactor
	// identities opens sessions of the pages, as signIns does.
	identities *Identities
}

const cookiePrefix = "wpv_"

// newVisits makes sessions and limits of its own of what sign-ins are made of.
func newVisits(c *core, sessions *Sessions, factor *SecondFactor) *Visits {
	v := &Visits{core: c, sessions: sessions, factor: factor}
	v.signIns = &SignIns{core: c, open: v.openTx, factor: factor}
	v.identities = &Identities{core: c, signIns: v.signIns}
	return v
}

// OpenVisit is SignIn for the pages.
func (s *Visits) OpenVisit(ctx context.Context, email, password string) (Visit, error) {
	return visitOf(s.signIns.SignIn(ctx, email, password))
}

// OpenVisitWithCode is VerifySecondFactor for the pages.
func (s *Visits) OpenVisitWithCode(ctx context.Context, challenge, code string) (Visit, error) {
	return visitOf(s.signIns.VerifySecondFactor(ctx, challenge, code))
}

func visitOf(signed SignedIn, err error) (Visit, error) {
	switch {
	case err != nil:
		return Visit{}, err
	case signed.MFA != nil:
		return Visit{Challenge: signed.MFA.Token}, nil
	}
	return signed.visit, nil
}

// openTx stores a session with a cookie.
func (s *Visits) openTx(ctx context.Context, tx pgx.Tx, row dbsqlc.User, methods ...Method) (SignedIn, error) {
	now := s.o.Now()
	opened, err := s.sessions.insertTx(ctx, tx, row, now.Add(min(s.o.Visits.Idle, s.o.Visits.Max)), methods)
	if err != nil {
		return SignedIn{}, err
	}
	secret, err := s.newPrefixed(cookiePrefix)
	if err != nil {
		return SignedIn{}, err
	}
	ends := now.Add(s.o.Visits.Max)
	if err := s.queries.InsertPageSession(ctx, tx, opened.id, digest(secret), ends); err != nil {
		return SignedIn{}, err
	}
	return SignedIn{User: fromRow(row), visit: Visit{Secret: secret, ExpiresAt: ends}}, s.sessions.tellOf(ctx, tx, row, opened)
}

// AuthenticateVisit returns who sends a cookie. If somebody is looking, and not just a
// page renewing itself, it moves the session's end on. It reads session and account each
// time. It returns ErrSessionRevoked.
func (s *Visits) AuthenticateVisit(ctx context.Context, secret string, looking bool) (identity.Principal, User, error) {
	if len(secret) != len(cookiePrefix)+randomLength {
		return identity.Principal{}, User{}, ErrSessionRevoked
	}
	row, err := s.queries.FindPageSession(ctx, s.o.DB.Direct(), digest(secret))
	if errors.Is(err, pgx.ErrNoRows) {
		return identity.Principal{}, User{}, ErrSessionRevoked
	}
	if err != nil {
		return identity.Principal{}, User{}, db.Translate(err)
	}
	now := s.o.Now()
	if row.RevokedAt != nil || !now.Before(row.ExpiresAt) || !row.User.Active {
		return identity.Principal{}, User{}, ErrSessionRevoked
	}
	p := identity.Account(row.User.ID, identity.Role(row.User.Role), row.ID.String())
	p.SignedInAt = row.AuthenticatedAt.UTC()
	if before := now.Add(-touchEvery); looking && !row.LastUsedAt.After(before) {
		end := now.Add(s.o.Visits.Idle)
		if end.After(row.EndsAt) {
			end = row.EndsAt
		}
		err := s.o.DB.InTx(ctx, p.From(identity.FromContext(ctx)), func(ctx context.Context, tx pgx.Tx) error {
			return s.queries.TouchPageSession(ctx, tx, dbsqlc.TouchPageSessionParams{Now: now, ExpiresAt: end, ID: row.ID, Before: before})
		})
		if err != nil {
			return identity.Principal{}, User{}, err
		}
	}
	p, err = s.factor.demandSecondFactor(ctx, p)
	return p, fromRow(row.User), err
}
