package account

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// ErrNoServiceAccount says that there is no such service account. People's accounts are
// none.
var ErrNoServiceAccount = fault.Missing("service account")

// ServiceAccount is the account of a bot. It acts by its API tokens alone, within its
// role: it has no password, no e-mail address and no way to sign in. It is no user, and
// doesn't count as an administrator when the last one is about to go.
type ServiceAccount struct {
	ID        int64 // among those of users: what it writes has it as its author
	Name      string
	Role      identity.Role
	Active    bool // its tokens work
	CreatedAt time.Time
}

// NewServiceAccount is what CreateServiceAccount needs.
type NewServiceAccount struct {
	Name   string
	Role   identity.Role // empty for identity.User
	Active bool
}

// ServiceAccountChange is what UpdateServiceAccount changes; nil fields stay as they are.
type ServiceAccountChange struct {
	Name   *string
	Role   *identity.Role
	Active *bool
}

// ServiceAccounts keeps bots' accounts and their API tokens. Who may is the caller's
// business.
type ServiceAccounts struct{ *core }

// servicePrefix begins the key of a service account's row of users, and no address does:
// an address has no colon before its @.
const servicePrefix = "service:"

// CreateServiceAccount makes a service account, which has no token yet. It returns a
// validation fault keyed by field.
func (s *ServiceAccounts) CreateServiceAccount(ctx context.Context, n NewServiceAccount) (ServiceAccount, error) {
	n.Name = text.Trim(n.Name)
	if n.Role == "" {
		n.Role = identity.User
	}
	if err := serviceAccountProblems(&n.Name, &n.Role); err != nil {
		return ServiceAccount{}, err
	}
	key, err := uuid.NewRandomFromReader(s.o.Random)
	if err != nil {
		return ServiceAccount{}, fmt.Errorf("account: key of a service account: %w", err)
	}
	var row dbsqlc.ServiceAccount
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.InsertServiceAccount(ctx, tx, dbsqlc.InsertServiceAccountParams{
			UserKey: servicePrefix + key.String(), Name: n.Name, Role: string(n.Role), Active: n.Active, Now: s.o.Now(),
		})
		return err
	})
	if err != nil {
		return ServiceAccount{}, err
	}
	return toServiceAccount(row), nil
}

// FindServiceAccount returns ErrNoServiceAccount when there is none with that id.
func (s *ServiceAccounts) FindServiceAccount(ctx context.Context, id int64) (ServiceAccount, error) {
	row, err := s.queries.FindServiceAccount(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return ServiceAccount{}, db.NotFound(err, ErrNoServiceAccount)
	}
	return toServiceAccount(row), nil
}

// UpdateServiceAccount changes a service account, which takes effect with its next
// request. It returns ErrNoServiceAccount or a validation fault keyed by field.
func (s *ServiceAccounts) UpdateServiceAccount(ctx context.Context, id int64, c ServiceAccountChange) (ServiceAccount, error) {
	if c.Name != nil {
		c.Name = new(text.Trim(*c.Name))
	}
	if err := serviceAccountProblems(c.Name, c.Role); err != nil {
		return ServiceAccount{}, err
	}
	args := dbsqlc.UpdateServiceAccountParams{ID: id, Name: c.Name, Active: c.Active}
	if c.Role != nil {
		args.Role = new(string(*c.Role))
	}
	var row dbsqlc.ServiceAccount
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.UpdateServiceAccount(ctx, tx, args)
		return db.NotFound(err, ErrNoServiceAccount)
	})
	if err != nil {
		return ServiceAccount{}, err
	}
	return toServiceAccount(row), nil
}

// DeleteServiceAccount removes a service account with everything that is its own: tokens,
// posts, blogs and files. What it wrote stays if it is deactivated instead. It returns
// ErrNoServiceAccount.
func (s *ServiceAccounts) DeleteServiceAccount(ctx context.Context, id int64) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.queries.LockServiceAccount(ctx, tx, id); err != nil { // a person's files are none of it
			return db.NotFound(err, ErrNoServiceAccount)
		}
		if s.o.Files != nil {
			if err := s.o.Files.DeleteAllOf(ctx, tx, id); err != nil {
				return err
			}
		}
		_, err := s.queries.DeleteServiceAccount(ctx, tx, id)
		return err
	})
}

// serviceAccountOrders are what lists of service accounts are sorted by.
var serviceAccountOrders = page.Columns{{Sort: "created_at", Name: "created_at", Time: true}}

// ListServiceAccounts returns a page of service accounts, newest first. It returns a
// validation fault keyed by cursor.
func (s *ServiceAccounts) ListServiceAccounts(ctx context.Context, r page.Request) (page.Page[ServiceAccount], error) {
	none := page.Page[ServiceAccount]{}
	o, _ := serviceAccountOrders.Order(page.NewestFirst)
	matching := where.New()
	if problem := o.After(matching, "s", r.After); problem != "" {
		return none, fault.Validation(map[string]string{"cursor": problem})
	}
	out := page.Page[ServiceAccount]{Limit: r.Limit}
	if r.Count {
		out.Total = new(int64)
		if err := s.o.DB.Direct().QueryRow(ctx, `select count(*) from service_accounts`).Scan(out.Total); err != nil {
			return none, db.Translate(err)
		}
	}
	rows, err := s.o.DB.Direct().Query(ctx, `select s.id, s.user_key, s.name, s.role, s.active, s.created_at from service_accounts s`+
		matching.SQL()+o.By("s")+` limit `+matching.Arg(r.Limit+1), matching.Args()...)
	if err != nil {
		return none, db.Translate(err)
	}
	out.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ServiceAccount, error) {
		r, err := pgx.RowToStructByName[dbsqlc.ServiceAccount](row)
		return toServiceAccount(r), err
	})
	if len(out.Rows) > r.Limit {
		out.Rows = out.Rows[:r.Limit]
		last := out.Rows[r.Limit-1]
		out.Next = o.At(page.Time(last.CreatedAt), last.ID)
	}
	return out, db.Translate(err)
}

// serviceAccountProblems judges what is given.
func serviceAccountProblems(name *string, role *identity.Role) error {
	details := map[string]string{}
	if name != nil {
		if rule := tokenNameProblem(*name); rule != "" {
			details["name"] = rule
		}
	}
	if role != nil && !role.Valid() {
		details["role"] = roleRule
	}
	return problems(details)
}

func toServiceAccount(r dbsqlc.ServiceAccount) ServiceAccount {
	return ServiceAccount{ID: r.ID, Name: r.Name, Role: identity.Role(r.Role), Active: r.Active, CreatedAt: r.CreatedAt.UTC()}
}
