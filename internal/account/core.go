package account

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
	"github.com/waypost/waypost/internal/throttle"
)

// core is what every part of the accounts works with. It calls none of them.
type core struct {
	o       Options
	queries dbsqlc.Queries
	hasher  *hasher
	limits  *throttle.Service
	// throttled are whose refused attempts the audit log has, this minute.
	throttled oncePerMinute
}

func newCore(o Options) (*core, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	h, err := newHasher(o.PasswordCost, o.ConcurrentHashes, o.Random)
	if err != nil {
		return nil, err
	}
	limits, err := throttle.New(throttle.Options{DB: o.DB, Now: o.Now})
	if err != nil {
		return nil, err
	}
	return &core{o: o, hasher: h, limits: limits}, nil
}

// readyToSign prepares the signing of tokens. It belongs before the transaction that
// opens or goes on with a session, see token.Service.RefreshKeys.
func (s *core) readyToSign(ctx context.Context) error {
	if s.o.Tokens == nil {
		return errNoTokens
	}
	s.o.Tokens.RefreshKeys(ctx)
	return nil
}

func (s *core) findByEmail(ctx context.Context, email string) (dbsqlc.User, error) {
	key := emailKey(email)
	if !text.Storable(key) {
		return dbsqlc.User{}, pgx.ErrNoRows
	}
	return s.queries.FindUserByEmailKey(ctx, s.o.DB.Direct(), key)
}

// pass clears streaks and counts a success, unless one of all these has reached its
// limit meanwhile.
func (s *core) pass(ctx context.Context, streaks, right []throttle.Key) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.limits.Pass(ctx, tx, streaks...); err != nil {
			return err
		}
		return s.limits.CountTx(ctx, tx, right...)
	})
}

// lockVerified locks an account for what may not be added to it before its address is
// verified. It returns ErrEmailUnverified, or ErrSessionRevoked for one that is gone.
func (s *core) lockVerified(ctx context.Context, tx pgx.Tx, userID int64) error {
	row, err := s.queries.LockUser(ctx, tx, userID)
	if err == nil && row.EmailVerifiedAt == nil {
		return ErrEmailUnverified
	}
	return db.NotFound(err, ErrSessionRevoked)
}

// endOtherSessions ends all of the account's sessions but the acting one.
func (s *core) endOtherSessions(ctx context.Context, tx pgx.Tx, userID int64) error {
	kept, err := uuid.Parse(identity.FromContext(ctx).SessionID)
	if err != nil {
		kept = uuid.Nil // acting without a session: none is kept
	}
	_, err = s.queries.RevokeOtherSessions(ctx, tx, s.o.Now(), userID, kept)
	return err
}
