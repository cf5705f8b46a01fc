package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// Challenge says how a provider asks, before it sends events, whether the address
// takes them: with a value that it wants back. The zero value is a provider that
// doesn't ask.
type Challenge struct {
	// Method is GET, which asks in the query, or POST, which asks with a signed delivery.
	Method string
	// Field is where the value is: a parameter of the query, or a path of the body, as
	// BodyFields has it.
	Field string
	// TokenField is the parameter with the token that proves who asks by GET, TokenEnv
	// the variable with the same token. While TokenEnv+"_PREVIOUS" is set, that one is
	// accepted as well.
	TokenField, TokenEnv string
	// IfField and IfValue name a member of the body that only challenges by POST have.
	// When they are empty, every delivery with a value at Field is one.
	IfField, IfValue string
}

// Validate returns an error that says what is missing, in the words of the
// configuration file.
func (c Challenge) Validate() error {
	switch {
	case c == (Challenge{}):
		return nil
	case c.Method != http.MethodGet && c.Method != http.MethodPost:
		return errors.New("challenge: its method is not one of GET, POST")
	case c.Field == "":
		return errors.New("challenge: no field, which holds the value that is sent back")
	case c.Method == http.MethodPost && c.TokenField+c.TokenEnv != "":
		return errors.New("challenge: by POST it is signed; leave token_field and token_env out")
	case c.Method == http.MethodPost && (c.IfField == "") != (c.IfValue == ""):
		return errors.New("challenge: if_field and if_value go together")
	case c.Method == http.MethodPost:
		return nil
	case c.IfField+c.IfValue != "":
		return errors.New("challenge: if_field and if_value are for POST")
	case c.TokenField == "" || c.TokenEnv == "":
		return errors.New("challenge: by GET it needs token_field and token_env, the names of the parameter and of the variable with the token")
	case !variableName.MatchString(c.TokenEnv):
		return errors.New("challenge: its token_env is not a valid name of an environment variable")
	}
	return nil
}

// Faults of a challenge.
var (
	ErrNoChallenge = fault.New(fault.MethodNotAllowed, fault.CodeMethodNotAllowed, "This path answers POST.")
	ErrChallenge   = fault.New(fault.Forbidden, "challenge_refused", "The verification token is missing or not valid.")
)

// reflected is what may be sent back: nothing that a browser could take for a page.
var reflected = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

// Question is a challenge by GET as it came.
type Question struct {
	Provider string
	Header   http.Header
	Query    string // as in the address, undecoded
}

// Challenge answers a challenge by GET: it returns the value to send back. It returns
// ErrProvider, ErrNoChallenge for a provider that doesn't ask in this way,
// ErrChallenge, or ErrPayload with details. What it refuses is counted and logged.
func (r *Receiver) Challenge(ctx context.Context, q Question) (string, error) {
	p, err := r.o.Registry.Provider(q.Provider)
	value := ""
	if err == nil {
		value, err = r.answer(ctx, p, q)
	}
	if err != nil && !errors.Is(err, ErrNoChallenge) {
		r.refuse(ctx, p, Arrival{Provider: q.Provider, Header: q.Header}, 0, err)
	}
	return value, err
}

func (r *Receiver) answer(ctx context.Context, p Registration, q Question) (string, error) {
	c := p.Challenge
	if c.Method != http.MethodGet {
		return "", ErrNoChallenge
	}
	query, err := url.ParseQuery(q.Query)
	if err != nil {
		return "", unreadable("The query string is malformed.").Because(err)
	}
	if err := r.checkToken(c, query[c.TokenField]); err != nil {
		r.o.Logger.WarnContext(ctx, "webhook challenge refused", "provider", p.Name, "reason", err)
		return "", ErrChallenge.Because(err)
	}
	values := query[c.Field]
	if len(values) != 1 || !reflected.MatchString(values[0]) {
		return "", unreadable(fmt.Sprintf("The parameter %s is 1 to 256 letters, digits, _, . and -, once.", c.Field))
	}
	return values[0], nil
}

func unreadable(reason string) *fault.Error {
	return ErrPayload.With(map[string]string{"challenge": reason})
}

// checkToken compares in constant time, and returns why a token is refused.
func (r *Receiver) checkToken(c Challenge, given []string) error {
	secret := r.o.LookupSecret(c.TokenEnv)
	switch {
	case strings.TrimSpace(secret) == "":
		return signature.ErrNoSecret
	case len(given) == 0:
		return signature.ErrMissing
	case len(given) > 1:
		return signature.ErrRepeated
	}
	previous := r.o.LookupSecret(c.TokenEnv + "_PREVIOUS")
	is := signature.Equal([]byte(given[0]), []byte(secret))
	was := strings.TrimSpace(previous) != "" && signature.Equal([]byte(given[0]), []byte(previous))
	if !is && !was {
		return signature.ErrMismatch
	}
	return nil
}

// asked is the value that a delivery whose signature held wants back, "" when it is an
// event. What can't be sent back is an event too, and stored: nothing gets lost.
func (c Challenge) asked(body []byte) string {
	if c.Method != http.MethodPost || checkBody(body) != nil {
		return ""
	}
	top := members(body)
	if c.IfField != "" {
		if value, err := scalar("", follow(top, c.IfField)); err != nil || value != c.IfValue {
			return ""
		}
	}
	raw := follow(top, c.Field)
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	value, err := scalar("", raw)
	if err != nil || !reflected.MatchString(value) {
		return ""
	}
	return value
}
