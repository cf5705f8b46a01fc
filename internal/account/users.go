package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Users keeps people's accounts: makes, finds, changes and deletes them.
type Users struct{ *core }

// Create makes an active account with a password, on an operator's word: its address
// counts as verified. It returns ErrEmailTaken, ErrBusy, or a validation fault whose
// details are keyed by field.
func (s *Users) Create(ctx context.Context, n NewUser) (User, error) {
	return s.create(ctx, n, func(row *dbsqlc.InsertUserParams) { row.EmailVerifiedAt = &row.Now }, nil)
}

// create makes an active account with a password, which change may change first, with
// more to do in the same transaction; either may be nil.
func (s *Users) create(ctx context.Context, n NewUser, change func(*dbsqlc.InsertUserParams), more func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error) (User, error) {
	n = n.normalized()
	if err := n.validate(); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.hash(ctx, n.Password, payersOf(ctx, n.Email))
	if err != nil {
		return User{}, err
	}
	return s.insert(ctx, n, func(row *dbsqlc.InsertUserParams) {
		row.PasswordHash, row.Active = hash, true
		if change != nil {
			change(row)
		}
	}, more)
}

// insert stores an account as change completes it: without it, it has no password and
// is not active.
func (s *Users) insert(ctx context.Context, n NewUser, change func(*dbsqlc.InsertUserParams), more func(ctx context.Context, tx pgx.Tx, row dbsqlc.User) error) (User, error) {
	p := dbsqlc.InsertUserParams{
		FirstName: n.FirstName, LastName: n.LastName, Email: n.Email, EmailKey: emailKey(n.Email), Role: string(n.Role), Now: s.o.Now(),
	}
	change(&p)
	var row dbsqlc.User
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.InsertUser(ctx, tx, p)
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
func (s *Users) FindByID(ctx context.Context, id int64) (User, error) {
	row, err := s.queries.FindUserByID(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return User{}, db.NotFound(err, ErrNotFound)
	}
	return fromRow(row), nil
}

// FindByEmail returns ErrNotFound when no account has that address.
func (s *Users) FindByEmail(ctx context.Context, email string) (User, error) {
	row, err := s.findByEmail(ctx, email)
	if err != nil {
		return User{}, db.NotFound(err, ErrNotFound)
	}
	return fromRow(row), nil
}
