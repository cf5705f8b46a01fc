package api

import (
	"context"
	"sync/atomic"

	"github.com/waypost/waypost/internal/identity"
)

// vouched is whose a token is, as it was found for the request around this one.
type vouched struct {
	token     string
	principal identity.Principal
	spent     atomic.Bool
}

type vouchedKey struct{}

// vouch lets one request within ctx have p for that token.
func vouch(ctx context.Context, token string, p identity.Principal) context.Context {
	return context.WithValue(ctx, vouchedKey{}, &vouched{token: token, principal: p})
}

// authenticate asks accounts whose a token is, unless the request around this one has just
// done so. It is good once: each further call counts against the token's rate, and meets
// a revocation.
func authenticate(ctx context.Context, accounts Authenticator, token string) (identity.Principal, error) {
	if v, ok := ctx.Value(vouchedKey{}).(*vouched); ok && v.token == token && v.spent.CompareAndSwap(false, true) {
		return v.principal, nil
	}
	return accounts.Authenticate(ctx, token)
}
