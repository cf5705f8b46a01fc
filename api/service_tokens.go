package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// ServiceAccountInput names a service account.
type ServiceAccountInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The service account's id." example:"12"`
}

// ServiceTokenInput names a token of a service account.
type ServiceTokenInput struct {
	ServiceAccountInput
	TokenID int64 `path:"tid" minimum:"1" doc:"The token's id." example:"7"`
}

type listServiceTokensInput struct {
	ServiceAccountInput
	Page
}

type createServiceTokenInput struct {
	ServiceAccountInput
	Body model.Request[NewAPIToken]
}

type rotateServiceTokenInput struct {
	ServiceTokenInput
	Grace
}

// serviceTokenExport is a request in exports about the token that they made.
func serviceTokenExport() export.Variant {
	return export.Variant{Parameters: map[string]string{"id": "{{serviceAccountId}}", "tid": "{{serviceTokenId}}"}}
}

func registerServiceTokens(a huma.API, s ServiceAccountService) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "list-service-account-tokens",
		Method:      http.MethodGet,
		Path:        serviceAccountsPath + "/{id}/tokens",
		Summary:     "List a service account's API tokens",
		Description: "The account's API tokens, without their secrets, newest first. Revoked tokens and those that expired a month ago are left out.",
	}, roles(identity.Admin).forPeople(credentials), account.ErrNoServiceAccount), "serviceAccountId"), func(ctx context.Context, in *listServiceTokensInput) (*listTokensOutput, error) {
		var c tokenCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		tokens, err := s.ListServiceTokens(ctx, in.ID, c.ID, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountServiceTokens(ctx, in.ID) })
		if err != nil {
			return nil, err
		}
		return tokenPage(tokens, in.Page, total), nil
	})

	revoke := serviceTokenExport()
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "revoke-service-account-token",
		Method:        http.MethodDelete,
		Path:          serviceAccountsPath + "/{id}/tokens/{tid}",
		Summary:       "Revoke a service account's API token",
		Description:   "The token stops working at once.",
		DefaultStatus: http.StatusNoContent,
	}, roles(identity.Admin).forPeople(credentials), account.ErrNoAPIToken), revoke), func(ctx context.Context, in *ServiceTokenInput) (*struct{}, error) {
		return nil, s.RevokeServiceToken(ctx, in.ID, in.TokenID)
	})
}

func registerServiceTokenMakers(a huma.API, s ServiceAccountService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "create-service-account-token",
		Method:      http.MethodPost,
		Path:        serviceAccountsPath + "/{id}/tokens",
		Summary:     "Create an API token for a service account",
		Description: "Send the token as `Authorization: Bearer wp_...`. The secret is only in this answer; the service stores its hash. The token acts as the service account, with its " +
			"role and the token's scopes, whatever becomes of your own account. It expires after 90 days by default; two weeks before, administrators get a mail and the alert " +
			"receiver gets `waypost.token.expiring`. Requires a sign-in within the last 15 minutes.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin).bySession().forPeople(credentials), account.ErrReauthenticate, account.ErrNoServiceAccount, account.ErrManyAPITokens), export.Variant{
		Parameters: map[string]string{"id": "{{serviceAccountId}}"},
		Body:       tokenExport(), Capture: map[string]string{"serviceTokenId": "/data/id"},
	}), func(ctx context.Context, in *createServiceTokenInput) (*newTokenOutput, error) {
		made, secret, err := s.CreateServiceToken(ctx, in.ID, in.Body.Value().wanted(&in.Body))
		if err != nil {
			return nil, within("body", err)
		}
		return newServiceTokenAnswer(in.ID, made, secret, "API token created. Keep it: it is shown only this once."), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "rotate-service-account-token",
		Method:        http.MethodPost,
		Path:          serviceAccountsPath + "/{id}/tokens/{tid}/rotate",
		Summary:       "Replace a service account's API token",
		Description:   rotation + "Requires a sign-in within the last 15 minutes.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin).bySession().forPeople(credentials), account.ErrReauthenticate, account.ErrNoAPIToken, account.ErrTokenReplaced, account.ErrManyAPITokens),
		serviceTokenExport()), func(ctx context.Context, in *rotateServiceTokenInput) (*newTokenOutput, error) {
		made, secret, err := s.RotateServiceToken(ctx, in.ID, in.TokenID, in.duration())
		if err != nil {
			return nil, within("query", err)
		}
		return newServiceTokenAnswer(in.ID, made, secret, "API token replaced. Keep the new one: it is shown only this once."), nil
	})
}

func newServiceTokenAnswer(owner int64, made account.APIToken, secret, message string) *newTokenOutput {
	out := newTokenAnswer(made, secret, message)
	out.Location = serviceAccountsPath + "/" + strconv.FormatInt(owner, 10) + "/tokens/" + strconv.FormatInt(made.ID, 10)
	return out
}
