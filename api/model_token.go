package api

import (
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
)

// NewAPIToken is the body that makes an API token.
type NewAPIToken struct {
	Name            string     `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"What the token is for." example:"Nightly export"`
	Scopes          []string   `json:"scopes" model:"required,min=1,max=4,dive,oneof=read write admin ai" doc:"What the token may do, within its owner's role: read, write, and in addition admin for operations that only an ADMIN may call; ai for language models." example:"read,write"`
	ExpiresAt       *time.Time `json:"expires_at" doc:"When the token expires. Leave it out for 90 days from now; send null for never." example:"2027-01-02T15:04:05Z"`
	AllowedNetworks []string   `json:"allowed_networks" model:"max=50,dive,line,min=1,max=64" doc:"The addresses and networks, in CIDR notation, from which the token may be used. Leave it out for all." example:"203.0.113.7,2001:db8::/32"`
	Rate            *int       `json:"rate" model:"min=1,max=100000" doc:"How many requests a minute the token may send. Leave it out, or send null, for no limit." example:"600"`
}

func (n NewAPIToken) wanted(body *model.Request[NewAPIToken]) account.NewAPIToken {
	out := account.NewAPIToken{
		Name: n.Name, ExpiresAt: n.ExpiresAt, Never: n.ExpiresAt == nil && body.Has("expires_at"), Networks: n.AllowedNetworks,
	}
	for _, scope := range n.Scopes {
		out.Scopes = append(out.Scopes, identity.Scope(scope))
	}
	if n.Rate != nil {
		out.Rate = *n.Rate
	}
	return out
}

// APIToken is an API token without its secret.
type APIToken struct {
	ID              uint64     `json:"id" doc:"Assigned by the server." example:"7"`
	Name            string     `json:"name" doc:"What the token is for." example:"Nightly export"`
	Prefix          string     `json:"prefix" doc:"The secret's first characters, to tell tokens apart." example:"wp_3Jk8sQ2m"`
	Scopes          []string   `json:"scopes" nullable:"false" doc:"What the token may do, within its owner's role." example:"read,write"`
	AllowedNetworks []string   `json:"allowed_networks" nullable:"false" doc:"The networks from which the token may be used; empty for all." example:"203.0.113.7/32,2001:db8::/32"`
	Rate            *int       `json:"rate" doc:"How many requests a minute the token may send; null for no limit." example:"600"`
	CreatedAt       time.Time  `json:"created_at" doc:"When the token was created." example:"2026-01-02T15:04:05Z"`
	ExpiresAt       *time.Time `json:"expires_at" doc:"When the token expires; null for never." example:"2027-01-02T15:04:05Z"`
	ReplacedAt      *time.Time `json:"replaced_at" doc:"When another token was created in the place of this one, which works until expires_at; null if none was." example:"2026-12-20T15:04:05Z"`
	LastUsedAt      *time.Time `json:"last_used_at" doc:"When the token was last used, exact to a minute; null for never." example:"2026-01-03T15:04:05Z"`
	LastAddress     *string    `json:"last_address" doc:"The network address from which the token was used at last_used_at; null if it is not known." example:"203.0.113.7"`
}

// issuedAPIToken also carries the secret.
type issuedAPIToken struct {
	APIToken
	Token string `json:"token" doc:"The secret, shown only this once." example:"wp_3Jk8sQ2mY0b3BhcXVl"`
}

func toAPIToken(t account.APIToken) APIToken {
	out := APIToken{
		ID: uint64(t.ID), Name: t.Name, Prefix: t.Prefix, Scopes: make([]string, len(t.Scopes)), AllowedNetworks: t.Networks,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, ReplacedAt: t.ReplacedAt, LastUsedAt: t.LastUsedAt,
	}
	for i, s := range t.Scopes {
		out.Scopes[i] = string(s)
	}
	if t.Rate > 0 {
		out.Rate = &t.Rate
	}
	if t.LastAddress != "" {
		out.LastAddress = &t.LastAddress
	}
	return out
}

type listTokensOutput struct {
	Body list[APIToken]
}

type newTokenOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Location     string `header:"Location" doc:"The path of the token; DELETE revokes it." example:"/api/auth/tokens/7"`
	Body         single[issuedAPIToken]
}

type tokenCursor struct {
	ID int64 `json:"i"`
}

func tokenPage(tokens []account.APIToken, p Page, total *int64) *listTokensOutput {
	return &listTokensOutput{Body: newList(tokens, p.Limit, total, toAPIToken, func(t account.APIToken) any { return tokenCursor{t.ID} })}
}

// Grace is how long a credential still works that was rotated.
type Grace struct {
	Seconds int `query:"grace" minimum:"0" maximum:"2592000" default:"86400" doc:"Seconds that the old token keeps working, unless it expires earlier. 0 ends it at once." example:"3600"`
}

func (g Grace) duration() time.Duration { return time.Duration(g.Seconds) * time.Second }

// tokenExport is what requests in exports change in the example of a new token: it would
// have expired one day, and would not work from where people are.
func tokenExport() map[string]any {
	return map[string]any{"expires_at": nil, "allowed_networks": []string{}, "rate": nil}
}
