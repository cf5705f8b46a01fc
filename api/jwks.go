package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/token"
)

// KeySet gives the public keys of access tokens as a JSON Web Key Set (RFC 7517).
type KeySet interface {
	JWKS(ctx context.Context) ([]byte, error)
}

// JSONWebKey is a public key that verifies access tokens.
type JSONWebKey struct {
	KeyType   string `json:"kty" doc:"The kind of key." example:"EC"`
	Curve     string `json:"crv" doc:"The elliptic curve." example:"P-256"`
	X         string `json:"x" doc:"The x coordinate of the public key's point, base64url." example:"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"`
	Y         string `json:"y" doc:"The y coordinate of the public key's point, base64url." example:"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`
	KeyID     string `json:"kid" doc:"The id by which a token's header names the key." example:"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWh"`
	Algorithm string `json:"alg" doc:"The only algorithm that the key is used with." example:"ES256"`
	Use       string `json:"use" doc:"The key's purpose: signatures." example:"sig"`
}

// JSONWebKeySet is the keys that verify access tokens.
type JSONWebKeySet struct {
	Keys []JSONWebKey `json:"keys" nullable:"false" doc:"The key that signs, keys that will sign soon, and keys that signed until recently."`
}

type keySetOutput struct {
	CacheControl string `header:"Cache-Control" doc:"For how long a copy may be used." example:"public, max-age=300"`
	Body         JSONWebKeySet
}

func registerKeySet(a huma.API, s KeySet) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-jwks",
		Method:      http.MethodGet,
		Path:        "/.well-known/jwks.json",
		Summary:     "Get the keys that verify access tokens",
		Description: "A JSON Web Key Set (RFC 7517). A key is listed before it signs, and until the last token it signed has expired.",
	}, public()), func(ctx context.Context, _ *struct{}) (*keySetOutput, error) {
		raw, err := s.JWKS(ctx)
		if err != nil {
			return nil, err
		}
		out := &keySetOutput{CacheControl: fmt.Sprintf("public, max-age=%d", int(token.JWKSMaxAge.Seconds()))}
		if err := json.Unmarshal(raw, &out.Body); err != nil {
			return nil, fmt.Errorf("api: key set: %w", err)
		}
		return out, nil
	})
}
