package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
)

// TokenService keeps the acting account's API tokens. CreateAPIToken and RotateAPIToken
// return account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrManyAPITokens or a validation fault,
// RotateAPIToken also account.ErrNoAPIToken and account.ErrTokenReplaced, RevokeAPIToken
// account.ErrNoAPIToken.
type TokenService interface {
	CreateAPIToken(ctx context.Context, n account.NewAPIToken) (account.APIToken, string, error)
	ListAPITokens(ctx context.Context, before int64, limit int) ([]account.APIToken, error)
	CountAPITokens(ctx context.Context) (int64, error)
	RotateAPIToken(ctx context.Context, id int64, grace time.Duration) (account.APIToken, string, error)
	RevokeAPIToken(ctx context.Context, id int64) error
}

// TokenInput names one of the caller's API tokens.
type TokenInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The token's id." example:"7"`
}

type rotateTokenInput struct {
	TokenInput
	Grace
}

// What descriptions say of every rotation of an API token.
const rotation = "Create a token with the same name, scopes, networks, rate and lifetime. " +
	"The old token keeps working for a grace period, by default a day, unless it expires earlier. Expired tokens can be rotated too. "

// APITokens are the operations on API tokens.
func APITokens(s TokenService) Resource {
	return Resource{
		Tag: "API tokens", Area: "Accounts",
		Description: "Credentials for bots. A token acts for its owner, within the owner's role and the token's scopes. Resetting the owner's password revokes it. A bot that should outlast a person needs a service account.",
		Register: func(a huma.API) {
			registerTokenList(a, s)
			registerTokenMakers(a, s)
		},
	}
}

func registerTokenList(a huma.API, s TokenService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-api-tokens",
		Method:      http.MethodGet,
		Path:        "/api/auth/tokens",
		Summary:     "List your API tokens",
		Description: "Your API tokens, without their secrets, newest first. Revoked tokens and those that expired a month ago are left out.",
	}, inPerson().forPeople(credentials)), func(ctx context.Context, in *struct{ Page }) (*listTokensOutput, error) {
		var c tokenCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		tokens, err := s.ListAPITokens(ctx, c.ID, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountAPITokens(ctx) })
		if err != nil {
			return nil, err
		}
		return tokenPage(tokens, in.Page, total), nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "revoke-api-token",
		Method:        http.MethodDelete,
		Path:          "/api/auth/tokens/{id}",
		Summary:       "Revoke an API token",
		Description:   "The token stops working at once.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().ofHolder().forPeople(credentials), account.ErrNoAPIToken), "apiTokenId"), func(ctx context.Context, in *TokenInput) (*struct{}, error) {
		return nil, s.RevokeAPIToken(ctx, in.ID)
	})
}

func registerTokenMakers(a huma.API, s TokenService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "create-api-token",
		Method:      http.MethodPost,
		Path:        "/api/auth/tokens",
		Summary:     "Create an API token",
		Description: "For bots: send the token as `Authorization: Bearer wp_...`. The secret is only in this answer; the service stores its hash. The token acts as you, with your current " +
			"role and its scopes: `read` for operations that change nothing, `write` for the others, and in addition `admin` for operations of an ADMIN, for other people's " +
			"accounts, and for changing a role or `active`. It expires after 90 days by default. Requires a sign-in within the last 15 minutes.",
		DefaultStatus: http.StatusCreated,
	}, inPerson().forPeople(credentials), account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrManyAPITokens), export.Variant{
		Body: tokenExport(), Capture: map[string]string{"apiTokenId": "/data/id"},
	}), func(ctx context.Context, in *struct{ Body model.Request[NewAPIToken] }) (*newTokenOutput, error) {
		made, secret, err := s.CreateAPIToken(ctx, in.Body.Value().wanted(&in.Body))
		if err != nil {
			return nil, within("body", err)
		}
		return newTokenAnswer(made, secret, "API token created. Keep it: it is shown only this once."), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "rotate-api-token",
		Method:        http.MethodPost,
		Path:          "/api/auth/tokens/{id}/rotate",
		Summary:       "Replace an API token",
		Description:   rotation + "Requires a sign-in within the last 15 minutes.",
		DefaultStatus: http.StatusCreated,
	}, inPerson().ofHolder().forPeople(credentials), account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrNoAPIToken, account.ErrTokenReplaced, account.ErrManyAPITokens), export.Variant{
		Parameters: map[string]string{"id": "{{apiTokenId}}"},
	}), func(ctx context.Context, in *rotateTokenInput) (*newTokenOutput, error) {
		made, secret, err := s.RotateAPIToken(ctx, in.ID, in.duration())
		if err != nil {
			return nil, within("query", err)
		}
		return newTokenAnswer(made, secret, "API token replaced. Keep the new one: it is shown only this once."), nil
	})
}

func newTokenAnswer(made account.APIToken, secret, message string) *newTokenOutput {
	return &newTokenOutput{
		CacheControl: "no-store",
		Location:     "/api/auth/tokens/" + strconv.FormatInt(made.ID, 10),
		Body:         single[issuedAPIToken]{Data: issuedAPIToken{toAPIToken(made), secret}, Message: message},
	}
}
