package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

// SignedIn is what a client gets for its credentials.
type SignedIn struct {
	User        User
	AccessToken string
	ExpiresIn   time.Duration
	// RefreshToken is opaque and good for one use; only its SHA-256 is stored.
	RefreshToken string
}

var errNoTokens = errors.New("account: made without Options.Tokens, so nobody can sign in")

// SignIn checks an e-mail address and a password and opens a session. An unknown
// address costs the same work, and gets the same ErrInvalidCredentials, as a
// wrong password. It returns ErrInactive, only to who knows the password, ErrBusy,
// or a validation fault for a password too long to be one.
func (s *Service) SignIn(ctx context.Context, email, password string) (SignedIn, error) {
	if utf8.RuneCountInString(password) > MaxPassword {
		return SignedIn{}, fault.Validation(map[string]string{"password": fmt.Sprintf("Has at most %d characters.", MaxPassword)})
	}
	if s.opts.Tokens == nil {
		return SignedIn{}, errNoTokens
	}
	row, err := s.findByEmail(ctx, email)
	unknown := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !unknown {
		return SignedIn{}, db.Translate(err)
	}
	hash := row.PasswordHash
	if unknown {
		hash = s.hasher.decoy
	}
	matches, err := s.hasher.verify(ctx, password, hash)
	switch {
	case err != nil:
		return SignedIn{}, err
	case !matches || unknown:
		return SignedIn{}, ErrInvalidCredentials
	case !row.Active:
		return SignedIn{}, ErrInactive
	}
	return s.openSession(ctx, row)
}

func (s *Service) findByEmail(ctx context.Context, email string) (dbsqlc.User, error) {
	key := emailKey(email)
	if !storable(key) {
		return dbsqlc.User{}, pgx.ErrNoRows
	}
	return s.q.FindUserByEmailKey(ctx, s.opts.DB.Pool(), key)
}

// openSession stores a session and its first refresh token. It returns
// ErrInvalidCredentials when the account changed since row was read.
func (s *Service) openSession(ctx context.Context, row dbsqlc.User) (SignedIn, error) {
	sid, err := uuid.NewRandomFromReader(s.opts.Random)
	if err != nil {
		return SignedIn{}, fmt.Errorf("account: session id: %w", err)
	}
	refresh, digest, err := s.newRefreshToken()
	if err != nil {
		return SignedIn{}, err
	}
	user := fromRow(row)
	access, err := s.opts.Tokens.IssueAccess(token.Claims{UserID: user.ID, SessionID: sid, Role: user.Role})
	if err != nil {
		return SignedIn{}, err
	}
	p := identity.Account(user.ID, user.Role, sid.String())
	edge := identity.FromContext(ctx)
	p.Address, p.RequestID = edge.Address, edge.RequestID
	now := s.opts.Now()
	err = s.opts.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.q.InsertAuthSession(ctx, tx, dbsqlc.InsertAuthSessionParams{
			ID: sid, UserID: user.ID, PasswordHash: row.PasswordHash, CreatedAt: now, ExpiresAt: now.Add(SessionTTL),
		})
		if err != nil {
			return db.NotFound(err, ErrInvalidCredentials)
		}
		return s.q.InsertRefreshToken(ctx, tx, digest, sid, now)
	})
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{User: user, AccessToken: access, ExpiresIn: token.AccessTTL, RefreshToken: refresh}, nil
}

// newRefreshToken returns 256 random bits as text and the digest to store. The
// prefix lets secret scanners recognise one that leaked.
func (s *Service) newRefreshToken() (string, []byte, error) {
	var secret [32]byte
	if _, err := io.ReadFull(s.opts.Random, secret[:]); err != nil {
		return "", nil, fmt.Errorf("account: refresh token: %w", err)
	}
	text := "wprt_" + base64.RawURLEncoding.EncodeToString(secret[:])
	digest := sha256.Sum256([]byte(text))
	return text, digest[:], nil
}

// Authenticate returns who bears an access token. The session and the account are
// read each time: the end of a session, a deactivation, a deletion and another
// role hold from the next request on. It returns token.ErrExpired,
// token.ErrInvalid or ErrSessionRevoked.
func (s *Service) Authenticate(ctx context.Context, bearer string) (identity.Principal, error) {
	if s.opts.Tokens == nil {
		return identity.Principal{}, errNoTokens
	}
	claims, err := s.opts.Tokens.VerifyAccess(bearer)
	if err != nil {
		return identity.Principal{}, err
	}
	row, err := s.q.FindAuthSession(ctx, s.opts.DB.Pool(), claims.SessionID, claims.UserID)
	if err != nil {
		return identity.Principal{}, db.NotFound(err, ErrSessionRevoked)
	}
	if row.RevokedAt != nil || !s.opts.Now().Before(row.ExpiresAt) || !row.Active {
		return identity.Principal{}, ErrSessionRevoked
	}
	return identity.Account(claims.UserID, identity.Role(row.Role), claims.SessionID.String()), nil
}
