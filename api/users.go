package api

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// UserService keeps accounts. Find, Update and Delete return account.ErrNotFound, also to who
// may not know of the account; Find and Update account.ErrTokenScope; Invite and
// Update account.ErrEmailTaken; Update and Delete account.ErrLastAdmin; Update
// account.ErrReauthenticate and throttle.ErrLimited; all but Find and Delete
// validation faults.
type UserService interface {
	List(ctx context.Context, f account.Filter) (page.Page[account.User], error)
	Find(ctx context.Context, id int64) (account.User, error)
	Invite(ctx context.Context, n account.NewUser, active bool) (account.User, error)
	Update(ctx context.Context, id int64, c account.Change) (account.User, error)
	Delete(ctx context.Context, id int64) error
}

type listUsersInput struct {
	Page
	Query  string         `query:"q" maxLength:"200" doc:"Text to find in the names and the e-mail address; case makes no difference." example:"ada"`
	Role   string         `query:"role" enum:"ADMIN,EDITOR,USER" doc:"Only accounts with this role." example:"USER"`
	Active optional[bool] `query:"active" doc:"Only active accounts, or only deactivated ones." example:"true"`
	Sort   string         `query:"sort" enum:"created_at,-created_at,email,-email,last_name,-last_name" default:"-created_at" doc:"Sort order; a leading minus reverses it."`
}

// Users are the operations on accounts.
func Users(s UserService) Resource {
	users := rows[User, account.User, int64]{
		one: "user", many: "users", path: "/api/users", id: "The account's id.", example: 1, convert: toUser,
		key: func(u User) string { return strconv.FormatUint(u.ID, 10) },
	}
	return Resource{
		Tag: "Users", Area: "Accounts", Description: "Accounts and their roles.",
		Models: []any{User{}}, Aliases: []string{"/users"},
		Register: func(a huma.API) {
			listRows(a, users, said{
				summary:     "List accounts",
				description: "All accounts, newest first by default.",
				access:      roles(identity.Admin).ofEverybody(),
			}, func(ctx context.Context, in *listUsersInput) (page.Page[account.User], error) {
				r, err := in.request(in.Query, in.Sort)
				if err != nil {
					return page.Page[account.User]{}, err
				}
				f := account.Filter{Request: r, Role: identity.Role(in.Role)}
				if in.Active.set {
					f.Active = &in.Active.value
				}
				return s.List(ctx, f)
			})
			users.create(a, said{
				summary:     "Create an account for somebody",
				description: "Create an account without a password and mail a link for setting one, valid for seven days.",
				message:     "Account created. A mail with a link for setting a password is on its way.",
				access:      roles(identity.Admin), fails: []error{account.ErrEmailTaken},
				exports: []export.Variant{{Body: anAddress(), Capture: map[string]string{"userId": "/data/id"}}},
			}, func(ctx context.Context, u User) (account.User, error) {
				return s.Invite(ctx, account.NewUser{FirstName: u.FirstName, LastName: u.LastName, Email: u.Email, Role: identity.Role(u.Role)}, u.Active)
			})
			users.get(a, said{
				summary:     "Show an account",
				description: "An ADMIN sees every account, others only their own. Another person's account is 404, or 403 if an ADMIN's API token lacks scope `admin`.",
				message:     "Account found.",
				access:      signedIn().ofAccounts(), fails: []error{account.ErrNotFound},
			}, func(ctx context.Context, id int64) (account.User, error) { return s.Find(ctx, id) })
			registerUserUpdate(a, users, s)
			users.remove(a, said{
				summary:     "Delete an account",
				description: "Delete the account with its sessions, tokens, posts, blogs and files. To keep its content, deactivate the account instead. The last active ADMIN can't be deleted.",
				access:      roles(identity.Admin).ofEverybody(), fails: []error{account.ErrNotFound, account.ErrLastAdmin},
				exports: []export.Variant{
					{Name: "made", Summary: "Delete an account", Parameters: map[string]string{"id": "{{userId}}"}},
					{Name: "member", Summary: "Delete the account that registered", Order: orderDeleteMember, Parameters: map[string]string{"id": "{{memberId}}"}},
				},
			}, func(ctx context.Context, id int64) error { return s.Delete(ctx, id) })
		},
	}
}

// anAddress is one that no other account has.
func anAddress() map[string]any { return map[string]any{"email": "ada+{{$guid}}@example.com"} }

func registerUserUpdate(a huma.API, users rows[User, account.User, int64], s UserService) {
	users.update(a, said{
		summary: "Update an account",
		description: "Update an account. Omitted fields stay. Users may edit only themselves, and not `role` or `active`. Sending another e-mail address for your own account works like " +
			"`change-email`: the current address stays until the new one is confirmed. An address set by an ADMIN for somebody else applies at once and must be verified again. " +
			"Deactivating ends the account's sessions. The last active ADMIN can't be demoted or deactivated.",
		message: "Account changed.",
		access:  signedIn().ofAccounts(),
		fails:   []error{account.ErrNotFound, account.ErrEmailTaken, account.ErrLastAdmin, account.ErrReauthenticate, errThrottled},
		exports: []export.Variant{{Parameters: map[string]string{"id": "{{userId}}"}, Body: anAddress()}},
	}, func(ctx context.Context, id int64, body *model.Update[User]) (account.User, error) {
		u := body.Value()
		return s.Update(ctx, id, account.Change{
			FirstName: given(body, "first_name", u.FirstName), LastName: given(body, "last_name", u.LastName), Email: given(body, "email", u.Email),
			Role: given(body, "role", identity.Role(u.Role)), Active: given(body, "active", u.Active),
		})
	})
}
