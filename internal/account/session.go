package account

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// ErrNoSession says that the account has no such session, or that it has ended.
var ErrNoSession = fault.Missing("session")

// Session is a sign-in session that has not ended.
type Session struct {
	ID         uuid.UUID
	Methods    []string // how it was opened: see Method
	CreatedAt  time.Time
	LastUsedAt time.Time // when tokens were last given for it
	ExpiresAt  time.Time
	// Address and UserAgent are those of the sign-in, as far as known.
	Address   string
	UserAgent string
	// Current marks the session that asks.
	Current bool
}

// SessionPosition is a session's place in a list.
type SessionPosition struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// ListSessions returns up to limit of the acting account's sessions, newest
// first, from after on; nil starts at the newest.
func (s *Service) ListSessions(ctx context.Context, after *SessionPosition, limit int) ([]Session, error) {
	p := identity.FromContext(ctx)
	args := dbsqlc.ListAuthSessionsParams{UserID: p.UserID, Now: s.o.Now(), MaxRows: int32(limit)}
	if after != nil {
		args.BeforeAt, args.BeforeID = &after.CreatedAt, &after.ID
	}
	rows, err := s.queries.ListAuthSessions(ctx, s.o.DB.Direct(), args)
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]Session, len(rows))
	for i, r := range rows {
		list[i] = Session{
			ID: r.ID, Methods: r.Methods, CreatedAt: r.CreatedAt.UTC(), LastUsedAt: r.LastUsedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
			Address: r.Address, UserAgent: r.UserAgent, Current: r.ID.String() == p.SessionID,
		}
	}
	return list, nil
}

// CountSessions returns how many sessions ListSessions has in all.
func (s *Service) CountSessions(ctx context.Context) (int64, error) {
	n, err := s.queries.CountAuthSessions(ctx, s.o.DB.Direct(), identity.FromContext(ctx).UserID, s.o.Now())
	return n, db.Translate(err)
}

// EndSession ends one of the acting account's sessions. It returns ErrNoSession.
func (s *Service) EndSession(ctx context.Context, id uuid.UUID) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.RevokeAuthSession(ctx, tx, s.o.Now(), id, p.UserID)
		if err == nil && n == 0 {
			return ErrNoSession
		}
		return err
	})
}

// EndSessions ends all of the acting account's sessions, including the one that asks.
func (s *Service) EndSessions(ctx context.Context) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.queries.RevokeUserSessions(ctx, tx, s.o.Now(), p.UserID)
		return err
	})
}

// SignOut ends the acting session. It returns ErrNoSession when none is acting, or
// when it has ended already.
func (s *Service) SignOut(ctx context.Context) error {
	id, err := uuid.Parse(identity.FromContext(ctx).SessionID)
	if err != nil {
		return ErrNoSession.Because(err)
	}
	return s.EndSession(ctx, id)
}
