package account

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Oversight lets an ADMIN see and end what others are signed in with. Its methods return
// ErrNotFound to everybody else, as Find does, and where there is no such account.
type Oversight struct {
	*core
	users *Users
}

// SessionsOf returns up to limit sessions of an account that hold, newest first.
func (s *Oversight) SessionsOf(ctx context.Context, id int64, limit int) ([]Session, error) {
	if _, err := s.users.Find(ctx, id); err != nil {
		return nil, err
	}
	rows, err := s.queries.ListAuthSessions(ctx, s.o.DB.Direct(), dbsqlc.ListAuthSessionsParams{UserID: id, Now: s.o.Now(), MaxRows: int32(limit)})
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]Session, len(rows))
	for i, r := range rows {
		list[i] = toSession(r, identity.FromContext(ctx).SessionID)
	}
	return list, nil
}

// TokensOf returns up to limit API tokens of an account that were not revoked, newest
// first.
func (s *Oversight) TokensOf(ctx context.Context, id int64, limit int) ([]APIToken, error) {
	if _, err := s.users.Find(ctx, id); err != nil {
		return nil, err
	}
	return s.listTokensOf(ctx, id, 0, limit)
}

// EndSessionOf ends one session of an account. It returns ErrNoSession too.
func (s *Oversight) EndSessionOf(ctx context.Context, id int64, session uuid.UUID) error {
	p := identity.FromContext(ctx)
	if err := admit(p, id); err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.RevokeAuthSession(ctx, tx, s.o.Now(), session, id)
		if err == nil && n == 0 {
			return ErrNoSession
		}
		return err
	})
}

// EndTokenOf revokes one API token of an account. It returns ErrNoAPIToken too.
func (s *Oversight) EndTokenOf(ctx context.Context, id, token int64) error {
	if err := admit(identity.FromContext(ctx), id); err != nil {
		return err
	}
	return s.revokeTokenOf(ctx, id, token)
}

// EndAllOf ends every session and API token of an account.
func (s *Oversight) EndAllOf(ctx context.Context, id int64) error {
	p := identity.FromContext(ctx)
	if err := admit(p, id); err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		now := s.o.Now()
		if _, err := s.queries.RevokeUserSessions(ctx, tx, now, id); err != nil {
			return err
		}
		return s.queries.RevokeUserAPITokens(ctx, tx, &now, id)
	})
}
