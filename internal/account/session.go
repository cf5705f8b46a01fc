package account

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/token"
)

// MaxSessions is how many sessions of an account hold at most, whatever opened them;
// one more ends the first that was made. So nobody fills the database, and a password
// that was found out opens a bounded number of doors.
const MaxSessions = 50

const (
	// maxSurplus bounds what one sign-in ends or deletes: an older version of this
	// program, which runs beside this one, has no such limit.
	maxSurplus = 1000
	// keptGenerations is of how many generations a session's refresh tokens are kept, to
	// know one that is used again; older ones are deleted every trimEvery generations.
	keptGenerations = 1000
	trimEvery       = 100
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

// Sessions keeps who is signed in where, and gives sessions their tokens.
type Sessions struct{ *core }

// ListSessions returns up to limit of the acting account's sessions, newest
// first, from after on; nil starts at the newest.
func (s *Sessions) ListSessions(ctx context.Context, after *SessionPosition, limit int) ([]Session, error) {
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
		list[i] = toSession(r, p.SessionID)
	}
	return list, nil
}

func toSession(r dbsqlc.AuthSession, current string) Session {
	return Session{
		ID: r.ID, Methods: r.Methods, CreatedAt: r.CreatedAt.UTC(), LastUsedAt: r.LastUsedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
		Address: r.Address, UserAgent: r.UserAgent, Current: r.ID.String() == current,
	}
}

// CountSessions returns how many sessions ListSessions has in all.
func (s *Sessions) CountSessions(ctx context.Context) (int64, error) {
	n, err := s.queries.CountAuthSessions(ctx, s.o.DB.Direct(), identity.FromContext(ctx).UserID, s.o.Now())
	return n, db.Translate(err)
}

// EndSession ends one of the acting account's sessions. It returns ErrNoSession.
func (s *Sessions) EndSession(ctx context.Context, id uuid.UUID) error {
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
func (s *Sessions) EndSessions(ctx context.Context) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.queries.RevokeUserSessions(ctx, tx, s.o.Now(), p.UserID)
		return err
	})
}

// SignOut ends the acting session. It returns ErrNoSession when none is acting, or
// when it has ended already.
func (s *Sessions) SignOut(ctx context.Context) error {
	id, err := uuid.Parse(identity.FromContext(ctx).SessionID)
	if err != nil {
		return ErrNoSession.Because(err)
	}
	return s.EndSession(ctx, id)
}

// RequireRecent returns ErrReauthenticate unless the acting account signed in of
// late. An API token never did.
func (s *Sessions) RequireRecent(ctx context.Context) error { return s.requireRecent(ctx) }

// openSessionTx stores a session, by the methods that opened it, and its first
// refresh token. It returns ErrInvalidCredentials when the account was
// deactivated, deleted or given another password since row was read.
func (s *Sessions) openSessionTx(ctx context.Context, tx pgx.Tx, row dbsqlc.User, methods ...Method) (SignedIn, error) {
	opened, err := s.insertTx(ctx, tx, row, s.o.Now().Add(SessionTTL), methods)
	if err != nil {
		return SignedIn{}, err
	}
	signed, err := s.giveTokens(ctx, tx, row, opened.id, 1)
	if err != nil {
		return SignedIn{}, err
	}
	return signed, s.tellOf(ctx, tx, row, opened)
}

// opened is a new session, and whether it comes from where none was before.
type opened struct {
	id     uuid.UUID
	unseen bool
}

// insertTx stores a session. It returns what openSessionTx returns.
func (s *Sessions) insertTx(ctx context.Context, tx pgx.Tx, row dbsqlc.User, expires time.Time, methods []Method) (opened, error) {
	sid, err := uuid.NewRandomFromReader(s.o.Random)
	if err != nil {
		return opened{}, fmt.Errorf("account: session id: %w", err)
	}
	now, edge := s.o.Now(), identity.FromContext(ctx)
	session := dbsqlc.InsertAuthSessionParams{
		ID: sid, UserID: row.ID, PasswordHash: row.PasswordHash, Now: now, ExpiresAt: expires,
		Methods: texts(methods), UserAgent: edge.UserAgent,
	}
	if edge.Address.IsValid() {
		session.Address = edge.Address.String()
	}
	unseen, err := s.isUnseen(ctx, tx, row.ID, edge)
	if err != nil {
		return opened{}, err
	}
	if _, err := s.queries.InsertAuthSession(ctx, tx, session); err != nil {
		return opened{}, db.NotFound(err, ErrInvalidCredentials)
	}
	err = s.queries.MakeRoomForSession(ctx, tx, dbsqlc.MakeRoomForSessionParams{
		Now: now, UserID: row.ID, Kept: sid, Others: MaxSessions - 1, OnRecord: maxPlaces - MaxSessions, MaxRows: maxSurplus,
	})
	if err != nil {
		return opened{}, err
	}
	if err := s.rememberHome(ctx, tx, row.ID); err != nil {
		return opened{}, err
	}
	return opened{sid, unseen}, nil
}

// tellOf mails the account of a session that comes from where none was before.
func (s *Sessions) tellOf(ctx context.Context, tx pgx.Tx, row dbsqlc.User, o opened) error {
	if !o.unseen {
		return nil
	}
	return s.notify(ctx, tx, row, mail.Message{Kind: mail.NewSignIn})
}

// giveTokens stores a session's next refresh token, of that generation, and signs
// an access token.
func (s *Sessions) giveTokens(ctx context.Context, tx pgx.Tx, row dbsqlc.User, session uuid.UUID, generation int32) (SignedIn, error) {
	refresh, err := s.newPrefixed(refreshPrefix)
	if err != nil {
		return SignedIn{}, err
	}
	err = s.queries.InsertRefreshToken(ctx, tx, dbsqlc.InsertRefreshTokenParams{
		TokenSha256: digest(refresh), SessionID: session, CreatedAt: s.o.Now(), Generation: generation,
	})
	if err != nil {
		return SignedIn{}, err
	}
	if generation > keptGenerations && generation%trimEvery == 0 {
		if err := s.queries.DeleteOldRefreshTokens(ctx, tx, session, generation-keptGenerations); err != nil {
			return SignedIn{}, err
		}
	}
	user := fromRow(row)
	access, err := s.o.Tokens.IssueAccess(token.Claims{UserID: user.ID, SessionID: session, Role: user.Role})
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{User: user, AccessToken: access, ExpiresIn: token.AccessTTL, RefreshToken: refresh}, nil
}

// isUnseen reports whether a sign-in comes from a network or with a program that none
// of the account's sessions that are kept has together. Without any such session it
// is false: that is the first sign-in, or the first for a long time.
func (s *Sessions) isUnseen(ctx context.Context, tx pgx.Tx, userID int64, edge identity.Principal) (bool, error) {
	if s.o.Mail == nil || !edge.Address.IsValid() && edge.UserAgent == "" {
		return false, nil
	}
	address, network, device := "", "", deviceOf(edge.UserAgent)
	if edge.Address.IsValid() {
		address, network = edge.Address.String(), networkOf(edge.Address)
	}
	// Most sign-ins are from where the last one was, and cost no more than this.
	same, err := s.queries.SignedInWith(ctx, tx, userID, address, edge.UserAgent)
	if err != nil || same {
		return false, err
	}
	places, err := s.queries.ListSignInPlaces(ctx, tx, userID, maxPlaces)
	if err != nil || len(places) == 0 {
		return false, err
	}
	for _, p := range places {
		known := ""
		if a, err := netip.ParseAddr(p.Address); err == nil {
			known = networkOf(a)
		}
		if known == network && deviceOf(p.UserAgent) == device {
			return false, nil
		}
	}
	return true, nil
}
