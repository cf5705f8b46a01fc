package token_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/token"
)

// The forger below writes tokens byte by byte, so that it depends neither on the
// library that is tested nor on the service's own code.

type object = map[string]any

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func segment(t *testing.T, raw string, i int) object {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func header(t *testing.T, raw string) object { t.Helper(); return segment(t, raw, 0) }
func payload(t *testing.T, raw string) object {
	t.Helper()
	return segment(t, raw, 1)
}

func with(o object, name string, value any) object {
	c := maps.Clone(o)
	if value == nil {
		delete(c, name)
	} else {
		c[name] = value
	}
	return c
}

func signES256(t *testing.T, key *ecdsa.PrivateKey, head, body object) string {
	t.Helper()
	input := encode(t, head) + "." + encode(t, body)
	digest := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	sig := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// serviceWithKnownKey returns a service whose signing key the test holds too, so
// that it can sign what the service itself never would.
func serviceWithKnownKey(t *testing.T, c *clock) (*token.Service, *ecdsa.PrivateKey, *db.DB) {
	t.Helper()
	d := dbtest.New(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.PlantKey(t.Context(), token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')}, "planted", key); err != nil {
		t.Fatal(err)
	}
	return newService(t, d, func(o *token.Options) { o.Now = c.Now }), key, d
}

// forger has a token of the service, the key that signed it, and a stranger's key.
type forger struct {
	t             *testing.T
	now           time.Time
	key, stranger *ecdsa.PrivateKey
	good          string
	parts         []string
	head, body    object
	// published are the forms in which the public key can be had.
	published map[string][]byte
}

var b64 = base64.RawURLEncoding.EncodeToString

func newForger(t *testing.T, s *token.Service, c *clock, key *ecdsa.PrivateKey, d *db.DB) forger {
	t.Helper()
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := issue(t, s, someClaims())
	f := forger{t: t, now: c.now, key: key, stranger: stranger, good: good, parts: strings.Split(good, "."), head: header(t, good), body: payload(t, good)}
	var spki []byte
	if err := d.Pool().QueryRow(t.Context(), `select public_key from signing_keys`).Scan(&spki); err != nil {
		t.Fatal(err)
	}
	jwks, err := s.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.published = map[string][]byte{"DER": spki, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}), "JWKS": jwks, "nothing": nil}
	return f
}

// headed signs the token with another member in its header, and claiming one with
// another claim; nil takes it away.
func (f forger) headed(name string, value any) string {
	return signES256(f.t, f.key, with(f.head, name, value), f.body)
}

func (f forger) claiming(name string, value any) string {
	return signES256(f.t, f.key, f.head, with(f.body, name, value))
}

// unsigned keeps the old signature under another header, edited under other claims.
func (f forger) unsigned(alg any, signature string) string {
	return encode(f.t, with(f.head, "alg", alg)) + "." + f.parts[1] + "." + signature
}

func (f forger) edited(name string, value any) string {
	return f.parts[0] + "." + encode(f.t, with(f.body, name, value)) + "." + f.parts[2]
}

func (f forger) hs256(secret []byte) string {
	input := encode(f.t, with(f.head, "alg", "HS256")) + "." + f.parts[1]
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + b64(mac.Sum(nil))
}

// strange signs with the stranger's key, and names in the header where it is.
func (f forger) strange(head object) string { return signES256(f.t, f.stranger, head, f.body) }

// keys are forgeries around the algorithm and the key.
func (f forger) keys() map[string]string {
	jwk := object{"kty": "EC", "crv": "P-256", "x": b64(f.stranger.X.FillBytes(make([]byte, 32))), "y": b64(f.stranger.Y.FillBytes(make([]byte, 32)))}
	tokens := map[string]string{
		"abuse 1: alg none, no signature":   f.unsigned("none", ""),
		"abuse 1: alg none, old signature":  f.unsigned("none", f.parts[2]),
		"abuse 1: alg None":                 f.unsigned("None", ""),
		"abuse 1: no alg":                   f.unsigned(nil, f.parts[2]),
		"abuse 1: no signature":             f.parts[0] + "." + f.parts[1] + ".",
		"abuse 1: all-zero signature":       f.parts[0] + "." + f.parts[1] + "." + b64(make([]byte, 64)),
		"abuse 1: signature of another alg": f.unsigned("ES384", f.parts[2]),
		"abuse 3: unknown kid":              f.headed("kid", "another"),
		"abuse 3: no kid":                   f.headed("kid", nil),
		"abuse 3: stranger's key":           f.strange(f.head),
		"abuse 3: jwk header":               f.strange(with(f.head, "jwk", jwk)),
		"abuse 3: jwk without kid":          f.strange(with(with(f.head, "jwk", jwk), "kid", nil)),
		"abuse 3: jku header":               f.strange(with(f.head, "jku", "http://127.0.0.1:1/jwks.json")),
		"abuse 3: x5u header":               f.strange(with(f.head, "x5u", "http://127.0.0.1:1/chain.pem")),
		"abuse 3: kid as a path":            f.strange(with(f.head, "kid", "../../dev/null")),
		"abuse 3: critical header":          signES256(f.t, f.key, with(with(f.head, "crit", []string{"x"}), "x", 1), f.body),
		"abuse 3: b64 extension off":        signES256(f.t, f.key, with(with(f.head, "crit", []string{"b64"}), "b64", false), f.body),
	}
	for form, key := range f.published {
		tokens["abuse 2: HS256 with the public key, "+form] = f.hs256(key)
	}
	return tokens
}

// claims are forgeries around what a token says.
func (f forger) claims() map[string]string {
	return map[string]string{
		"abuse 4: future nbf":           f.claiming("nbf", f.now.Add(time.Minute).Unix()),
		"abuse 4: future iat":           f.claiming("iat", f.now.Add(time.Minute).Unix()),
		"abuse 4: no exp":               f.claiming("exp", nil),
		"abuse 4: no iat":               f.claiming("iat", nil),
		"abuse 4: no nbf":               f.claiming("nbf", nil),
		"abuse 4: exp as text":          f.claiming("exp", "never"),
		"abuse 5: another audience":     f.claiming("aud", []string{"https://other.example"}),
		"abuse 5: no audience":          f.claiming("aud", nil),
		"abuse 5: another issuer":       f.claiming("iss", "https://other.example"),
		"abuse 5: issuer with a suffix": f.claiming("iss", issuer+".evil.example"),
		"abuse 5: no issuer":            f.claiming("iss", nil),
		"abuse 6: ID token":             f.headed("typ", "JWT"),
		"abuse 6: mfa token":            f.headed("typ", "mfa+jwt"),
		"abuse 6: no typ":               f.headed("typ", nil),
		"abuse 6: a refresh token":      "wpr_" + b64(make([]byte, 32)),
		"abuse 7: edited role":          f.edited("role", "ADMIN"),
		"abuse 7: edited subject":       f.edited("sub", "1"),
		"abuse 7: edited expiry":        f.edited("exp", f.now.Add(time.Hour*9999).Unix()),
		// Signed, and yet nobody's.
		"no subject":        f.claiming("sub", nil),
		"subject as a name": f.claiming("sub", "root"),
		"subject zero":      f.claiming("sub", "0"),
		"no session":        f.claiming("sid", nil),
		"session as number": f.claiming("sid", 5),
		"no jti":            f.claiming("jti", nil),
		"unknown role":      f.claiming("role", "ROOT"),
	}
}

// shapes are not tokens at all.
func (f forger) shapes() map[string]string {
	return map[string]string{
		"empty":            "",
		"two segments":     f.parts[0] + "." + f.parts[1],
		"four segments":    f.good + "." + f.parts[2],
		"flattened JSON":   `{"protected":"` + f.parts[0] + `","payload":"` + f.parts[1] + `","signature":"` + f.parts[2] + `"}`,
		"general JSON":     `{"payload":"` + f.parts[1] + `","signatures":[{"protected":"` + f.parts[0] + `","signature":"` + f.parts[2] + `"}]}`,
		"abuse 12: 100 KB": f.good + strings.Repeat("A", 100<<10),
		"trailing dot":     f.good + ".",
		"leading newline":  "\n" + f.good,
		"inner newline":    f.parts[0] + ".\n" + f.parts[1] + "." + f.parts[2],
	}
}

func TestForgedTokensAreInvalid(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	s, key, d := serviceWithKnownKey(t, c)
	f := newForger(t, s, c, key, d)
	for _, forgeries := range []map[string]string{f.keys(), f.claims(), f.shapes()} {
		for name, raw := range forgeries {
			t.Run(name, func(t *testing.T) {
				if _, err := s.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
					t.Errorf("%v, want ErrInvalid", err)
				}
			})
		}
	}
	for name, raw := range map[string]string{
		"as issued":    f.good,
		"signed anew":  signES256(t, key, f.head, f.body),
		"unused x5t":   f.headed("x5t", "AAAA"),
		"unused claim": f.claiming("scope", "all"),
	} {
		if _, err := s.VerifyAccess(t.Context(), raw); err != nil {
			t.Errorf("%s: %v; the forgeries prove nothing", name, err)
		}
	}
}

func TestCase04ATokenEndsAtItsExpiry(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	s, _, _ := serviceWithKnownKey(t, c)
	raw := issue(t, s, someClaims())
	for _, tc := range []struct {
		after time.Duration
		want  error
	}{
		{0, nil},
		{token.AccessTTL - time.Second, nil},
		{token.AccessTTL, token.ErrExpired},
		{token.AccessTTL + time.Second, token.ErrExpired},
		{365 * 24 * time.Hour, token.ErrExpired},
		{-time.Second, nil}, // an instance whose clock is a little behind
		{-time.Minute, token.ErrInvalid},
	} {
		c.now = time.Unix(1_800_000_000, 0).Add(tc.after)
		if _, err := s.VerifyAccess(t.Context(), raw); !errors.Is(err, tc.want) {
			t.Errorf("%v after issue: %v, want %v", tc.after, err, tc.want)
		}
	}
}

func TestAnIssuedTokenSaysWhatTheContractNames(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	s, _, _ := serviceWithKnownKey(t, c)
	claims := someClaims()
	raw := issue(t, s, claims)
	head, body := header(t, raw), payload(t, raw)
	if head["alg"] != "ES256" || head["typ"] != "at+jwt" || head["kid"] != "planted" || len(head) != 3 {
		t.Errorf("header %v", head)
	}
	wanted := object{
		"iss": issuer, "sub": "7", "sid": claims.SessionID.String(), "role": "EDITOR",
		"iat": 1_800_000_000.0, "nbf": 1_800_000_000.0, "exp": 1_800_000_900.0,
	}
	for name, want := range wanted {
		if body[name] != want {
			t.Errorf("%s is %v, want %v", name, body[name], want)
		}
	}
	if _, err := base64.RawURLEncoding.DecodeString(body["jti"].(string)); err != nil {
		t.Errorf("jti: %v", err)
	}
	if _, err := uuid.Parse(body["sid"].(string)); err != nil {
		t.Errorf("sid: %v", err)
	}
}

func FuzzVerifyAccess(f *testing.F) {
	s := token.WithoutDatabase(issuer)
	raw, err := s.IssueAccess(someClaims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add("")
	f.Add("..")
	f.Add(`{"payload":"e30","signatures":[]}`)
	f.Fuzz(func(t *testing.T, mutated string) {
		if _, err := s.VerifyAccess(t.Context(), mutated); err == nil && mutated != raw {
			t.Errorf("accepted %q", mutated)
		}
	})
}
