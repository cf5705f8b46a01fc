package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/account/oauth"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/throttle"
)

// OAuthFlowTTL is how long a person may take to sign in at a provider.
const OAuthFlowTTL = 10 * time.Minute

// oauthStarts bounds what a network can have stored by beginning sign-ins: one a second
// over the time for which a flow is kept, which is enough for a large office in the morning.
var oauthStarts = throttle.Limit{Name: "oauth_start.address", Max: 600, Window: OAuthFlowTTL}

// Faults of sign-in through providers, beside those of package oauth.
var (
	ErrProvider   = fault.Missing("sign-in provider")
	ErrOAuthState = oauth.ErrIssuer // to a client all of them are one
	ErrDenied     = fault.New(fault.Malformed, "oauth_denied", "The sign-in was declined at the provider.")
	ErrReturnURL  = fault.New(fault.Malformed, "redirect_not_allowed", "A sign-in may not return to that address.")
)

// OAuthOptions configure sign-in through outside providers; the zero value has none.
type OAuthOptions struct {
	Providers []*oauth.Provider
	// ReturnURLs are where an outcome may be sent, each to the letter: https URLs,
	// http ones for development, and private-use schemes with a dot of native
	// applications (RFC 8252 section 7.1). One of a loopback address without a port
	// stands for every port (section 7.3).
	ReturnURLs []string
}

// loopbacks are how a desktop application names its own machine. The name localhost is
// none of them: it may lead elsewhere (RFC 8252 section 8.3).
var loopbacks = []string{"http://127.0.0.1", "http://[::1]"}

// returnsTo reports whether an outcome may be sent to address.
func (o OAuthOptions) returnsTo(address string) bool {
	return slices.Contains(o.ReturnURLs, address) || slices.Contains(o.ReturnURLs, withoutLoopbackPort(address))
}

// withoutLoopbackPort is address without its port if it is one of a loopback address, and
// otherwise address. It parses nothing that a browser could read in another way: what is
// left out is a colon and digits between two literals.
func withoutLoopbackPort(address string) string {
	for _, host := range loopbacks {
		after, ok := strings.CutPrefix(address, host+":")
		if !ok {
			continue
		}
		rest := strings.TrimLeft(after, "0123456789")
		port, err := strconv.ParseUint(after[:len(after)-len(rest)], 10, 16)
		if err == nil && port > 0 && after[0] != '0' && (rest == "" || strings.ContainsAny(rest[:1], "/?")) {
			return host + rest
		}
	}
	return address
}

func (o OAuthOptions) validate() error {
	for _, text := range o.ReturnURLs {
		u, err := url.Parse(text)
		web := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
		if err != nil || !web && !strings.Contains(u.Scheme, ".") || u.User != nil || strings.Contains(text, "#") {
			return fmt.Errorf("account: %q is no URL to return to: it must be absolute, without user and fragment, and its scheme https, http or one with a dot", text)
		}
	}
	return nil
}

// OAuthStart is a request to sign in at a provider.
type OAuthStart struct {
	// ReturnURL is where the browser is sent with the outcome; if it is empty, the
	// callback answers with the outcome.
	ReturnURL string
	// CodeChallenge is S256 (RFC 7636 section 4.2) of a secret of who wants the
	// outcome, needed with ReturnURL: of all who may see the code that travels in
	// the URL, only its maker can collect.
	CodeChallenge string
	// Browser is the cookie of an earlier start in the same browser, "" for none.
	Browser string
}

// OAuthStarted is a sign-in that is under way.
type OAuthStarted struct {
	// URL is the provider's page.
	URL string
	// Browser is the secret that the browser must keep for OAuthFlowTTL.
	Browser string
}

// Identities links accounts at outside providers, and signs people in through them.
type Identities struct {
	*core
	signIns *SignIns
}

// Providers are the providers that are set up.
func (s *Identities) Providers() []*oauth.Provider { return s.o.OAuth.Providers }

// StartOAuth begins a sign-in. It returns ErrProvider, ErrReturnURL,
// oauth.ErrExchange, throttle.ErrLimited, or a validation fault keyed by code_challenge.
func (s *Identities) StartOAuth(ctx context.Context, provider string, start OAuthStart) (OAuthStarted, error) {
	p, err := s.provider(provider)
	if err != nil {
		return OAuthStarted{}, err
	}
	if start.ReturnURL != "" {
		if !s.o.OAuth.returnsTo(start.ReturnURL) {
			return OAuthStarted{}, ErrReturnURL
		}
		if !isSecret(start.CodeChallenge) {
			return OAuthStarted{}, fault.Validation(map[string]string{"code_challenge": "Must be the base64url SHA-256 of your code_verifier; required with redirect_to."})
		}
	}
	return s.leave(ctx, p, start.Browser, func(f *dbsqlc.InsertOAuthFlowParams, _ string) string {
		if start.ReturnURL != "" {
			f.ReturnUrl, f.CodeChallenge = &start.ReturnURL, &start.CodeChallenge
		}
		return ""
	})
}

// leave begins a sign-in at p. aim says where its outcome goes, given the browser's
// secret, and with what its state begins.
func (s *Identities) leave(ctx context.Context, p *oauth.Provider, browser string, aim func(f *dbsqlc.InsertOAuthFlowParams, browser string) string) (OAuthStarted, error) {
	err := s.perAddress(ctx, oauthStarts)
	if err != nil {
		return OAuthStarted{}, err
	}
	// One secret for all sign-ins that a browser has under way, so that a second
	// tab does not break the first.
	if !isSecret(browser) {
		if browser, err = s.newSecret(); err != nil {
			return OAuthStarted{}, err
		}
	}
	state, err := s.newSecret()
	if err != nil {
		return OAuthStarted{}, err
	}
	flow := dbsqlc.InsertOAuthFlowParams{Provider: p.Name, Now: s.o.Now(), ExpiresAt: s.o.Now().Add(OAuthFlowTTL)}
	state = aim(&flow, browser) + state
	address, err := p.AuthorizationURL(ctx, flowSecrets(browser, state))
	if err != nil {
		return OAuthStarted{}, err
	}
	flow.StateSha256, flow.BrowserSha256 = digest(state), digest(browser)
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return s.queries.InsertOAuthFlow(ctx, tx, flow)
	})
	if err != nil {
		return OAuthStarted{}, err
	}
	return OAuthStarted{URL: address, Browser: browser}, nil
}

// sweepOAuth deletes sign-ins that never came back and outcomes that nobody
// collected, and returns how many.
func (s *Identities) sweepOAuth(ctx context.Context, tx pgx.Tx) (int64, error) {
	flows, err := s.queries.DeleteStaleOAuthFlows(ctx, tx, s.o.Now())
	if err != nil {
		return 0, err
	}
	codes, err := s.queries.DeleteStaleOAuthCodes(ctx, tx, s.o.Now())
	return flows + codes, err
}

func (s *Identities) provider(name string) (*oauth.Provider, error) {
	for _, p := range s.o.OAuth.Providers {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, ErrProvider
}

// flowSecrets derives what proves an answer from what only the browser has and
// from the state, so that neither is stored.
func flowSecrets(browser, state string) oauth.Secrets {
	return oauth.Secrets{State: state, Nonce: derive(browser, "nonce "+state), Verifier: derive(browser, "verifier "+state)}
}

// derive makes a secret for one use of the browser's secret.
func derive(browser, use string) string {
	mac := hmac.New(sha256.New, []byte(browser))
	mac.Write([]byte(use))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// newSecret returns 256 random bits as text.
func (s *core) newSecret() (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(s.o.Random, b[:]); err != nil {
		return "", fmt.Errorf("account: random: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// isSecret says that text has the form of newSecret's and of an S256 challenge.
func isSecret(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == sha256.Size && !strings.ContainsAny(text, "\r\n")
}

func digest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// with returns address with one more query parameter.
func withParameter(address, name, value string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("account: a stored URL to return to is none")
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += url.Values{name: {value}}.Encode()
	return u.String(), nil
}
