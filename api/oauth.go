package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/httpedge"
)

// OAuthService signs people in through outside providers. Its methods return the
// faults that the operations below declare.
type OAuthService interface {
	Providers() []*oauth.Provider
	StartOAuth(ctx context.Context, provider string, start account.OAuthStart) (account.OAuthStarted, error)
	FinishOAuth(ctx context.Context, provider string, a account.OAuthAnswer) (account.OAuthOutcome, error)
	CollectOAuth(ctx context.Context, code, verifier string) (account.SignedIn, error)
}

// OAuthProvider is a way to sign in.
type OAuthProvider struct {
	Name     string `json:"name" doc:"The provider's name in paths." example:"google"`
	Title    string `json:"title" doc:"The provider's name for people." example:"Google"`
	StartURL string `json:"start_url" doc:"Where a browser goes to sign in." example:"https://waypost.example/api/auth/oauth/google/start"`
}

// OAuthCode collects an outcome.
type OAuthCode struct {
	Code     string `json:"code" model:"required,min=1,max=128" doc:"The value of the parameter code, with which the sign-in returned to redirect_to." example:"PkLTXZ9CbBy6uCn0dYtX2jJ9mUo3ZsJ8mFjVn1yQ5rE"`
	Verifier string `json:"code_verifier" model:"required,min=43,max=128" doc:"The secret whose SHA-256 was sent as code_challenge (RFC 7636)." example:"dBjftJeZ4CVP-mBF92K0uhbUJU1p1r_wW1gFWFOEjXk"`
}

type listOAuthProvidersOutput struct {
	Body list[OAuthProvider]
}

type startOAuthInput struct {
	Provider      string `path:"provider" maxLength:"32" doc:"One of the providers that /api/auth/oauth/providers lists." example:"google"`
	RedirectTo    string `query:"redirect_to" maxLength:"2048" doc:"Where to return with a one-time code, exactly as in WAYPOST_OAUTH_RETURN_URLS; http://127.0.0.1 and http://[::1] without a port there allow every port (RFC 8252). Without it, the callback answers with the tokens."`
	CodeChallenge string `query:"code_challenge" maxLength:"128" doc:"Required with redirect_to: the base64url SHA-256 (S256 of RFC 7636) of a secret that only the program exchanging the code knows."`
	Browser       string `cookie:"__Host-waypost_oauth" doc:"The cookie that an earlier start set in the same browser."`
	PlainBrowser  string `cookie:"waypost_oauth" doc:"The same cookie where the service's own URL is http."`
}

type startOAuthOutput struct {
	Location     string      `header:"Location" doc:"The provider's page." example:"https://accounts.google.com/o/oauth2/v2/auth?state=..."`
	CacheControl string      `header:"Cache-Control" doc:"Each sign-in is different, so the answer must not be stored." example:"no-store"`
	Cookie       http.Cookie `header:"Set-Cookie" doc:"Ties the provider's answer to this browser." example:"__Host-waypost_oauth=...; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax"`
}

type finishOAuthInput struct {
	Provider     string `path:"provider" maxLength:"32" doc:"The provider that answers." example:"google"`
	State        string `query:"state" maxLength:"512" doc:"The state that the service sent to the provider."`
	Code         string `query:"code" maxLength:"4096" doc:"The provider's code, if the person agreed."`
	Error        string `query:"error" maxLength:"512" doc:"The provider's error, if the person did not agree."`
	Issuer       string `query:"iss" maxLength:"2048" doc:"The issuer that answers (RFC 9207)."`
	Browser      string `cookie:"__Host-waypost_oauth" doc:"The cookie that the start of the sign-in set."`
	PlainBrowser string `cookie:"waypost_oauth" doc:"The same cookie where the service's own URL is http."`
}

// finishOAuthOutput has headers that finishOperation describes status by status.
type finishOAuthOutput struct {
	Location     string `header:"Location" hidden:"true"`
	CacheControl string `header:"Cache-Control" hidden:"true"`
	Body         func(huma.Context)
}

// finishFailures are those of asking a provider and of finding the account.
var finishFailures = []error{
	account.ErrProvider, account.ErrOAuthState, account.ErrDenied, oauth.ErrCode, oauth.ErrToken, oauth.ErrExchange,
	account.ErrInactive, account.ErrLinkRequired, account.ErrUnverifiedOutside, account.ErrNoAddress, account.ErrBusy,
}

func registerOAuth(a huma.API, s OAuthService, baseURL string) {
	https := strings.HasPrefix(baseURL, "https://")

	huma.Register(a, access(huma.Operation{
		OperationID: "list-oauth-providers",
		Method:      http.MethodGet,
		Path:        "/api/auth/oauth/providers",
		Summary:     "List sign-in providers",
		Description: "The sign-in providers of this service, on one page.",
	}, public().forPeople(signingIn)), func(context.Context, *struct{}) (*listOAuthProvidersOutput, error) {
		return &listOAuthProvidersOutput{Body: newWhole(s.Providers(), func(p *oauth.Provider) OAuthProvider {
			return OAuthProvider{Name: p.Name, Title: p.Title, StartURL: baseURL + "/api/auth/oauth/" + p.Name + "/start"}
		})}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "start-oauth-login",
		Method:        http.MethodGet,
		Path:          "/api/auth/oauth/{provider}/start",
		Summary:       "Sign in with a provider",
		Description:   "For browsers: set a cookie and redirect to the provider, which must send the browser back to the callback within ten minutes.",
		DefaultStatus: http.StatusFound,
	}, public().forPeople(signingIn), account.ErrProvider, account.ErrReturnURL, oauth.ErrExchange, errThrottled), export.Variant{Status: []int{http.StatusFound, http.StatusNotFound}}),
		func(ctx context.Context, in *startOAuthInput) (*startOAuthOutput, error) {
			started, err := s.StartOAuth(ctx, in.Provider, account.OAuthStart{
				ReturnURL: in.RedirectTo, CodeChallenge: in.CodeChallenge, Browser: browserOf(https, in.Browser, in.PlainBrowser),
			})
			if err != nil {
				return nil, within("query", err)
			}
			return &startOAuthOutput{Location: started.URL, CacheControl: "no-store", Cookie: httpedge.NewBrowserCookie(https, started.Browser, account.OAuthFlowTTL)}, nil
		})

	huma.Register(a, exported(access(finishOperation(a), public().forPeople(signingIn), finishFailures...), export.Variant{Status: []int{http.StatusOK, http.StatusFound, http.StatusNotFound}}),
		func(ctx context.Context, in *finishOAuthInput) (*finishOAuthOutput, error) {
			outcome, err := s.FinishOAuth(ctx, in.Provider, account.OAuthAnswer{
				State: in.State, Code: in.Code, Error: in.Error, Issuer: in.Issuer, Browser: browserOf(https, in.Browser, in.PlainBrowser),
			})
			if err != nil {
				return nil, err
			}
			return newFinishOutput(outcome)
		})

	registerExchange(a, s)
}

func registerExchange(a huma.API, s OAuthService) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "exchange-oauth-code",
		Method:      http.MethodPost,
		Path:        "/api/auth/oauth/exchange",
		Summary:     "Exchange a one-time code for tokens",
		Description: "Exchange the one-time code that a sign-in returned to `redirect_to`, so that no token travels in a URL. The code is valid for five minutes. After " +
			"`email_exists_link_required` and `email_unverified` it still works for `POST /api/auth/identities`.",
	}, public().forPeople(signingIn), oauth.ErrCode, account.ErrInactive, account.ErrLinkRequired, account.ErrUnverifiedOutside, account.ErrNoAddress, account.ErrBusy), export.Variant{Status: []int{http.StatusOK, http.StatusBadRequest}}),
		func(ctx context.Context, in *struct{ Body model.Request[OAuthCode] }) (*signInOutput, error) {
			c := in.Body.Value()
			signed, err := s.CollectOAuth(ctx, c.Code, c.Verifier)
			if err != nil {
				return nil, err
			}
			return newSignInOutput(signed), nil
		})
}

// finishOperation describes its two successes itself, as they differ in all.
func finishOperation(a huma.API) huma.Operation {
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[single[SignInAnswer]](), true, "SingleSignInAnswer")
	text := func(what, example string) *huma.Param {
		return &huma.Param{Description: what, Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
	}
	return huma.Operation{
		OperationID: "finish-oauth-login",
		Method:      http.MethodGet,
		Path:        "/api/auth/oauth/{provider}/callback",
		Summary:     "Finish a sign-in with a provider",
		Description: "The provider sends the browser here. A sign-in started with `redirect_to` is redirected there with `code` or `error`; any other gets the same answer as `POST /api/auth/login`.",
		Responses: map[string]*huma.Response{
			"200": {
				Description: "The answer to a sign-in that was started without redirect_to.",
				Headers:     map[string]*huma.Param{"Cache-Control": text("The answer contains tokens, so it must not be stored.", "no-store")},
				Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}},
			},
			"302": {
				Description: "A redirect to redirect_to.",
				Headers: map[string]*huma.Param{
					"Location":      text("redirect_to, with code or error.", "https://app.example/signed-in?code=..."),
					"Cache-Control": text("The address contains a code, so the answer must not be stored.", "no-store"),
				},
			},
		},
	}
}

func newFinishOutput(o account.OAuthOutcome) (*finishOAuthOutput, error) {
	if o.ReturnURL != "" {
		return &finishOAuthOutput{Location: o.ReturnURL, CacheControl: "no-store", Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusFound) }}, nil
	}
	body, err := json.Marshal(newSignInOutput(o.SignedIn).Body)
	if err != nil {
		return nil, err
	}
	return &finishOAuthOutput{CacheControl: "no-store", Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_, _ = ctx.BodyWriter().Write(append(body, '\n')) // the client is gone when this fails
	}}, nil
}

// browserOf believes the plain cookie, which another host may have planted, over
// http alone.
func browserOf(https bool, host, plain string) string {
	if https {
		return host
	}
	return plain
}
