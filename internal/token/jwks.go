package token

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lestrrat-go/jwx/v2/jwk"
)

// JWKS returns the JSON Web Key Set (RFC 7517) of the public keys that verify
// this service's tokens, the next one's included. A copy is good for
// JWKSMaxAge.
func (s *Service) JWKS(ctx context.Context) ([]byte, error) {
	set := jwk.NewSet()
	ring, now := s.ring(ctx), s.o.Now()
	for _, kid := range slices.Sorted(maps.Keys(ring.public)) {
		public := ring.verifier(kid, now)
		if public == nil {
			continue // retired since the keys were read
		}
		key, err := jwk.FromRaw(public)
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
