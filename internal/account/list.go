package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Filter selects accounts; zero fields select all.
type Filter struct {
	// Query of the Request is looked for in the names and the e-mail address, without
	// regard to case.
	page.Request
	Role   identity.Role
	Active *bool
}

// orders are what lists of accounts are sorted by.
var orders = page.Columns{
	{Sort: "created_at", Name: "created_at", Time: true}, {Sort: "email", Name: "email_key"}, {Sort: "last_name", Name: "last_name"},
}

// position is where u stands in a list of that order.
func (u User) position(o page.Order) *page.Position {
	switch o.Sort {
	case "email":
		return o.At(u.emailKey, u.ID)
	case "last_name":
		return o.At(u.LastName, u.ID)
	}
	return o.At(page.Time(u.CreatedAt), u.ID)
}

// userColumns are those of dbsqlc.User, by name: a newer program may have added others.
const userColumns = `u.id, u.first_name, u.last_name, u.email, u.email_key, u.password_hash, u.role, u.active, u.created_at, u.updated_at, u.email_verified_at`

// List returns a page of people's accounts. It returns a validation fault whose details are keyed
// by q, sort or cursor.
func (s *Users) List(ctx context.Context, f Filter) (page.Page[User], error) {
	none := page.Page[User]{}
	matching, err := f.matching()
	if err != nil {
		return none, err
	}
	o, problem := orders.Order(f.Sort)
	if problem != "" {
		return none, fault.Validation(map[string]string{"sort": problem})
	}
	count, args := `select count(*) from users u`+matching.SQL(), matching.Args()
	if problem := o.After(matching, "u", f.After); problem != "" {
		return none, fault.Validation(map[string]string{"cursor": problem})
	}
	out := page.Page[User]{Limit: f.Limit}
	if f.Count {
		out.Total = new(int64)
		if err := s.o.DB.Direct().QueryRow(ctx, count, args...).Scan(out.Total); err != nil {
			return none, db.Translate(err)
		}
	}
	rows, err := s.o.DB.Direct().Query(ctx, `select `+userColumns+` from users u`+matching.SQL()+o.By("u")+` limit `+matching.Arg(f.Limit+1), matching.Fresh()...)
	if err != nil {
		return none, db.Translate(err)
	}
	out.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (User, error) {
		r, err := pgx.RowToStructByName[dbsqlc.User](row)
		return fromRow(r), err
	})
	if len(out.Rows) > f.Limit {
		out.Rows = out.Rows[:f.Limit]
		out.Next = out.Rows[f.Limit-1].position(o)
	}
	return out, db.Translate(err)
}

func (f Filter) matching() (*where.Clause, error) {
	c := where.New()
	c.Add(`u.email_key not like 'service:%'`) // people
	if f.Query != "" {
		if !text.Storable(f.Query) {
			return nil, fault.Validation(map[string]string{"q": "Must be text without U+0000."})
		}
		pattern := where.Containing(f.Query)
		c.Add(`(email_key like lower(?) or lower(first_name || ' ' || last_name) like lower(?))`, pattern, pattern) // ilike would lower the pattern for each row
	}
	if f.Role != "" {
		c.Add(`role = ?`, string(f.Role))
	}
	if f.Active != nil {
		c.Add(`active = ?`, *f.Active)
	}
	return c, nil
}
