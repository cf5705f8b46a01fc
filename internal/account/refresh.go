package account

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// Refresh spends a refresh token and gives its session's next tokens. One that
// was spent before ends the session, for it may have been stolen (RFC 9700
// section 4.14.2), unless it is the immediate parent of the newest tokens and was
// spent within RefreshGrace: then it gives tokens of another branch. Once a token
// of one branch is spent, one of another ends the session. It returns
// ErrRefreshUnknown, ErrRefreshReused, ErrSessionRevoked or, with the token still
// good, throttle.ErrLimited.
func (s *Sessions) Refresh(ctx context.Context, refreshToken string) (SignedIn, error) {
	if err := s.readyToSign(ctx); err != nil {
		return SignedIn{}, err
	}
	if len(refreshToken) != len(refreshPrefix)+randomLength {
		return SignedIn{}, ErrRefreshUnknown
	}
	var signed SignedIn
	var refused error // outlives the transaction, which must commit all the same
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		spent, err := s.spendRefresh(ctx, tx, digest(refreshToken))
		if errors.Is(err, ErrRefreshReused) {
			refused = err
			return nil
		}
		if err != nil {
			return err
		}
		// After the claim, so that too many refreshes hide no token that is used again.
		err = s.limits.CountTx(ctx, tx,
			throttle.Key{Limit: refreshesOfOne, Subject: spent.SessionID.String()},
			throttle.Key{Limit: refreshes, Subject: strconv.FormatInt(spent.UserID, 10)})
		if err != nil {
			return err
		}
		row, err := s.queries.FindUserByID(ctx, tx, spent.UserID)
		if err != nil {
			return db.NotFound(err, ErrSessionRevoked)
		}
		if err := s.queries.TouchAuthSession(ctx, tx, s.o.Now(), spent.SessionID); err != nil {
			return err
		}
		signed, err = s.giveTokens(ctx, tx, row, spent.SessionID, spent.Generation+1)
		return err
	})
	if err == nil && refused != nil {
		s.o.Told(RefreshReused)
	}
	if err != nil || refused != nil {
		return SignedIn{}, errors.Join(err, refused)
	}
	return signed, nil
}

// spendRefresh claims a refresh token; when it, or a token of another branch, was
// spent before, it ends the session.
func (s *Sessions) spendRefresh(ctx context.Context, tx pgx.Tx, digest []byte) (dbsqlc.SpendRefreshTokenRow, error) {
	var spent dbsqlc.SpendRefreshTokenRow
	if _, err := s.queries.LockRefreshFamily(ctx, tx, digest); err != nil {
		return spent, db.NotFound(err, ErrRefreshUnknown)
	}
	now := s.o.Now() // not before the lock, which may take longer than the grace
	spent, err := s.queries.SpendRefreshToken(ctx, tx, &now, digest)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return spent, err
	}
	row, err := s.queries.FindRefreshToken(ctx, tx, digest)
	if err != nil {
		return spent, db.NotFound(err, ErrRefreshUnknown)
	}
	holds := row.RevokedAt == nil && now.Before(row.ExpiresAt) && row.Active
	branched := row.NewestSpent >= row.Generation
	switch {
	case row.UsedAt == nil && !(holds && branched):
		return spent, ErrSessionRevoked
	case row.UsedAt != nil && holds && s.forgives(row, now):
		return dbsqlc.SpendRefreshTokenRow{SessionID: row.SessionID, Generation: row.Generation, UserID: row.UserID}, nil
	}
	if _, err := s.queries.RevokeAuthSession(ctx, tx, now, row.SessionID, row.UserID); err != nil {
		return spent, err
	}
	return spent, ErrRefreshReused
}

// forgives says that row's token was spent only just now, and none after it yet.
// The clock that wrote the time may be another instance's, ahead of this one's.
func (s *Sessions) forgives(row dbsqlc.FindRefreshTokenRow, now time.Time) bool {
	return row.Generation == row.NewestSpent && now.Sub(*row.UsedAt).Abs() < s.o.RefreshGrace
}
