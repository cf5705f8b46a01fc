package account

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/text"
)

// Change is what Update changes; nil fields stay as they are.
type Change struct {
	FirstName *string
	LastName  *string
	Email     *string
	Role      *identity.Role
	Active    *bool
}

// Find returns an account to its holder or an ADMIN, and ErrNotFound to others. An
// ADMIN's API token without scope admin gets ErrTokenScope for others' accounts.
func (s *Users) Find(ctx context.Context, id int64) (User, error) {
	if err := admit(identity.FromContext(ctx), id); err != nil {
		return User{}, err
	}
	return s.FindByID(ctx, id)
}

// admit returns nil when p may read and change the account. It never looks whether
// there is one, so that its refusal tells nothing.
func admit(p identity.Principal, id int64) error {
	switch {
	case administers(p), p.Kind == identity.KindUser && p.UserID == id:
		return nil
	case p.Is(identity.Admin):
		return ErrTokenScope
	}
	return ErrNotFound
}

// administers says that p may change others' accounts, roles and who is active.
func administers(p identity.Principal) bool {
	return p.Operates() || p.Administers()
}

// Update changes an account for its holder, an ADMIN or the system. The holder
// may repeat role and active but not change them; another address only begins what
// RequestEmailChange begins, with its conditions, and is not in what is returned.
// From others, another address takes effect at once and must be verified anew; a
// deactivated account's sessions end. An ADMIN's API token needs scope admin for
// others' accounts, and to change a role or who is active, its owner's included. It
// returns ErrNotFound, also for somebody else's account, ErrTokenScope,
// ErrEmailTaken, ErrLastAdmin, ErrReauthenticate, throttle.ErrLimited, or a
// validation fault keyed by field.
func (s *Users) Update(ctx context.Context, id int64, c Change) (User, error) {
	p := identity.FromContext(ctx)
	if err := admit(p, id); err != nil {
		return User{}, err
	}
	row, err := s.update(ctx, id, c, false)
	if errors.Is(err, errUncounted) {
		if err := s.countEmailChange(ctx, id); err != nil {
			return User{}, err
		}
		row, err = s.update(ctx, id, c, true)
	}
	if db.Violates(err, "users_email_key") {
		return User{}, ErrEmailTaken.Because(err)
	}
	if err != nil {
		return User{}, err
	}
	return fromRow(row), nil
}

// errUncounted says that a change asks for another address of one's own, and must be
// counted first.
var errUncounted = errors.New("account: a change of one's own address is to be counted first")

// update is Update without its limit; counted says that the change was counted.
func (s *Users) update(ctx context.Context, id int64, c Change, counted bool) (dbsqlc.User, error) {
	p := identity.FromContext(ctx)
	var row dbsqlc.User
	err := s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		old, err := s.lockForChange(ctx, tx, id, c)
		if err != nil {
			return err
		}
		next := c.apply(old)
		if err := s.checkChange(ctx, c, old, next); err != nil {
			return err
		}
		if !counted && movesOwn(p, old, next) {
			return errUncounted
		}
		if movesOwn(p, old, next) {
			if err := s.askForEmail(ctx, tx, old, next.Email); err != nil {
				return err
			}
			next.Email, next.EmailKey = old.Email, old.EmailKey
		}
		row, err = s.store(ctx, tx, old, next)
		return err
	})
	return row, err
}

// movesOwn says that somebody changes the address of their own account. Another
// spelling of the same address is no change.
func movesOwn(p identity.Principal, old, next dbsqlc.User) bool {
	return p.Kind == identity.KindUser && p.UserID == old.ID && next.EmailKey != old.EmailKey
}

// SetRole gives the account with that e-mail address a role, on an operator's
// word. It returns ErrNotFound, ErrLastAdmin when no active administrator would
// be left, or a validation fault.
func (s *Users) SetRole(ctx context.Context, email string, role identity.Role) (User, error) {
	u, err := s.FindByEmail(ctx, email)
	if err != nil {
		return User{}, err
	}
	return s.Update(identity.NewContext(ctx, identity.Step(ctx, "set-role")), u.ID, Change{Role: &role})
}

// Delete removes an account with everything that is its own: sessions, tokens, posts,
// blogs, mails and files. It returns ErrNotFound or ErrLastAdmin.
func (s *Users) Delete(ctx context.Context, id int64) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if err := s.sparesAnAdmin(ctx, tx, id); err != nil {
			return err
		}
		if s.o.Files != nil {
			if err := s.o.Files.DeleteAllOf(ctx, tx, id); err != nil {
				return err
			}
		}
		n, err := s.queries.DeleteUser(ctx, tx, id)
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}

// lockForChange locks the account. What could take an administrator away locks
// all of them first, so that of two such changes at once the second sees the
// first.
func (s *Users) lockForChange(ctx context.Context, tx pgx.Tx, id int64, c Change) (dbsqlc.User, error) {
	removes := c.Role != nil && *c.Role != identity.Admin || c.Active != nil && !*c.Active
	if removes && administers(identity.FromContext(ctx)) {
		if err := s.sparesAnAdmin(ctx, tx, id); err != nil {
			return dbsqlc.User{}, err
		}
	}
	row, err := s.queries.LockUser(ctx, tx, id)
	return row, db.NotFound(err, ErrNotFound)
}

// sparesAnAdmin returns ErrLastAdmin when the account is the only active ADMIN.
func (s *Users) sparesAnAdmin(ctx context.Context, tx pgx.Tx, id int64) error {
	admins, err := s.queries.LockActiveAdmins(ctx, tx)
	if err != nil {
		return err
	}
	if len(admins) == 1 && admins[0] == id {
		return ErrLastAdmin
	}
	return nil
}

// apply returns row with the changes.
func (c Change) apply(row dbsqlc.User) dbsqlc.User {
	if c.FirstName != nil {
		row.FirstName = text.Trim(*c.FirstName)
	}
	if c.LastName != nil {
		row.LastName = text.Trim(*c.LastName)
	}
	if c.Email != nil {
		row.Email = strings.TrimSpace(*c.Email)
		row.EmailKey = emailKey(row.Email)
	}
	if c.Role != nil {
		row.Role = string(*c.Role)
	}
	if c.Active != nil {
		row.Active = *c.Active
	}
	return row
}

// checkChange judges what c changes. What it leaves alone may have been written
// under other rules.
func (s *Users) checkChange(ctx context.Context, c Change, old, next dbsqlc.User) error {
	details := NewUser{
		FirstName: next.FirstName, LastName: next.LastName, Email: next.Email, Role: identity.Role(next.Role),
	}.profileProblems()
	for field, left := range map[string]bool{
		"first_name": c.FirstName == nil, "last_name": c.LastName == nil, "email": c.Email == nil, "role": c.Role == nil,
	} {
		if left {
			delete(details, field)
		}
	}
	p := identity.FromContext(ctx)
	if !administers(p) {
		for field, changed := range map[string]bool{"role": next.Role != old.Role, "active": next.Active != old.Active} {
			if changed && p.Is(identity.Admin) {
				return ErrTokenScope
			}
			if changed && details[field] == "" {
				details[field] = "Only an ADMIN changes this; leave it out, or repeat what it is."
			}
		}
	}
	if err := problems(details); err != nil {
		return err
	}
	if movesOwn(p, old, next) {
		return s.requireRecent(ctx)
	}
	return nil
}

// store writes next and does what follows from the differences.
func (s *Users) store(ctx context.Context, tx pgx.Tx, old, next dbsqlc.User) (dbsqlc.User, error) {
	moved := next.EmailKey != old.EmailKey
	if moved {
		next.EmailVerifiedAt = nil
	}
	row, err := s.queries.UpdateUser(ctx, tx, dbsqlc.UpdateUserParams{
		ID: old.ID, FirstName: next.FirstName, LastName: next.LastName, Email: next.Email, EmailKey: next.EmailKey,
		EmailVerifiedAt: next.EmailVerifiedAt, Role: next.Role, Active: next.Active, Now: s.o.Now(),
	})
	if err != nil {
		return dbsqlc.User{}, err
	}
	if old.Active && !next.Active {
		if _, err := s.queries.RevokeUserSessions(ctx, tx, s.o.Now(), old.ID); err != nil {
			return dbsqlc.User{}, err
		}
	}
	if !moved {
		return row, nil
	}
	// Whoever may do this decides: nothing that was asked for before happens any more, and
	// nothing is taken back.
	err = s.queries.CloseEmailChanges(ctx, tx, dbsqlc.CloseEmailChangesParams{Now: s.o.Now(), ClosedBy: "administrator", UserID: old.ID})
	if err != nil {
		return dbsqlc.User{}, err
	}
	if err := s.send(ctx, tx, old, mail.Message{Kind: mail.EmailChanged}); err != nil {
		return dbsqlc.User{}, err
	}
	return row, s.sendLink(ctx, tx, row, mail.VerifyEmail)
}
