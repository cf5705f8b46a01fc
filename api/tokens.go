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
	"github.com/waypost/waypost/internal/identity"
)

// TokenService keeps the acting account's API tokens. CreateAPIToken returns
// account.ErrReauthenticate, account.ErrManyAPITokens or a validation fault,
// RevokeAPIToken account.ErrNoAPIToken.
type TokenService interface {
	CreateAPIToken(ctx context.Context, n account.NewAPIToken) (account.APIToken, string, error)
	ListAPITokens(ctx context.Context, before int64, limit int) ([]account.APIToken, error)
	CountAPITokens(ctx context.Context) (int64, error)
	RevokeAPIToken(ctx context.Context, id int64) error
}

// NewAPIToken is the body that makes an API token.
type NewAPIToken struct {
	Name      string     `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"What it is for." example:"Nightly export"`
	Scopes    []string   `json:"scopes" model:"required,min=1,max=4,dive,oneof=read write admin ai" doc:"What it may do, within its owner's role: read, write, and besides either admin for what is an ADMIN's alone; ai for language models." example:"read,write"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it ends; left out or null for never." example:"2027-01-02T15:04:05Z"`
}

// APIToken is an API token without its secret.
type APIToken struct {
	ID         uint64     `json:"id" doc:"Made by the server." example:"7"`
	Name       string     `json:"name" doc:"What it is for." example:"Nightly export"`
	Prefix     string     `json:"prefix" doc:"How the secret begins, to tell tokens apart." example:"wp_3Jk8sQ2m"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"What it may do, within its owner's role." example:"read,write"`
	CreatedAt  time.Time  `json:"created_at" doc:"When it was made." example:"2026-01-02T15:04:05Z"`
	ExpiresAt  *time.Time `json:"expires_at" doc:"When it ends; null for never." example:"2027-01-02T15:04:05Z"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"When it was last used, to a minute; null for never." example:"2026-01-03T15:04:05Z"`
}

// issuedAPIToken also carries the secret.
type issuedAPIToken struct {
	APIToken
	Token string `json:"token" doc:"The secret, shown this once." example:"wp_3Jk8sQ2mY0b3BhcXVl"`
}

func toAPIToken(t account.APIToken) APIToken {
	scopes := make([]string, len(t.Scopes))
	for i, s := range t.Scopes {
		scopes[i] = string(s)
	}
	return APIToken{
		ID: uint64(t.ID), Name: t.Name, Prefix: t.Prefix, Scopes: scopes,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt,
	}
}

type listTokensOutput struct {
	Body list[APIToken]
}

type newTokenOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer carries a secret, so nothing may keep it." example:"no-store"`
	Location     string `header:"Location" doc:"The token, to be revoked." example:"/api/auth/tokens/7"`
	Body         single[issuedAPIToken]
}

type tokenCursor struct {
	ID int64 `json:"i"`
}

type tokenInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The token's id." example:"7"`
}

// APITokens are the operations on API tokens.
func APITokens(s TokenService) Resource {
	return Resource{
		Tag: "API tokens", Area: "Accounts",
		Description: "Credentials for bots, which act for their owner within the owner's role and their scopes.",
		Register:    func(a huma.API) { registerTokens(a, s) },
	}
}

func registerTokens(a huma.API, s TokenService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-api-tokens",
		Method:      http.MethodGet,
		Path:        "/api/auth/tokens",
		Summary:     "List one's API tokens",
		Description: "Tokens that were not revoked, without their secrets, newest first, page by page.",
	}, inPerson()), func(ctx context.Context, in *struct{ Page }) (*listTokensOutput, error) {
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
		return &listTokensOutput{Body: newList(tokens, in.Limit, total, toAPIToken, func(t account.APIToken) any { return tokenCursor{t.ID} })}, nil
	})

	registerTokenChanges(a, s)
}

func registerTokenChanges(a huma.API, s TokenService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "create-api-token",
		Method:      http.MethodPost,
		Path:        "/api/auth/tokens",
		Summary:     "Make an API token",
		Description: "For bots: send it as `Authorization: Bearer wp_...`. The secret is in this answer and nowhere else, for only its hash is stored. " +
			"It acts as you, within your role at the time of each request and its scopes: `read` for operations that change nothing, " +
			"`write` for those that do, `admin` besides for those that are for an ADMIN alone, for others' accounts, and to change a role or who is active. Needs a sign-in of the last quarter of an hour.",
		DefaultStatus: http.StatusCreated,
	}, inPerson(), account.ErrReauthenticate, account.ErrManyAPITokens), export.Variant{
		Body:    map[string]any{"expires_at": nil}, // that of the example will have passed one day
		Capture: map[string]string{"apiTokenId": "/data/id"},
	}), func(ctx context.Context, in *struct{ Body model.Request[NewAPIToken] }) (*newTokenOutput, error) {
		wanted := in.Body.Value()
		n := account.NewAPIToken{Name: wanted.Name, ExpiresAt: wanted.ExpiresAt}
		for _, scope := range wanted.Scopes {
			n.Scopes = append(n.Scopes, identity.Scope(scope))
		}
		made, secret, err := s.CreateAPIToken(ctx, n)
		if err != nil {
			return nil, within("body", err)
		}
		return &newTokenOutput{
			CacheControl: "no-store",
			Location:     "/api/auth/tokens/" + strconv.FormatInt(made.ID, 10),
			Body:         single[issuedAPIToken]{Data: issuedAPIToken{toAPIToken(made), secret}, Message: "API token made. Keep it: it is shown this once."},
		}, nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "revoke-api-token",
		Method:        http.MethodDelete,
		Path:          "/api/auth/tokens/{id}",
		Summary:       "Revoke an API token",
		Description:   "It ends at once.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson(), account.ErrNoAPIToken), "apiTokenId"), func(ctx context.Context, in *tokenInput) (*struct{}, error) {
		return nil, s.RevokeAPIToken(ctx, in.ID)
	})
}
