package api

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
)

// Tokens are what a finished sign-in gives.
type Tokens struct {
	AccessToken  string `json:"access_token" doc:"A JWT for the Authorization header." example:"eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"`
	TokenType    string `json:"token_type" enum:"Bearer" doc:"The scheme of the Authorization header." example:"Bearer"`
	ExpiresIn    int    `json:"expires_in" doc:"For how many more seconds the access token is valid." example:"900"`
	RefreshToken string `json:"refresh_token" doc:"An opaque token that can be used once. Keep it as safe as a password." example:"wprt_b3BhcXVl"`
	User         User   `json:"user" doc:"The account that signed in."`
}

// MFAChallenge is what a sign-in gives that a second factor must finish.
type MFAChallenge struct {
	MFARequired bool     `json:"mfa_required" enum:"true" doc:"Always true." example:"true"`
	MFAToken    string   `json:"mfa_token" doc:"Identifies this sign-in to POST /api/auth/2fa/verify, and is of no other use." example:"eyJhbGciOiJFUzI1NiIsInR5cCI6Im1mYStqd3QifQ.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"`
	ExpiresIn   int      `json:"expires_in" doc:"For how many more seconds the token is valid." example:"300"`
	Methods     []string `json:"methods" nullable:"false" doc:"The accepted second factors: a code of the authenticator application, or a recovery code." example:"[\"totp\",\"recovery_code\"]"`
}

// SignInAnswer is one of the two.
type SignInAnswer struct{ account.SignedIn }

// MarshalJSON implements json.Marshaler.
func (a SignInAnswer) MarshalJSON() ([]byte, error) {
	if c := a.MFA; c != nil {
		return json.Marshal(MFAChallenge{MFARequired: true, MFAToken: c.Token, ExpiresIn: int(c.ExpiresIn.Seconds()), Methods: c.Methods})
	}
	return json.Marshal(toTokens(a.SignedIn))
}

// Schema implements huma.SchemaProvider.
func (SignInAnswer) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[Tokens](), true, "Tokens"),
		r.Schema(reflect.TypeFor[MFAChallenge](), true, "MFAChallenge"),
	}}
}

func toTokens(s account.SignedIn) Tokens {
	return Tokens{
		AccessToken: s.AccessToken, TokenType: "Bearer", ExpiresIn: int(s.ExpiresIn.Seconds()),
		RefreshToken: s.RefreshToken, User: toUser(s.User),
	}
}

// signInOutput answers a sign-in.
type signInOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains tokens, so it must not be stored." example:"no-store"`
	Body         single[SignInAnswer]
}

func newSignInOutput(s account.SignedIn) *signInOutput {
	message := "Signed in."
	if s.MFA != nil {
		message = "Send a code of your second factor next."
	}
	return &signInOutput{CacheControl: "no-store", Body: single[SignInAnswer]{Data: SignInAnswer{s}, Message: message}}
}
