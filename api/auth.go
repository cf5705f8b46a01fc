package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// AuthService signs people in and out. SignIn returns account.ErrInvalidCredentials,
// account.ErrInactive, account.ErrBusy or throttle.ErrLimited; Refresh returns
// account.ErrRefreshUnknown, account.ErrRefreshReused, account.ErrSessionRevoked or
// throttle.ErrLimited; FindByID account.ErrNotFound; SignOut account.ErrNoSession.
type AuthService interface {
	SignIn(ctx context.Context, email, password string) (account.SignedIn, error)
	Refresh(ctx context.Context, refreshToken string) (account.SignedIn, error)
	SignOut(ctx context.Context) error
	FindByID(ctx context.Context, id int64) (account.User, error)
}

// errThrottled is throttle.ErrLimited as it is answered: with a time.
var errThrottled = throttle.ErrLimited.After(time.Minute)

// errServiceAccount is for what only a person has.
var errServiceAccount = fault.New(fault.Forbidden, "service_account", "A service account has no personal profile.")

// Login is the body of a sign-in.
type Login struct {
	Email    string `json:"email" model:"required,email" doc:"The account's e-mail address; case makes no difference." example:"ada@example.com"`
	Password string `json:"password" model:"required,min=1,max=128" doc:"The account's password." example:"correct horse battery staple"`
}

type loginInput struct {
	Body model.Request[Login]
}

// RefreshToken is the body of a refresh.
type RefreshToken struct {
	RefreshToken string `json:"refresh_token" model:"required,min=1,max=200" doc:"The refresh token that was issued last." example:"wprt_b3BhcXVl"`
}

type refreshInput struct {
	Body model.Request[RefreshToken]
}

type tokensOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains tokens, so it must not be stored." example:"no-store"`
	Body         single[Tokens]
}

type userOutput struct {
	Body single[User]
}

// SignInService is what signing in takes as a whole.
type SignInService interface {
	AuthService
	OAuthService
	IdentityService
	TwoFactorService
	Registrar
	EmailService
	SessionService
}

// SignIn are the operations on one's own account. baseURL is the service's own,
// without a trailing slash.
func SignIn(s SignInService, keys KeySet, baseURL string) Resource {
	return Resource{
		Tag: "Sign-in", Area: "Accounts",
		Description: "Your own account: register, sign in and out, sessions, passwords. Also the keys that verify access tokens.",
		Aliases:     []string{"/auth/login"},
		Register: func(a huma.API) {
			registerAuth(a, s)
			registerRegistration(a, s)
			registerPasswords(a, s)
			registerEmailChanges(a, s)
			registerSessions(a, s)
			registerTwoFactor(a, s)
			registerOAuth(a, s, baseURL)
			registerIdentities(a, s)
			registerKeySet(a, keys)
		},
	}
}

func registerAuth(a huma.API, s AuthService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "login",
		Method:      http.MethodPost,
		Path:        "/api/auth/login",
		Summary:     "Sign in",
		Description: "Check an e-mail address and a password, open a session and return its tokens; with two-factor authentication, return an `mfa_token` instead. An unknown address and " +
			"a wrong password get the same `invalid_credentials`; a deactivated account gets `account_inactive` if the password is right. The answer is 429 after 10 failures in " +
			"a row for one account, after 100 from one network address in 15 minutes, and after 300 correct sign-ins of one account from one address in 15 minutes. Programs " +
			"should keep their session or use an API token. An account has at most 50 sessions; one more ends the oldest.",
	}, public().forPeople(signingIn), account.ErrInvalidCredentials, account.ErrInactive, errThrottled, account.ErrBusy), exportedSignIns()...), func(ctx context.Context, in *loginInput) (*signInOutput, error) {
		c := in.Body.Value()
		signed, err := s.SignIn(ctx, c.Email, c.Password)
		if err != nil {
			return nil, within("body", err)
		}
		return newSignInOutput(signed), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "refresh-session",
		Method:      http.MethodPost,
		Path:        "/api/auth/refresh",
		Summary:     "Refresh tokens",
		Description: "Exchange a refresh token for the session's next tokens. A refresh token works once: sending it again ends the session, because the token may be stolen. If the " +
			"service allows a second use shortly after the first, that use starts a second branch of tokens. Continue only one branch: using a token of the other one ends the " +
			"session. The answer is 429 after 300 refreshes of one session, or 3,000 of one account, in 15 minutes; the token then stays valid.",
	}, public().forPeople(signingIn), account.ErrRefreshReused, account.ErrRefreshUnknown, account.ErrSessionRevoked, errThrottled), export.Variant{
		Body:    map[string]any{"refresh_token": "{{refreshToken}}"},
		Capture: map[string]string{"accessToken": "/data/access_token", "refreshToken": "/data/refresh_token"},
	}), func(ctx context.Context, in *refreshInput) (*tokensOutput, error) {
		signed, err := s.Refresh(ctx, in.Body.Value().RefreshToken)
		if err != nil {
			return nil, err
		}
		return &tokensOutput{CacheControl: "no-store", Body: single[Tokens]{Data: toTokens(signed), Message: "Here are the next tokens."}}, nil
	})

	registerWhoAmI(a, s)
}

func registerWhoAmI(a huma.API, s AuthService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "logout",
		Method:        http.MethodPost,
		Path:          "/api/auth/logout",
		Summary:       "Sign out",
		Description:   "End the session of the access token, with all its tokens, at once.",
		DefaultStatus: http.StatusNoContent,
	}, inPerson().whileEnrolling().forPeople(signingIn)), export.Variant{Order: orderSignOut}), func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		err := s.SignOut(ctx)
		if errors.Is(err, account.ErrNoSession) { // ended since the guard looked
			err = account.ErrSessionRevoked
		}
		return nil, err
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "get-me",
		Method:      http.MethodGet,
		Path:        "/api/auth/me",
		Summary:     "Show your account",
		Description: "The account of the access token, or of the API token's owner. Service accounts get 403.",
	}, signedIn().ofPerson().whileEnrolling(), errServiceAccount), func(ctx context.Context, _ *struct{}) (*userOutput, error) {
		if identity.FromContext(ctx).Service {
			return nil, errServiceAccount
		}
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
