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
// account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrManyAPITokens or a
// validation fault,
// RevokeAPIToken account.ErrNoAPIToken.
type TokenService interface {
	CreateAPIToken(ctx context.Context, n account.NewAPIToken) (account.APIToken, string, error)
	ListAPITokens(ctx context.Context, before int64, limit int) ([]account.APIToken, error)
	CountAPITokens(ctx context.Context) (int64, error)
	RevokeAPIToken(ctx context.Context, id int64) error
}

// NewAPIToken is the body that makes an API token.
type NewAPIToken struct {
	Name      string     `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"What the token is for." example:"Nightly export"`
	Scopes    []string   `json:"scopes" model:"required,min=1,max=4,dive,oneof=read write admin ai" doc:"What the token may do, within its owner's role: read, write, and in addition admin for operations that only an ADMIN may call; ai for language models." example:"read,write"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When the token expires. Leave it out, or send null, for never." example:"2027-01-02T15:04:05Z"`
}

// APIToken is an API token without its secret.
type APIToken struct {
	ID         uint64     `json:"id" doc:"Assigned by the server." example:"7"`
	Name       string     `json:"name" doc:"What the token is for." example:"Nightly export"`
	Prefix     string     `json:"prefix" doc:"The secret's first characters, to tell tokens apart." example:"wp_3Jk8sQ2m"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"What the token may do, within its owner's role." example:"read,write"`
	CreatedAt  time.Time  `json:"created_at" doc:"When the token was created." example:"2026-01-02T15:04:05Z"`
	ExpiresAt  *time.Time `json:"expires_at" doc:"When the token expires; null for never." example:"2027-01-02T15:04:05Z"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"When the token was last used, exact to a minute; null for never." example:"2026-01-03T15:04:05Z"`
}

// issuedAPIToken also carries the secret.
type issuedAPIToken struct {
	APIToken
	Token string `json:"token" doc:"The secret, shown only this once." example:"wp_3Jk8sQ2mY0b3BhcXVl"`
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
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Location     string `header:"Location" doc:"The path of the token; DELETE revokes it." example:"/api/auth/tokens/7"`
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
		Description: "Credentials for bots. A token acts for its owner, within the owner's role and the token's scopes.",
		Register:    func(a huma.API) { registerTokens(a, s) },
	}
}

func registerTokens(a huma.API, s TokenService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-api-tokens",
		Method:      http.MethodGet,
		Path:        "/api/auth/tokens",
		Summary:     "List your API tokens",
		Description: "Your tokens that were not revoked, without their secrets, newest first, page by page.",
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
		Summary:     "Create an API token",
		Description: "For bots: send the token as `Authorization: Bearer wp_...`. The secret is only in this answer, because only its hash is stored. " +
			"The token acts as you, within your role at the time of each request and within its scopes: `read` for operations that change nothing, " +
			"`write` for operations that change something, and in addition `admin` for operations that only an ADMIN may call, for other people's accounts, and to change anybody's role or `active`. Needs a sign-in within the last 15 minutes, and a verified e-mail address.",
		DefaultStatus: http.StatusCreated,
	}, inPerson(), account.ErrReauthenticate, account.ErrEmailUnverified, account.ErrManyAPITokens), export.Variant{
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
			Body:         single[issuedAPIToken]{Data: issuedAPIToken{toAPIToken(made), secret}, Message: "API token created. Keep it: it is shown only this once."},
		}, nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "revoke-api-token",
		Method:        http.MethodDelete,
		Path:          "/api/auth/tokens/{id}",
		Summary:       "Revoke an API token",
		Description:   "The token stops working at once.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson(), account.ErrNoAPIToken), "apiTokenId"), func(ctx context.Context, in *tokenInput) (*struct{}, error) {
		return nil, s.RevokeAPIToken(ctx, in.ID)
	})
}
