package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/text"
)

// CreateServiceToken makes an API token of a service account for an administrator who
// signed in of late, or for an operator, and returns its secret, this once. The token doesn't depend on that
// administrator, who is told of it by mail. It returns ErrNoServiceAccount,
// ErrReauthenticate, ErrManyAPITokens, or a validation fault keyed by field.
func (s *ServiceAccounts) CreateServiceToken(ctx context.Context, account int64, n NewAPIToken) (APIToken, string, error) {
	found, err := s.FindServiceAccount(ctx, account)
	if err != nil {
		return APIToken{}, "", err
	}
	n.Name = text.Trim(n.Name)
	return s.issue(ctx, func() error { return s.checkAPIToken(n, found.Role) }, func(ctx context.Context, tx pgx.Tx) (dbsqlc.ApiToken, string, error) {
		owner, err := s.queries.LockServiceAccount(ctx, tx, account) // so that the count holds
		if err != nil {
			return dbsqlc.ApiToken{}, "", db.NotFound(err, ErrNoServiceAccount)
		}
		row, secret, err := s.insertAPIToken(ctx, tx, account, n)
		if err != nil {
			return dbsqlc.ApiToken{}, "", err
		}
		return row, secret, s.tellActor(ctx, tx, row, "created for "+calledService(owner.Name))
	})
}

// RotateServiceToken is RotateAPIToken for a token of a service account. It also returns
// ErrNoServiceAccount.
func (s *ServiceAccounts) RotateServiceToken(ctx context.Context, account, id int64, grace time.Duration) (APIToken, string, error) {
	return s.issue(ctx, func() error { return checkGrace(grace) }, func(ctx context.Context, tx pgx.Tx) (dbsqlc.ApiToken, string, error) {
		owner, err := s.queries.LockServiceAccount(ctx, tx, account)
		if err != nil {
			return dbsqlc.ApiToken{}, "", db.NotFound(err, ErrNoServiceAccount)
		}
		row, secret, err := s.replaceAPIToken(ctx, tx, account, id, grace)
		if err != nil {
			return dbsqlc.ApiToken{}, "", err
		}
		return row, secret, s.tellActor(ctx, tx, row, "created for "+calledService(owner.Name)+", in the place of another")
	})
}

// ListServiceTokens is ListAPITokens for a service account. It returns
// ErrNoServiceAccount.
func (s *ServiceAccounts) ListServiceTokens(ctx context.Context, account, before int64, limit int) ([]APIToken, error) {
	if _, err := s.FindServiceAccount(ctx, account); err != nil {
		return nil, err
	}
	return s.listTokensOf(ctx, account, before, limit)
}

// CountServiceTokens returns how many API tokens ListServiceTokens has in all.
func (s *ServiceAccounts) CountServiceTokens(ctx context.Context, account int64) (int64, error) {
	n, err := s.queries.CountAPITokens(ctx, s.o.DB.Direct(), account)
	return n, db.Translate(err)
}

// RevokeServiceToken ends an API token of a service account at once. It returns
// ErrNoServiceAccount or ErrNoAPIToken.
func (s *ServiceAccounts) RevokeServiceToken(ctx context.Context, account, id int64) error {
	if _, err := s.FindServiceAccount(ctx, account); err != nil {
		return err
	}
	return s.revokeTokenOf(ctx, account, id)
}

// tellActor tells the administrator who acts what was done in their name. A service
// account itself has no mail, and an operator's command neither.
func (s *ServiceAccounts) tellActor(ctx context.Context, tx pgx.Tx, t dbsqlc.ApiToken, done string) error {
	if identity.FromContext(ctx).Operates() {
		return nil
	}
	actor, err := s.queries.FindUserByID(ctx, tx, identity.FromContext(ctx).UserID)
	if err != nil {
		return db.NotFound(err, ErrSessionRevoked)
	}
	return s.tellTokenCreated(ctx, tx, actor, t, done)
}

// calledService names a service account in a mail.
func calledService(name string) string {
	if mail.Presentable(name) {
		return fmt.Sprintf("the service account %q", name)
	}
	return "a service account"
}
