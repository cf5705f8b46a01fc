package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// UserService keeps accounts. List returns up to f.Limit of them and, when asked,
// how many match. Find, Update and Delete return account.ErrNotFound, also to who
// may not know of the account; Find and Update account.ErrTokenScope; Invite and
// Update account.ErrEmailTaken; Update and Delete account.ErrLastAdmin; Update
// account.ErrReauthenticate and throttle.ErrLimited; all but Find and Delete
// validation faults.
type UserService interface {
	List(ctx context.Context, f account.Filter) ([]account.User, *int64, error)
	Find(ctx context.Context, id int64) (account.User, error)
	Invite(ctx context.Context, n account.NewUser, active bool) (account.User, error)
	Update(ctx context.Context, id int64, c account.Change) (account.User, error)
	Delete(ctx context.Context, id int64) error
}

// UserInput names an account.
type UserInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The account's id." example:"1"`
}

type createUserInput struct {
	Body model.Create[User]
}

type updateUserInput struct {
	UserInput
	Body model.Update[User]
}

// change is what the body says and the account can be changed in.
func (in *updateUserInput) change() account.Change {
	var c account.Change
	u := in.Body.Value()
	for name, set := range map[string]func(){
		"first_name": func() { c.FirstName = &u.FirstName },
		"last_name":  func() { c.LastName = &u.LastName },
		"email":      func() { c.Email = &u.Email },
		"role":       func() { c.Role = new(identity.Role(u.Role)) },
		"active":     func() { c.Active = &u.Active },
	} {
		if in.Body.Has(name) {
			set()
		}
	}
	return c
}

type listUsersInput struct {
	Page
	Query  string         `query:"q" maxLength:"200" doc:"Text to find in the names and the e-mail address; case makes no difference." example:"ada"`
	Role   string         `query:"role" enum:"ADMIN,EDITOR,USER" doc:"Only accounts with this role." example:"USER"`
	Active optional[bool] `query:"active" doc:"Only active accounts, or only deactivated ones." example:"true"`
	Sort   string         `query:"sort" enum:"created_at,-created_at,email,-email" default:"-created_at" doc:"The order; a leading minus reverses it."`
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
		return f, fault.Validation(map[string]string{"query.cursor": "This cursor was made for another sort order; leave it out to start anew."})
	}
	f.After = &account.Position{CreatedAt: c.CreatedAt, EmailKey: c.Email, ID: c.ID}
	return f, nil
}

// Users are the operations on accounts.
func Users(s UserService) Resource {
	return Resource{
		Tag: "Users", Area: "Accounts", Description: "Accounts and their roles.",
		Models: []any{User{}}, Aliases: []string{"/users"},
		Register: func(a huma.API) {
			registerUsers(a, s)
			registerUser(a, s)
			for _, method := range []string{http.MethodPut, http.MethodPatch} {
				registerUserUpdate(a, s, method)
			}
		},
	}
}

func registerUsers(a huma.API, s UserService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-users",
		Method:      http.MethodGet,
		Path:        "/api/users",
		Summary:     "List accounts",
		Description: "All accounts, newest first unless sorted otherwise, page by page.",
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

func registerUser(a huma.API, s UserService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "create-user",
		Method:        http.MethodPost,
		Path:          "/api/users",
		Summary:       "Create an account for somebody",
		Description:   "Creates an account without a password, and mails a link for setting one, which is valid for seven days.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin), account.ErrEmailTaken), export.Variant{
		Body: map[string]any{"email": "ada+{{$guid}}@example.com"}, Capture: map[string]string{"userId": "/data/id"},
	}), func(ctx context.Context, in *createUserInput) (*createdUserOutput, error) {
		n := in.Body.Value()
		u, err := s.Invite(ctx, account.NewUser{FirstName: n.FirstName, LastName: n.LastName, Email: n.Email, Role: identity.Role(n.Role)}, n.Active)
		if err != nil {
			return nil, within("body", err)
		}
		return createdUser(u, "Account created. A mail with a link for setting a password is on its way."), nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-user",
		Method:      http.MethodGet,
		Path:        "/api/users/{id}",
		Summary:     "Show an account",
		Description: "An ADMIN sees every account, others only their own. Another person's account is answered 404, or 403 if an ADMIN's API token lacks scope `admin`.",
	}, signedIn().ofAccounts(), account.ErrNotFound), "userId"), func(ctx context.Context, in *UserInput) (*userOutput, error) {
		u, err := s.Find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &userOutput{Body: single[User]{Data: toUser(u), Message: "Account found."}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "delete-user",
		Method:        http.MethodDelete,
		Path:          "/api/users/{id}",
		Summary:       "Delete an account",
		Description:   "Deletes the account with its sessions, tokens and posts. To keep its posts, deactivate the account instead. The last active ADMIN can't be deleted.",
		DefaultStatus: http.StatusNoContent,
	}, roles(identity.Admin), account.ErrNotFound, account.ErrLastAdmin),
		export.Variant{Name: "made", Summary: "Delete an account", Parameters: map[string]string{"id": "{{userId}}"}},
		export.Variant{
			Name: "member", Summary: "Delete the account that registered", Order: orderDeleteMember,
			Parameters: map[string]string{"id": "{{memberId}}"},
		},
	), func(ctx context.Context, in *UserInput) (*struct{}, error) {
		return nil, s.Delete(ctx, in.ID)
	})
}

// registerUserUpdate declares PUT and PATCH, which do the same.
func registerUserUpdate(a huma.API, s UserService, method string) {
	id, summary := "put-user", "Change an account"
	if method == http.MethodPatch {
		id, summary = "update-user", "Change an account in part"
	}
	huma.Register(a, exported(access(huma.Operation{
		OperationID: id,
		Method:      method,
		Path:        "/api/users/{id}",
		Summary:     summary,
		Description: "Takes the account in full or in part: absent fields keep their values. An ADMIN can change every account, others only their own; " +
			"they may repeat its role and active, but not change them. To change your own e-mail address, you must have signed in within the last 15 minutes, " +
			"and you can change it at most ten times in an hour, including attempts with a taken address. A new address has to be verified again. " +
			"Deactivation ends the account's sessions. The last active ADMIN can't be demoted or deactivated.",
	}, signedIn().ofAccounts(), account.ErrNotFound, account.ErrEmailTaken, account.ErrLastAdmin, account.ErrReauthenticate, errThrottled), export.Variant{
		Parameters: map[string]string{"id": "{{userId}}"}, Body: map[string]any{"email": "ada+{{$guid}}@example.com"},
	}), func(ctx context.Context, in *updateUserInput) (*userOutput, error) {
		u, err := s.Update(ctx, in.ID, in.change())
		if err != nil {
			return nil, within("body", err)
		}
		return &userOutput{Body: single[User]{Data: toUser(u), Message: "Account changed."}}, nil
	})
}
