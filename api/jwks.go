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
	Curve     string `json:"crv" doc:"The curve." example:"P-256"`
	X         string `json:"x" doc:"The point's x, base64url." example:"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"`
	Y         string `json:"y" doc:"The point's y, base64url." example:"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`
	KeyID     string `json:"kid" doc:"What a token's header calls it." example:"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWh"`
	Algorithm string `json:"alg" doc:"The only algorithm that it is for." example:"ES256"`
	Use       string `json:"use" doc:"What it is for: signatures." example:"sig"`
}

// JSONWebKeySet is the keys that verify access tokens.
type JSONWebKeySet struct {
	Keys []JSONWebKey `json:"keys" nullable:"false" doc:"Those that sign, soon will, or did of late."`
}

type keySetOutput struct {
	CacheControl string `header:"Cache-Control" doc:"For how long a copy is good." example:"public, max-age=300"`
	Body         JSONWebKeySet
}

func registerKeySet(a huma.API, s KeySet) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-jwks",
		Method:      http.MethodGet,
		Path:        "/.well-known/jwks.json",
		Summary:     "The keys that verify access tokens",
		Description: "A JSON Web Key Set (RFC 7517). A key is here before it signs, and stays until its last token has expired.",
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
