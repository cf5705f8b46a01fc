package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// UserService lists accounts: up to f.Limit of them and, when asked, how many
// match. It returns a validation fault.
type UserService interface {
	List(ctx context.Context, f account.Filter) ([]account.User, *int64, error)
}

type listUsersInput struct {
	Page
	Query  string         `query:"q" maxLength:"200" doc:"Text to find in the names and the e-mail address; case makes no difference." example:"ada"`
	Role   string         `query:"role" enum:"ADMIN,EDITOR,USER" doc:"Only accounts with this role." example:"USER"`
	Active optional[bool] `query:"active" doc:"Only active accounts, or only deactivated ones." example:"true"`
	Sort   string         `query:"sort" enum:"created_at,-created_at,email,-email" default:"-created_at" doc:"Order; a minus turns it round."`
}

type listUsersOutput struct {
	Body list[User]
}

// userCursor is bound to the order that it was made for.
type userCursor struct {
	Sort      string    `json:"s"`
	CreatedAt time.Time `json:"t"`
	Email     string    `json:"e"`
	ID        int64     `json:"i"`
}

func (in *listUsersInput) filter() (account.Filter, error) {
	f := account.Filter{
		Query: in.Query, Role: identity.Role(in.Role), Sort: account.Sort(in.Sort), Limit: in.Limit + 1, Count: in.Total,
	}
	if in.Active.set {
		f.Active = &in.Active.value
	}
	if in.Cursor == "" {
		return f, nil
	}
	var c userCursor
	if err := decodeCursor(in.Cursor, &c); err != nil {
		return f, err
	}
	if c.Sort != in.Sort {
		return f, fault.Validation(map[string]string{"query.cursor": "Made for another sort; leave it out to start anew."})
	}
	f.After = &account.Position{CreatedAt: c.CreatedAt, EmailKey: c.Email, ID: c.ID}
	return f, nil
}

func registerUsers(a huma.API, s UserService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-users",
		Method:      http.MethodGet,
		Path:        "/api/users",
		Summary:     "List accounts",
		Description: "All accounts, newest first unless sorted otherwise, page by page.",
		Tags:        []string{tagUsers},
	}, roles(identity.Admin)), func(ctx context.Context, in *listUsersInput) (*listUsersOutput, error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		users, total, err := s.List(ctx, f)
		if err != nil {
			return nil, within("query", err)
		}
		return &listUsersOutput{Body: newList(users, in.Limit, total, toUser, func(u account.User) any {
			p := u.Position()
			return userCursor{Sort: in.Sort, CreatedAt: p.CreatedAt, Email: p.EmailKey, ID: p.ID}
		})}, nil
	})
}
