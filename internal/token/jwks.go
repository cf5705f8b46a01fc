package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lestrrat-go/jwx/v2/jwk"
)

// JWKS returns the JSON Web Key Set (RFC 7517) of the public keys that verify
// this service's tokens.
func (s *Service) JWKS() ([]byte, error) {
	set := jwk.NewSet()
	for _, kid := range slices.Sorted(maps.Keys(s.keys.public)) {
		key, err := jwk.FromRaw(s.keys.public[kid])
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		for name, value := range map[string]any{jwk.KeyIDKey: kid, jwk.AlgorithmKey: algorithm, jwk.KeyUsageKey: jwk.ForSignature} {
			if err := key.Set(name, value); err != nil {
				return nil, fmt.Errorf("token: %w", err)
			}
		}
		if err := set.AddKey(key); err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
	}
	return json.Marshal(set)
}
