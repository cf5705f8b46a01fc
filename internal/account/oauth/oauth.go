// Package oauth asks outside identity providers who somebody is: by the
// authorization code flow (RFC 6749) with PKCE S256 (RFC 7636), as RFC 9700 wants
// it. What it learns is an Identity; the provider's tokens are used once and
// forgotten.
package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/waypost/waypost/internal/fault"
)

// Faults of this package.
var (
	// ErrIssuer says that the answer came from another provider (RFC 9207 section 2.4).
	ErrIssuer = fault.New(fault.Malformed, "oauth_state_invalid", "This answer does not belong to a sign-in that was started in this browser. Start again.")
	// ErrCode says that the provider refused the code: spent, expired, or made for another sign-in.
	ErrCode = fault.New(fault.Malformed, "oauth_code_invalid", "The provider did not accept the code of this sign-in. Start again.")
	// ErrToken says that the provider's statement was not made for this sign-in.
	ErrToken = fault.New(fault.Unauthenticated, "oauth_token_invalid", "The provider's identity token is not valid for this sign-in. Start again.")
	// ErrExchange says that the provider failed or answered what can't be understood.
	ErrExchange = fault.New(fault.Upstream, "oauth_exchange_failed", "The provider can't be asked right now. Try again.")
)

// Identity is what a provider says of somebody.
type Identity struct {
	Provider string
	// Subject is the provider's own and lasting name for the person. It alone,
	// with Provider, says who it is; an e-mail address can change hands.
	Subject string
	// Email is empty when the provider tells none.
	Email string
	// EmailVerified says that the provider made sure that the address is the person's.
	EmailVerified bool
	// Name, GivenName and FamilyName are for greeting; each may be empty.
	Name, GivenName, FamilyName string
}

// Secrets tie a provider's answer to one sign-in in one browser.
type Secrets struct {
	State    string
	Nonce    string // for providers that sign a statement
	Verifier string // PKCE; 43 to 128 characters
}

// Options configure a provider. ClientID, ClientSecret and RedirectURL are
// mandatory.
type Options struct {
	ClientID     string
	ClientSecret string
	// RedirectURL is our own callback for this provider alone.
	RedirectURL string
	// URL is where the provider is: Google's issuer, GitHub's site. Empty for its own.
	URL string
	// APIURL is where GitHub's API is. Empty for its own.
	APIURL string
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// Transport carries the requests; nil for the system's.
	Transport http.RoundTripper
}

func (o Options) validate() error {
	var errs []error
	for name, value := range map[string]string{"ClientID": o.ClientID, "ClientSecret": o.ClientSecret, "RedirectURL": o.RedirectURL} {
		if value == "" {
			errs = append(errs, fmt.Errorf("oauth: Options.%s is missing", name))
		}
	}
	for _, base := range []string{o.RedirectURL, o.URL, o.APIURL} {
		if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			errs = append(errs, fmt.Errorf("oauth: %q is not an absolute http(s) URL", base))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults(site, api string) Options {
	o.URL = cmp.Or(o.URL, site)
	o.APIURL = cmp.Or(o.APIURL, api)
	o.URL, o.APIURL = strings.TrimRight(o.URL, "/"), strings.TrimRight(o.APIURL, "/")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	return o
}

// Provider is one outside identity provider. It is safe for concurrent use.
type Provider struct {
	// Name is the provider's in our URLs, Title in front of people.
	Name, Title string

	o      Options
	client *http.Client
	dial   dialect
	// found is what asking the provider for its own configuration gave.
	mu    sync.Mutex
	found *discovered
}

// discovered is where a provider is and how it wants to be spoken to.
type discovered struct {
	config oauth2.Config
	issuer string
	// saysIssuer promises an iss in every answer, so that one without is forged.
	saysIssuer bool
	oidc       *oidc.Provider // nil for plain OAuth
}

// dialect is what differs between providers.
type dialect interface {
	discover(ctx context.Context, o Options) (*discovered, error)
	identify(ctx context.Context, p *Provider, d *discovered, t *oauth2.Token, nonce string) (Identity, error)
}

const (
	// requestTimeout bounds each request to a provider.
	requestTimeout = 10 * time.Second
	// maxAnswer bounds what is read of a provider's answer, in bytes.
	maxAnswer = 1 << 20
)

func newProvider(name, title string, o Options, d dialect) (*Provider, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Provider{Name: name, Title: title, o: o, dial: d, client: &http.Client{
		Timeout:   requestTimeout,
		Transport: limited{o.Transport},
		// A redirect would carry the code and the client's secret elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// AuthorizationURL is where the browser goes to sign in. It returns ErrExchange
// when the provider's configuration can't be had.
func (p *Provider) AuthorizationURL(ctx context.Context, s Secrets) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(s.Verifier)}
	if d.oidc != nil {
		options = append(options, oidc.Nonce(s.Nonce))
	}
	return d.config.AuthCodeURL(s.State, options...), nil
}

// CheckIssuer says whether an answer's iss ("" for none) is this provider's. It
// returns ErrIssuer or ErrExchange.
func (p *Provider) CheckIssuer(ctx context.Context, iss string) error {
	d, err := p.discover(ctx)
	if err != nil {
		return err
	}
	if iss == d.issuer || iss == "" && !d.saysIssuer {
		return nil
	}
	return ErrIssuer
}

// Redeem turns a code into the identity that it stands for. It returns ErrCode,
// ErrToken or ErrExchange.
func (p *Provider) Redeem(ctx context.Context, code string, s Secrets) (Identity, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	t, err := d.config.Exchange(p.context(ctx), code, oauth2.VerifierOption(s.Verifier))
	if err != nil {
		return Identity{}, refusal(err)
	}
	id, err := p.dial.identify(p.context(ctx), p, d, t, s.Nonce)
	if err != nil {
		return Identity{}, err
	}
	if id.Subject == "" {
		return Identity{}, ErrToken.Because(errors.New("no subject"))
	}
	id.Provider = p.Name
	return id, nil
}

// refusal keeps the provider's own words for the log: its error code alone, as
// the rest of its answer could hold a secret.
func refusal(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return ErrExchange.Because(err)
	case refused.ErrorCode == "invalid_grant" || refused.ErrorCode == "bad_verification_code": // GitHub's word for it
		return ErrCode.Because(errors.New(refused.ErrorCode))
	case refused.Response != nil:
		return ErrExchange.Because(fmt.Errorf("status %d, error %q", refused.Response.StatusCode, refused.ErrorCode))
	}
	return ErrExchange.Because(fmt.Errorf("error %q", refused.ErrorCode))
}

// discover asks once, at the first use, so that the service starts without the
// provider; a failure is not kept.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	found := p.found
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := p.dial.discover(p.context(ctx), p.o)
	if err != nil {
		return nil, ErrExchange.Because(err)
	}
	found.config.ClientID, found.config.ClientSecret, found.config.RedirectURL = p.o.ClientID, p.o.ClientSecret, p.o.RedirectURL
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = found
	return found, nil
}

// context carries the HTTP client to the libraries; both look under this key.
func (p *Provider) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, p.client)
}

// limited cuts answers that are too long to be true.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}
