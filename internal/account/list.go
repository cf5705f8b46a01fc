package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
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
	matching, err := f.matching()
	if err != nil {
		return nil, nil, err
	}
	count, args := `select count(*) from users`+matching.SQL(), matching.Args()
	order, err := f.order(matching)
	if err != nil {
		return nil, nil, err
	}
	var total *int64
	if f.Count {
		total = new(int64)
		if err := s.o.DB.Direct().QueryRow(ctx, count, args...).Scan(total); err != nil {
			return nil, nil, db.Translate(err)
		}
	}
	query := `select * from users` + matching.SQL() + ` order by ` + order + ` limit ` + matching.Arg(f.Limit)
	rows, err := s.o.DB.Direct().Query(ctx, query, matching.Args()...)
	if err != nil {
		return nil, nil, db.Translate(err)
	}
	users, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (User, error) {
		r, err := pgx.RowToStructByName[dbsqlc.User](row)
		return fromRow(r), err
	})
	return users, total, db.Translate(err)
}

func (f Filter) matching() (*where.Clause, error) {
	c := where.New()
	if f.Query != "" {
		if !text.Storable(f.Query) {
			return nil, fault.Validation(map[string]string{"q": "Must be text without U+0000."})
		}
		pattern := where.Containing(f.Query)
		c.Add(`(email ilike ? or first_name || ' ' || last_name ilike ?)`, pattern, pattern)
	}
	if f.Role != "" {
		c.Add(`role = ?`, string(f.Role))
	}
	if f.Active != nil {
		c.Add(`active = ?`, *f.Active)
	}
	return c, nil
}

// order returns the ORDER BY list, and adds to c the condition that skips what earlier
// pages held.
func (f Filter) order(c *where.Clause) (string, error) {
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
		return "", fault.Validation(map[string]string{"sort": "Must be created_at, -created_at, email or -email."})
	}
	order := column + direction + ", id" + direction
	if f.After == nil {
		return order, nil
	}
	if !text.Storable(f.After.EmailKey) {
		return "", fault.Validation(map[string]string{"cursor": "This is not a cursor of this list."})
	}
	after := any(f.After.CreatedAt)
	if column == "email_key" {
		after = f.After.EmailKey
	}
	c.Add("("+column+", id)"+compare+"(?, ?)", after, f.After.ID)
	return order, nil
}
