package api

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// ServiceAccountService keeps the accounts of bots. All but CreateServiceAccount and
// ListServiceAccounts return account.ErrNoServiceAccount. The tokens are as TokenService
// has them, those of one service account.
type ServiceAccountService interface {
	ListServiceAccounts(ctx context.Context, r page.Request) (page.Page[account.ServiceAccount], error)
	CreateServiceAccount(ctx context.Context, n account.NewServiceAccount) (account.ServiceAccount, error)
	FindServiceAccount(ctx context.Context, id int64) (account.ServiceAccount, error)
	UpdateServiceAccount(ctx context.Context, id int64, c account.ServiceAccountChange) (account.ServiceAccount, error)
	DeleteServiceAccount(ctx context.Context, id int64) error

	ListServiceTokens(ctx context.Context, account, before int64, limit int) ([]account.APIToken, error)
	CountServiceTokens(ctx context.Context, account int64) (int64, error)
	CreateServiceToken(ctx context.Context, account int64, n account.NewAPIToken) (account.APIToken, string, error)
	RotateServiceToken(ctx context.Context, account, id int64, grace time.Duration) (account.APIToken, string, error)
	RevokeServiceToken(ctx context.Context, account, id int64) error
}

const serviceAccountsPath = "/api/admin/service-accounts"

// ServiceAccounts are the operations on the accounts of bots and on their API tokens.
func ServiceAccounts(s ServiceAccountService) Resource {
	accounts := rows[ServiceAccount, account.ServiceAccount, int64]{
		one: "service-account", many: "service-accounts", path: serviceAccountsPath,
		id: "The service account's id.", example: 12, convert: toServiceAccount,
		key: func(a ServiceAccount) string { return strconv.FormatUint(a.ID, 10) },
	}
	return Resource{
		Tag: "Service accounts", Area: "Accounts",
		Description: "Accounts for bots, independent of any person's account. A service account has no password or e-mail address and can't sign in: it acts through its API tokens, within its role. It is not listed among the users and doesn't count as the last active ADMIN.",
		Models:      []any{ServiceAccount{}},
		Register: func(a huma.API) {
			registerServiceAccounts(a, accounts, s)
			registerServiceAccountChanges(a, accounts, s)
			registerServiceTokens(a, s)
			registerServiceTokenMakers(a, s)
		},
	}
}

// ofServiceAccount is a request in exports about the account that they made.
func ofServiceAccount() []export.Variant {
	return []export.Variant{{Parameters: map[string]string{"id": "{{serviceAccountId}}"}}}
}

func registerServiceAccounts(a huma.API, accounts rows[ServiceAccount, account.ServiceAccount, int64], s ServiceAccountService) {
	listRows(a, accounts, said{
		summary:     "List service accounts",
		description: "All service accounts, newest first.",
		access:      roles(identity.Admin),
	}, func(ctx context.Context, in *struct{ Page }) (page.Page[account.ServiceAccount], error) {
		r, err := in.request("", "")
		if err != nil {
			return page.Page[account.ServiceAccount]{}, err
		}
		return s.ListServiceAccounts(ctx, r)
	})
	accounts.create(a, said{
		summary:     "Create a service account",
		description: "Create an account for a bot. It can do nothing until it has a token.",
		message:     "Service account created. Create a token for it.",
		access:      roles(identity.Admin),
		exports:     []export.Variant{{Capture: map[string]string{"serviceAccountId": "/data/id"}}},
	}, func(ctx context.Context, n ServiceAccount) (account.ServiceAccount, error) {
		return s.CreateServiceAccount(ctx, account.NewServiceAccount{Name: n.Name, Role: identity.Role(n.Role), Active: n.Active})
	})
	accounts.get(a, said{
		summary:     "Show a service account",
		description: "The account without its tokens.",
		message:     "Service account found.",
		access:      roles(identity.Admin), fails: []error{account.ErrNoServiceAccount}, exports: ofServiceAccount(),
	}, func(ctx context.Context, id int64) (account.ServiceAccount, error) {
		return s.FindServiceAccount(ctx, id)
	})
}

func registerServiceAccountChanges(a huma.API, accounts rows[ServiceAccount, account.ServiceAccount, int64], s ServiceAccountService) {
	accounts.update(a, said{
		summary:     "Update a service account",
		description: "Update an account. Omitted fields stay. A new role or deactivation applies from the next request. A deactivated account keeps its tokens and content, and can be reactivated.",
		message:     "Service account changed.",
		access:      roles(identity.Admin), fails: []error{account.ErrNoServiceAccount}, exports: ofServiceAccount(),
	}, func(ctx context.Context, id int64, body *model.Update[ServiceAccount]) (account.ServiceAccount, error) {
		n := body.Value()
		return s.UpdateServiceAccount(ctx, id, account.ServiceAccountChange{
			Name: given(body, "name", n.Name), Role: given(body, "role", identity.Role(n.Role)), Active: given(body, "active", n.Active),
		})
	})
	accounts.remove(a, said{
		summary:     "Delete a service account",
		description: "Delete the account with its tokens, posts, blogs and files. To keep its content, deactivate the account instead.",
		access:      roles(identity.Admin), fails: []error{account.ErrNoServiceAccount},
		exports: ofServiceAccount(),
	}, func(ctx context.Context, id int64) error { return s.DeleteServiceAccount(ctx, id) })
}
