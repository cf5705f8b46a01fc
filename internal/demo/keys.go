package demo

import (
	"context"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// Keys gives the demo site the keys that the environment chose; an empty one
// changes nothing.
func Keys(ctx context.Context, s ServicesUsed, of site.Site, siteKey, apiKey string) (site.Site, error) {
	ctx = identity.NewContext(ctx, identity.System("demo"))
	if siteKey != "" && siteKey != of.Key {
		adopted, err := s.Sites.AdoptSiteKey(ctx, of.ID, siteKey)
		if err != nil {
			return of, err
		}
		of = adopted
	}
	if apiKey == "" || Reads(ctx, s, apiKey) {
		return of, nil
	}
	_, err := s.Sites.AdoptKey(ctx, of.ID, keyName, site.ScopeRead, apiKey)
	return of, err
}

// Reads reports whether a key opens a site for reading.
func Reads(ctx context.Context, s ServicesUsed, apiKey string) bool {
	_, key, err := s.Sites.AuthenticateKey(ctx, apiKey)
	return err == nil && key.Scope == site.ScopeRead
}

// NewKey makes another reading key of the demo site.
func NewKey(ctx context.Context, s ServicesUsed, of site.Site) (string, error) {
	ctx = identity.NewContext(ctx, identity.System("demo"))
	_, secret, err := s.Sites.CreateKey(ctx, of.ID, keyName, site.ScopeRead)
	return secret, err
}
