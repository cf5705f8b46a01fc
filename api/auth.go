package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// AuthService signs people in. SignIn returns account.ErrInvalidCredentials,
// account.ErrInactive or account.ErrBusy; FindByID returns account.ErrNotFound.
type AuthService interface {
	SignIn(ctx context.Context, email, password string) (account.SignedIn, error)
	FindByID(ctx context.Context, id int64) (account.User, error)
}

// Login is the body of a sign-in.
type Login struct {
	Email    string `json:"email" model:"required,email" doc:"The account's address; case makes no difference." example:"ada@example.com"`
	Password string `json:"password" model:"required,min=1,max=128" doc:"The account's password." example:"correct horse battery staple"`
}

// Tokens are what a sign-in gives.
type Tokens struct {
	AccessToken  string `json:"access_token" doc:"A JWT for the Authorization header." example:"eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"`
	TokenType    string `json:"token_type" enum:"Bearer" doc:"How to present the access token." example:"Bearer"`
	ExpiresIn    int    `json:"expires_in" doc:"The access token's remaining life, in seconds." example:"900"`
	RefreshToken string `json:"refresh_token" doc:"Opaque and good for one use. Keep it as safe as a password." example:"wprt_b3BhcXVl"`
	User         User   `json:"user" doc:"Who signed in."`
}

type loginInput struct {
	Body model.Request[Login]
}

type loginOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer carries tokens, so nothing may keep it." example:"no-store"`
	Body         single[Tokens]
}

type userOutput struct {
	Body single[User]
}

func registerAuth(a huma.API, s AuthService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "login",
		Method:      http.MethodPost,
		Path:        "/api/auth/login",
		Summary:     "Sign in",
		Description: "Checks an e-mail address and a password, opens a session and answers its tokens. " +
			"An unknown address and a wrong password get the same `invalid_credentials`; " +
			"a deactivated account gets `account_inactive`, once its password is right.",
		Tags:   []string{tagAuth},
		Errors: []int{http.StatusUnauthorized, http.StatusForbidden},
	}, public()), func(ctx context.Context, in *loginInput) (*loginOutput, error) {
		c := in.Body.Value()
		signed, err := s.SignIn(ctx, c.Email, c.Password)
		if err != nil {
			return nil, within("body", err)
		}
		return &loginOutput{CacheControl: "no-store", Body: single[Tokens]{Message: "Signed in.", Data: Tokens{
			AccessToken:  signed.AccessToken,
			TokenType:    "Bearer",
			ExpiresIn:    int(signed.ExpiresIn.Seconds()),
			RefreshToken: signed.RefreshToken,
			User:         toUser(signed.User),
		}}}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "get-me",
		Method:      http.MethodGet,
		Path:        "/api/auth/me",
		Summary:     "Who am I?",
		Description: "The account behind the access token, as it is now.",
		Tags:        []string{tagAuth},
	}, signedIn()), func(ctx context.Context, _ *struct{}) (*userOutput, error) {
		u, err := s.FindByID(ctx, identity.FromContext(ctx).UserID)
		if errors.Is(err, account.ErrNotFound) { // deleted since the guard looked
			err = account.ErrSessionRevoked
		}
		if err != nil {
			return nil, err
		}
		return &userOutput{Body: single[User]{Data: toUser(u), Message: "This is you."}}, nil
	})
}
