// Package account manages the people who may act: their accounts, passwords, sign-in
// sessions, API tokens, linked identities, second factors and roles.
package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/throttle"
	"github.com/waypost/waypost/internal/token"
)

// SessionTTL is how long a sign-in session lasts at most, however often its tokens are
// refreshed.
const SessionTTL = 30 * 24 * time.Hour

// MaxRefreshGrace is the longest RefreshGrace.
const MaxRefreshGrace = 10 * time.Second

// keepEnded is how long a session that ended stays on record.
const keepEnded = 30 * 24 * time.Hour

// Faults of this domain.
var (
	ErrInvalidCredentials = fault.New(fault.Unauthenticated, "invalid_credentials", "The e-mail address or the password is wrong.")
	ErrSessionRevoked     = fault.New(fault.Unauthenticated, "session_revoked", "This session has ended. Sign in again.")
	ErrInactive           = fault.New(fault.Forbidden, "account_inactive", "This account is deactivated. Ask an administrator.")
	ErrEmailTaken         = fault.New(fault.Conflict, "email_taken", "Another account has that e-mail address.")
	ErrLastAdmin          = fault.New(fault.Conflict, "last_admin", "This is the last active administrator; make another one first.")
	ErrNotFound           = fault.Missing("user")
	ErrRefreshReused      = fault.New(fault.Unauthenticated, "refresh_reused", "This refresh token was used before, so the session has ended. Sign in again.")
	ErrRefreshUnknown     = fault.New(fault.Unauthenticated, "token_invalid", "This is not a refresh token of this service. Sign in again.")
	ErrAPIToken           = fault.New(fault.Unauthenticated, "token_invalid", "The API token is unknown or revoked, or its owner is deactivated.")
	ErrAPITokenExpired    = fault.New(fault.Unauthenticated, "token_expired", "The API token has expired. Create a new one.")
	ErrTokenScope         = fault.New(fault.Forbidden, fault.CodeForbidden, "This API token's scopes do not allow this.")
	ErrReauthenticate     = fault.New(fault.Forbidden, "reauthentication_required", "Prove again who you are: give your current password, or sign in again.")
	ErrLinkInvalid        = fault.New(fault.Malformed, "link_invalid", "This link was used, has expired, or is for an address that changed. Ask for a new one.")
	ErrBusy               = fault.New(fault.Unavailable, fault.CodeBusy, "Too many sign-ins at once. Try again shortly.").After(2 * time.Second)
)

// Options configure New. DB is mandatory.
type Options struct {
	DB *db.DB
	// Tokens signs people in; without it SignIn and Authenticate must not be called.
	Tokens *token.Service
	// Mail sends mails to people about their accounts. Without it, only Create and
	// methods that send no mail may be called.
	Mail mail.Sender
	// Jobs takes work that is done later. Without it, RequestPasswordReset and
	// RequestVerification must not be called.
	Jobs Jobs
	// Files are deleted with their account; nil where their bytes are left to a sweep.
	Files Files
	// URL is the service's own URL, without a trailing slash. Links in mails lead there.
	URL string
	// RefreshGrace is the time within which a refresh token may be used a second time,
	// for clients that refresh twice at once; at most MaxRefreshGrace.
	RefreshGrace time.Duration
	// OAuth configures sign-in through outside providers.
	OAuth OAuthOptions
	// TwoFactor configures two-factor authentication.
	TwoFactor TwoFactorOptions
	// PasswordCost is the work of one password hash; the zero value is DefaultPasswordCost.
	PasswordCost PasswordCost
	// ConcurrentHashes bounds the password hashes computed at once, and so their
	// memory: PasswordCost.MemoryKiB each. 0 means one for each CPU.
	ConcurrentHashes int
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Random is the source of salts, session ids and refresh tokens; nil for the system's.
	Random io.Reader
}

// Jobs inserts a job that exists if and only if tx commits.
type Jobs interface {
	Insert(ctx context.Context, tx pgx.Tx, job queue.Job) error
}

// Files deletes an account's files within the transaction that deletes the account,
// their bytes after it.
type Files interface {
	DeleteAllOf(ctx context.Context, tx pgx.Tx, owner int64) error
}

func (o Options) validate() error {
	if o.DB == nil {
		return errors.New("account: Options.DB is missing")
	}
	if o.RefreshGrace < 0 || o.RefreshGrace > MaxRefreshGrace {
		return fmt.Errorf("account: WAYPOST_REFRESH_GRACE must be from 0s to %s", MaxRefreshGrace)
	}
	return errors.Join(o.PasswordCost.validate(), o.OAuth.validate())
}

func (o Options) withDefaults() Options {
	o.PasswordCost = cmp.Or(o.PasswordCost, DefaultPasswordCost)
	o.ConcurrentHashes = cmp.Or(max(o.ConcurrentHashes, 0), runtime.GOMAXPROCS(0))
	o.TwoFactor.Issuer = cmp.Or(o.TwoFactor.Issuer, "Waypost")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// Service is the accounts.
type Service struct {
	o       Options
	queries dbsqlc.Queries
	hasher  *hasher
	limits  *throttle.Service
	// throttled are whose refused attempts the audit log has, this minute.
	throttled oncePerMinute
}

// New makes the service.
func New(o Options) (*Service, error) {
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
	return &Service{o: o, hasher: h, limits: limits}, nil
}

// Create makes an active account with a password. It returns ErrEmailTaken,
// ErrBusy, or a validation fault whose details are keyed by field.
func (s *Service) Create(ctx context.Context, n NewUser) (User, error) {
	return s.create(ctx, n, nil)
}

// create is Create, with more to do in the same transaction.
func (s *Service) create(ctx context.Context, n NewUser, more func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error) (User, error) {
	n = n.normalized()
	if err := n.validate(); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.hash(ctx, n.Password, payersOf(ctx, n.Email))
	if err != nil {
		return User{}, err
	}
	return s.insert(ctx, n, hash, true, more)
}

func (s *Service) insert(ctx context.Context, n NewUser, hash string, active bool, more func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error) (User, error) {
	var row dbsqlc.User
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.InsertUser(ctx, tx, dbsqlc.InsertUserParams{
			FirstName: n.FirstName, LastName: n.LastName, Email: n.Email, EmailKey: emailKey(n.Email),
			PasswordHash: hash, Role: string(n.Role), Active: active, Now: s.o.Now(),
		})
		if err != nil || more == nil {
			return err
		}
		return more(ctx, tx, row)
	})
	if db.Violates(err, "users_email_key") {
		return User{}, ErrEmailTaken.Because(err)
	}
	if err != nil {
		return User{}, err
	}
	return fromRow(row), nil
}

// FindByID returns ErrNotFound when there is no such account.
func (s *Service) FindByID(ctx context.Context, id int64) (User, error) {
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return User{}, db.NotFound(err, ErrNotFound)
	}
	return fromRow(row), nil
}

// Sweep deletes what has no meaning any more: sessions that ended a month ago,
// links and counts that expired. It returns how many rows.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	counts, err := s.limits.Sweep(ctx)
	if err != nil {
		return 0, err
	}
	before := s.o.Now().Add(-keepEnded)
	var sessions, links, waiting int64
	err = s.o.DB.InTx(ctx, identity.Step(ctx, "accounts"), func(ctx context.Context, tx pgx.Tx) error {
		if sessions, err = s.queries.DeleteStaleSessions(ctx, tx, before); err != nil {
			return err
		}
		if links, err = s.queries.DeleteStaleMailTokens(ctx, tx, before); err != nil {
			return err
		}
		waiting, err = s.sweepOAuth(ctx, tx)
		return err
	})
	return counts + int(sessions+links+waiting), err
}
