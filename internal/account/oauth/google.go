package oauth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// NewGoogle makes the provider google: OpenID Connect Core 1.0, found by
// Discovery, so that Options.URL may name any other issuer in its place.
func NewGoogle(o Options) (*Provider, error) {
	return newProvider("google", "Google", o.withDefaults("https://accounts.google.com", "https://accounts.google.com"), connect{})
}

// connect is the dialect of OpenID Connect.
type connect struct{}

func (connect) discover(ctx context.Context, o Options) (*discovered, error) {
	p, err := oidc.NewProvider(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	var extra struct {
		Issuer      string   `json:"issuer"`
		SaysIssuer  bool     `json:"authorization_response_iss_parameter_supported"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.Claims(&extra); err != nil {
		return nil, err
	}
	endpoint := p.Endpoint()
	// Said, so that the library doesn't find out by sending the code twice. Basic
	// is what a provider that lists nothing has (Discovery section 3).
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(extra.AuthMethods) > 0 && !slices.Contains(extra.AuthMethods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &discovered{
		config: oauth2.Config{Endpoint: endpoint, Scopes: []string{oidc.ScopeOpenID, "email", "profile"}},
		issuer: extra.Issuer, saysIssuer: extra.SaysIssuer, oidc: p,
	}, nil
}

// claims are those of an ID token or of the UserInfo endpoint.
type claims struct {
	Subject       string   `json:"sub"`
	Authorized    string   `json:"azp"`
	Email         string   `json:"email"`
	EmailVerified flexBool `json:"email_verified"`
	Name          string   `json:"name"`
	GivenName     string   `json:"given_name"`
	FamilyName    string   `json:"family_name"`
}

// identify checks the ID token (OpenID Connect Core section 3.1.3.7): signature,
// iss, aud, azp, exp, nonce. A provider that keeps the address out of it is asked
// at its UserInfo endpoint.
func (connect) identify(ctx context.Context, p *Provider, d *discovered, t *oauth2.Token, nonce string) (Identity, error) {
	raw, _ := t.Extra("id_token").(string)
	verified, err := d.oidc.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}).Verify(ctx, raw)
	if err != nil {
		return Identity{}, ErrToken.Because(err)
	}
	var c claims
	if err := verified.Claims(&c); err != nil {
		return Identity{}, ErrToken.Because(err)
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(nonce)) != 1:
		return Identity{}, ErrToken.Because(errors.New("another nonce"))
	case c.Authorized != "" && c.Authorized != p.o.ClientID, c.Authorized == "" && len(verified.Audience) > 1:
		return Identity{}, ErrToken.Because(errors.New("authorised for another party"))
	}
	if c.Email == "" && d.oidc.UserInfoEndpoint() != "" {
		if err := askUserInfo(ctx, d, t, &c); err != nil {
			return Identity{}, err
		}
	}
	return Identity{
		Subject: c.Subject, Email: c.Email, EmailVerified: bool(c.EmailVerified),
		Name: c.Name, GivenName: c.GivenName, FamilyName: c.FamilyName,
	}, nil
}

// askUserInfo completes c. The answer must be about the same subject (section 5.3.2).
func askUserInfo(ctx context.Context, d *discovered, t *oauth2.Token, c *claims) error {
	info, err := d.oidc.UserInfo(ctx, oauth2.StaticTokenSource(t))
	if err != nil {
		return ErrExchange.Because(errors.New("the UserInfo endpoint did not answer"))
	}
	subject := c.Subject
	if err := info.Claims(c); err != nil {
		return ErrExchange.Because(err)
	}
	if info.Subject != subject {
		return ErrToken.Because(errors.New("UserInfo of another subject"))
	}
	return nil
}

// flexBool is a boolean that some providers send as a string.
type flexBool bool

// UnmarshalJSON implements json.Unmarshaler: true and "true" alone are true.
func (b *flexBool) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	*b = flexBool(v == true || v == "true")
	return nil
}
