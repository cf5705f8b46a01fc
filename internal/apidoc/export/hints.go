package export

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Extension is the member of a description that holds hints for exports: a Root
// at its root, SchemeHints at a security scheme, Hints at an operation.
//
// Texts in hints may refer to variables as {{name}}, and to values that differ
// for each sending: {{$guid}}, {{$timestamp}} (Unix seconds) and
// {{$isoTimestamp}}.
const Extension = "x-waypost-export"

// Root declares variables, in the order in which people shall see them. Those
// that are only captured or referred to need no declaration.
type Root struct {
	Variables []Variable `json:"variables,omitempty"`
}

// Variable starts empty: people, or newman's --env-var, fill it in.
type Variable struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// SchemeHints say which variable holds the credential of a security scheme.
// Without it that is accessToken for a bearer scheme, and the scheme's own name
// for another.
type SchemeHints struct {
	Variable string `json:"variable,omitempty"`
}

// Hints say how a request of an operation succeeds on a service that was just
// set up, after the requests before it.
type Hints struct {
	// Variants replace the one request by several. What a variant leaves out it
	// takes from here.
	Variants []Variant `json:"variants,omitempty"`

	Variant
}

// Variant is one request of an operation.
type Variant struct {
	// Name sets a variant apart: "payment".
	Name string `json:"name,omitempty"`
	// Summary is the request's title, in place of the operation's.
	Summary string `json:"summary,omitempty"`
	// Order moves the request before (negative) or behind others; among equals the
	// path decides. Requests above zero come in a last folder. Zero is 100 for
	// DELETE.
	Order int `json:"order,omitempty"`
	// Credential names the variable with the token or the key, in place of the
	// security scheme's.
	Credential string `json:"credential,omitempty"`
	// Parameters are values of path, query and header parameters by name. An
	// optional one with a value is enabled.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Headers are sent besides those that are documented as parameters.
	Headers map[string]string `json:"headers,omitempty"`
	// Example picks one of the body's named examples.
	Example string `json:"example,omitempty"`
	// Body changes the example body: a JSON Merge Patch (RFC 7396).
	Body any `json:"body,omitempty"`
	// Signature makes a script sign the body before it is sent.
	Signature *Signature `json:"signature,omitempty"`
	// TOTP makes a script compute a one-time password before the request is sent.
	TOTP *TOTP `json:"totp,omitempty"`
	// Status lists the documented statuses that count as success, when these are
	// not simply all documented 2xx (or, without such, 3xx).
	Status []int `json:"status,omitempty"`
	// Capture stores members of the answer, by JSON Pointer (RFC 6901), in
	// variables for later requests.
	Capture map[string]string `json:"capture,omitempty"`
	// Optional says that what it captures may be missing from a success, and the secret of
	// its one-time password too, for somebody else has to do something first.
	Optional bool `json:"optional,omitempty"`
}

// TOTP is a time-based one-time password (RFC 6238) with the usual parameters:
// SHA-1, six digits, 30 seconds. Both members name variables.
type TOTP struct {
	Secret string `json:"secret"` // holds the key, in base32
	Code   string `json:"code"`   // gets the password
}

// Signature is an HMAC. Message, Value and Headers may hold {body} (the bytes
// that are sent), {timestamp} (Unix seconds) and {id} (made up for each sending),
// Value and Headers also {hmac} and {secret}. Without a Message nothing is computed.
type Signature struct {
	Header  string `json:"header"`            // "Payment-Signature"
	Secret  string `json:"secret"`            // name of the variable with the key
	Message string `json:"message,omitempty"` // "{timestamp}.{body}"
	Value   string `json:"value"`             // "t={timestamp},v1={hmac}"
	// Base64 says that key and sum are in base64, the key perhaps behind whsec_;
	// otherwise the key is the text itself, and the sum in lower-case hexadecimal.
	Base64 bool `json:"base64,omitempty"`
	// Base64Sum says that the sum alone is in base64.
	Base64Sum bool `json:"base64_sum,omitempty"`
	// Digest is sha1, sha256 or sha512; "" is sha256.
	Digest string `json:"digest,omitempty"`
	// Headers are sent besides.
	Headers map[string]string `json:"headers,omitempty"`
}

var variableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

func (r Root) validate() error {
	for _, v := range r.Variables {
		if !variableName.MatchString(v.Name) {
			return fmt.Errorf("a variable %q is no name", v.Name)
		}
	}
	return nil
}

func (h Hints) validate() error {
	names := map[string]bool{}
	for _, v := range h.Variants {
		if v.Name == "" {
			return errors.New("a variant has no name")
		}
		if names[v.Name] {
			return fmt.Errorf("two variants have the name %q", v.Name)
		}
		names[v.Name] = true
		if err := v.validate(); err != nil {
			return err
		}
	}
	return h.Variant.validate()
}

func (v Variant) validate() error {
	for _, name := range slices.Sorted(maps.Keys(v.Capture)) {
		if !variableName.MatchString(name) || !strings.HasPrefix(v.Capture[name], "/") {
			return fmt.Errorf("a capture %q: %q is no JSON Pointer into a variable", name, v.Capture[name])
		}
	}
	if v.Credential != "" && !variableName.MatchString(v.Credential) {
		return fmt.Errorf("a credential %q is no name", v.Credential)
	}
	if s := v.Signature; s != nil && (s.Header == "" || s.Value == "" || !variableName.MatchString(s.Secret)) {
		return errors.New("a signature needs a header, a secret's variable and a value")
	}
	if t := v.TOTP; t != nil && (!variableName.MatchString(t.Secret) || !variableName.MatchString(t.Code)) {
		return errors.New("a one-time password needs the variables of its secret and of its code")
	}
	return nil
}

// Strip removes the hints from a description, given as decoded JSON.
func Strip(description map[string]any) {
	delete(description, Extension)
	components, _ := description["components"].(map[string]any)
	eachObject(components["securitySchemes"], func(scheme map[string]any) { delete(scheme, Extension) })
	for _, section := range []string{"paths", "webhooks"} {
		eachObject(description[section], func(item map[string]any) {
			eachObject(item, func(operation map[string]any) { delete(operation, Extension) })
		})
	}
}

func eachObject(v any, f func(map[string]any)) {
	members, _ := v.(map[string]any)
	for _, member := range members {
		if o, ok := member.(map[string]any); ok {
			f(o)
		}
	}
}
