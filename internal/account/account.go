// Package account knows the people who may act: their accounts, passwords,
// sign-in sessions and roles.
package account

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

// SessionTTL is the life of a sign-in session, however often its tokens are
// refreshed.
const SessionTTL = 30 * 24 * time.Hour

// Faults of this domain.
var (
	ErrInvalidCredentials = fault.New(fault.Unauthenticated, "invalid_credentials", "The e-mail address or the password is wrong.")
	ErrSessionRevoked     = fault.New(fault.Unauthenticated, "session_revoked", "This session has ended. Sign in again.")
	ErrInactive           = fault.New(fault.Forbidden, "account_inactive", "This account is deactivated. Ask an administrator.")
	ErrEmailTaken         = fault.New(fault.Conflict, "email_taken", "Another account has that e-mail address.")
	ErrLastAdmin          = fault.New(fault.Conflict, "last_admin", "This is the last active administrator; make another one first.")
	ErrNotFound           = fault.Missing("user")
	ErrBusy               = fault.New(fault.Unavailable, fault.CodeUnavailable, "Too many sign-ins at once. Try again shortly.").After(2 * time.Second)
)

// Options configure New. DB is mandatory.
type Options struct {
	DB *db.DB
	// Tokens signs people in; without it SignIn and Authenticate must not be called.
	Tokens *token.Service
	// PasswordCost is the work of one password hash; the zero value is DefaultPasswordCost.
	PasswordCost PasswordCost
	// ConcurrentHashes bounds the password hashes computed at once, and so their
	// memory: PasswordCost.MemoryKiB each. 0 is one for each CPU.
	ConcurrentHashes int
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Random is the source of salts, session ids and refresh tokens; nil for the system's.
	Random io.Reader
}

func (o Options) validate() error {
	if o.DB == nil {
		return errors.New("account: Options.DB is missing")
	}
	return o.PasswordCost.validate()
}

func (o Options) withDefaults() Options {
	if o.PasswordCost == (PasswordCost{}) {
		o.PasswordCost = DefaultPasswordCost
	}
	if o.ConcurrentHashes <= 0 {
		o.ConcurrentHashes = runtime.GOMAXPROCS(0)
	}
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
	opts   Options
	q      dbsqlc.Queries
	hasher *hasher
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
	return &Service{opts: o, hasher: h}, nil
}

// Create makes an active account. It returns ErrEmailTaken, ErrBusy, or a
// validation fault whose details are keyed by field.
func (s *Service) Create(ctx context.Context, n NewUser) (User, error) {
	n.Email = strings.TrimSpace(n.Email)
	if n.Role == "" {
		n.Role = identity.User
	}
	if err := n.validate(); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.hash(ctx, n.Password)
	if err != nil {
		return User{}, err
	}
	var row dbsqlc.User
	err = s.opts.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err = s.q.InsertUser(ctx, tx, dbsqlc.InsertUserParams{
			FirstName: n.FirstName, LastName: n.LastName, Email: n.Email, EmailKey: emailKey(n.Email),
			PasswordHash: hash, Role: string(n.Role), Active: true, Now: s.opts.Now(),
		})
		return err
	})
	if db.Violates(err, "users_email_key") {
		return User{}, ErrEmailTaken.Because(err)
	}
	if err != nil {
		return User{}, err
	}
	return fromRow(row), nil
}

// SetRole gives the account with that e-mail address a role. It returns
// ErrNotFound, or ErrLastAdmin when no active administrator would be left.
func (s *Service) SetRole(ctx context.Context, email string, role identity.Role) (User, error) {
	if !role.Valid() {
		return User{}, fault.Validation(map[string]string{"role": roleRule})
	}
	key := emailKey(email)
	var row dbsqlc.User
	err := s.opts.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if role != identity.Admin {
			admins, err := s.q.LockActiveAdmins(ctx, tx)
			if err != nil {
				return err
			}
			if len(admins) == 1 && admins[0] == key {
				return ErrLastAdmin
			}
		}
		var err error
		row, err = s.q.SetUserRole(ctx, tx, string(role), s.opts.Now(), key)
		return db.NotFound(err, ErrNotFound)
	})
	if err != nil {
		return User{}, err
	}
	return fromRow(row), nil
}

// FindByID returns ErrNotFound when there is no such account.
func (s *Service) FindByID(ctx context.Context, id int64) (User, error) {
	row, err := s.q.FindUserByID(ctx, s.opts.DB.Pool(), id)
	if err != nil {
		return User{}, db.NotFound(err, ErrNotFound)
	}
	return fromRow(row), nil
}
