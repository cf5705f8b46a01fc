// Package account manages who may act: people's accounts, passwords, sign-in sessions, API
// tokens, linked identities, second factors and roles, and bots' accounts and tokens.
package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
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
	ErrLastAdmin          = fault.New(fault.Conflict, "last_admin", "This is the last active administrator. Make another account an ADMIN first.")
	ErrNotFound           = fault.Missing("user")
	ErrRefreshReused      = fault.New(fault.Unauthenticated, "refresh_reused", "This refresh token was used before, so the session has ended. Sign in again.")
	ErrRefreshUnknown     = fault.New(fault.Unauthenticated, "token_invalid", "This is not a refresh token of this service. Sign in again.")
	ErrAPIToken           = fault.New(fault.Unauthenticated, "token_invalid", "The API token is unknown or revoked, or its owner is deactivated.")
	ErrAPITokenExpired    = fault.New(fault.Unauthenticated, "token_expired", "The API token has expired. Create a new one.")
	ErrTokenScope         = fault.New(fault.Forbidden, fault.CodeForbidden, "This API token's scopes do not allow this.")
	ErrEmailUnverified    = fault.New(fault.Forbidden, "email_unverified", "Verify your e-mail address first: use the link that was mailed to you, or ask for another one.")
	ErrPasswordRequired   = fault.New(fault.Forbidden, "password_required", "Also send your password, or a new_password, or sign in to the account first.")
	ErrReauthenticate     = fault.New(fault.Forbidden, "reauthentication_required", "Confirm who you are: send your current password, or sign in again.")
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
	// Alerts tells the administrators of API tokens that will expire; nil for nobody.
	Alerts Alerter
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
	// Visits bound the sessions of the operator pages.
	Visits VisitOptions
	// PasswordCost is the work of one password hash; the zero value is DefaultPasswordCost.
	PasswordCost PasswordCost
	// ConcurrentHashes bounds the password hashes computed at once, and so their
	// memory: PasswordCost.MemoryKiB each. 0 means one for each CPU.
	ConcurrentHashes int
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Random is the source of salts, session ids and refresh tokens; nil for the system's.
	Random io.Reader
	// Logger is told what no answer tells; nil for nowhere.
	Logger *slog.Logger
	// Told is told how each try to sign in ended; nil for nobody. It must not wait.
	Told func(Outcome)
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
	o.Visits.Max, o.Visits.Idle = cmp.Or(o.Visits.Max, 12*time.Hour), cmp.Or(o.Visits.Idle, 30*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Told == nil {
		o.Told = func(Outcome) {}
	}
	return o
}

// Service is the accounts, as parts: each is what its name says, and uses only those
// that New gives it.
type Service struct {
	core *core
	*Users
	*Registration
	*Links
	*Passwords
	*EmailChanges
	*Sessions
	*SignIns
	*SecondFactor
	*Identities
	*Tokens
	*ServiceAccounts
	*Authenticator
	*Visits
	*Oversight
}

// New makes the service.
func New(o Options) (*Service, error) {
	c, err := newCore(o)
	if err != nil {
		return nil, err
	}
	users, sessions, factor := &Users{c}, &Sessions{c}, &SecondFactor{c}
	signIns := &SignIns{core: c, open: sessions.openSessionTx, factor: factor}
	return &Service{
		core: c, Users: users, Sessions: sessions, SecondFactor: factor, SignIns: signIns,
		Registration: &Registration{core: c, users: users}, Links: &Links{c}, Passwords: &Passwords{c}, EmailChanges: &EmailChanges{c}, Tokens: &Tokens{c},
		Identities: &Identities{core: c, signIns: signIns}, ServiceAccounts: &ServiceAccounts{c},
		Authenticator: &Authenticator{core: c, factor: factor, rates: c.limits.NewRates("token.rate")},
		Visits:        newVisits(c, sessions, factor), Oversight: &Oversight{core: c, users: users},
	}, nil
}

// Sweep deletes what has no meaning any more: sessions and API tokens that ended a month
// ago, links and counts that expired. It returns how many rows.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	counts, err := s.core.limits.Sweep(ctx)
	if err != nil {
		return 0, err
	}
	before := s.core.o.Now().Add(-keepEnded)
	var sessions, homes, tokens, links, changes, waiting int64
	err = s.core.o.DB.InTx(ctx, identity.Step(ctx, "accounts"), func(ctx context.Context, tx pgx.Tx) error {
		if sessions, err = s.core.queries.DeleteStaleSessions(ctx, tx, before); err != nil {
			return err
		}
		if tokens, err = s.core.queries.DeleteStaleAPITokens(ctx, tx, before); err != nil {
			return err
		}
		if homes, err = s.core.queries.DeleteStaleNetworks(ctx, tx, s.core.o.Now().Add(-home)); err != nil {
			return err
		}
		if links, err = s.core.queries.DeleteStaleMailTokens(ctx, tx, before); err != nil {
			return err
		}
		if changes, err = s.core.queries.DeleteStaleEmailChanges(ctx, tx, before); err != nil {
			return err
		}
		waiting, err = s.Identities.sweepOAuth(ctx, tx)
		return err
	})
	return counts + int(sessions+homes+tokens+links+changes+waiting), err
}
