package account

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Sort is an order of a list of accounts.
type Sort string

// The orders. The account's id breaks ties.
const (
	NewestFirst Sort = "-created_at"
	OldestFirst Sort = "created_at"
	ByEmail     Sort = "email"
	ByEmailDesc Sort = "-email"
)

// Filter selects accounts; zero fields select all.
type Filter struct {
	// Query is looked for in the names and the e-mail address, without regard to case.
	Query  string
	Role   identity.Role
	Active *bool
	Sort   Sort // empty for NewestFirst
	// After is where the previous page ended; nil for the first page.
	After *Position
	// Limit is the number of rows wanted at most.
	Limit int
	// Count also counts all rows that match, whatever the page.
	Count bool
}

// Position is an account's place in every order.
type Position struct {
	CreatedAt time.Time
	EmailKey  string
	ID        int64
}

// Position returns where u stands in a list.
func (u User) Position() Position {
	return Position{CreatedAt: u.CreatedAt, EmailKey: u.emailKey, ID: u.ID}
}

// List returns a page of accounts and, when asked, how many match. It returns a
// validation fault whose details are keyed by q, sort or cursor.
func (s *Service) List(ctx context.Context, f Filter) ([]User, *int64, error) {
	conditions, args, err := f.conditions()
	if err != nil {
		return nil, nil, err
	}
	order, after, err := f.order(args)
	if err != nil {
		return nil, nil, err
	}
	var total *int64
	if f.Count {
		total = new(int64)
		count := `select count(*) from users where ` + conditions
		if err := s.opts.DB.Direct().QueryRow(ctx, count, args).Scan(total); err != nil {
			return nil, nil, db.Translate(err)
		}
	}
	args["limit"] = f.Limit
	rows, err := s.opts.DB.Direct().Query(ctx, `select * from users where `+conditions+after+` order by `+order+` limit @limit`, args)
	if err != nil {
		return nil, nil, db.Translate(err)
	}
	users, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (User, error) {
		r, err := pgx.RowToStructByName[dbsqlc.User](row)
		return fromRow(r), err
	})
	return users, total, db.Translate(err)
}

func (f Filter) conditions() (string, pgx.NamedArgs, error) {
	where := []string{"true"}
	args := pgx.NamedArgs{}
	if f.Query != "" {
		if !storable(f.Query) {
			return "", nil, fault.Validation(map[string]string{"q": "Must be text without U+0000."})
		}
		where = append(where, `(email ilike @q or first_name || ' ' || last_name ilike @q)`)
		args["q"] = "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Query) + "%"
	}
	if f.Role != "" {
		where = append(where, `role = @role`)
		args["role"] = string(f.Role)
	}
	if f.Active != nil {
		where = append(where, `active = @active`)
		args["active"] = *f.Active
	}
	return strings.Join(where, " and "), args, nil
}

// order returns the ORDER BY list and the condition that skips what earlier pages
// held, adding its values to args.
func (f Filter) order(args pgx.NamedArgs) (string, string, error) {
	column, direction, compare := "created_at", " desc", " < "
	switch f.Sort {
	case NewestFirst, "":
	case OldestFirst:
		direction, compare = "", " > "
	case ByEmail:
		column, direction, compare = "email_key", "", " > "
	case ByEmailDesc:
		column = "email_key"
	default:
		return "", "", fault.Validation(map[string]string{"sort": "Must be created_at, -created_at, email or -email."})
	}
	order := column + direction + ", id" + direction
	if f.After == nil {
		return order, "", nil
	}
	if !storable(f.After.EmailKey) {
		return "", "", fault.Validation(map[string]string{"cursor": "This is not a cursor of this list."})
	}
	args["after_created_at"], args["after_email_key"], args["after_id"] = f.After.CreatedAt, f.After.EmailKey, f.After.ID
	return order, " and (" + column + ", id)" + compare + "(@after_" + column + ", @after_id)", nil
}
