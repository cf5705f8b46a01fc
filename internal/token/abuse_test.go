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

func TestForgedTokensAreInvalid(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	s, key, d := serviceWithKnownKey(t, c)
	good := issue(t, s, someClaims())
	head, body := header(t, good), payload(t, good)
	parts := strings.Split(good, ".")
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	strangerJWK := object{"kty": "EC", "crv": "P-256",
		"x": b64(stranger.X.FillBytes(make([]byte, 32))), "y": b64(stranger.Y.FillBytes(make([]byte, 32)))}

	var spki []byte
	if err := d.Pool().QueryRow(t.Context(), `select public_key from signing_keys`).Scan(&spki); err != nil {
		t.Fatal(err)
	}
	hs256 := func(secret []byte) string {
		input := encode(t, with(head, "alg", "HS256")) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return input + "." + b64(mac.Sum(nil))
	}
	jwks, err := s.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	tokens := map[string]string{
		// Abuse case 1.
		"alg none, no signature":   encode(t, with(head, "alg", "none")) + "." + parts[1] + ".",
		"alg none, old signature":  encode(t, with(head, "alg", "none")) + "." + parts[1] + "." + parts[2],
		"alg None":                 encode(t, with(head, "alg", "None")) + "." + parts[1] + ".",
		"no alg":                   encode(t, with(head, "alg", nil)) + "." + parts[1] + "." + parts[2],
		"no signature":             parts[0] + "." + parts[1] + ".",
		"all-zero signature":       parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)),
		"signature of another alg": encode(t, with(head, "alg", "ES384")) + "." + parts[1] + "." + parts[2],
		// Abuse case 2.
		"HS256 with the public key, DER":  hs256(spki),
		"HS256 with the public key, PEM":  hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})),
		"HS256 with the public key, JWKS": hs256(jwks),
		"HS256 with nothing":              hs256(nil),
		// Abuse case 3.
		"unknown kid":       signES256(t, key, with(head, "kid", "another"), body),
		"no kid":            signES256(t, key, with(head, "kid", nil), body),
		"stranger's key":    signES256(t, stranger, head, body),
		"jwk header":        signES256(t, stranger, with(head, "jwk", strangerJWK), body),
		"jwk without kid":   signES256(t, stranger, with(with(head, "jwk", strangerJWK), "kid", nil), body),
		"jku header":        signES256(t, stranger, with(head, "jku", "http://127.0.0.1:1/jwks.json"), body),
		"x5u header":        signES256(t, stranger, with(head, "x5u", "http://127.0.0.1:1/chain.pem"), body),
		"kid as a path":     signES256(t, stranger, with(head, "kid", "../../dev/null"), body),
		"critical header":   signES256(t, key, with(with(head, "crit", []string{"x"}), "x", 1), body),
		"b64 extension off": signES256(t, key, with(with(head, "crit", []string{"b64"}), "b64", false), body),
		// Abuse case 4.
		"future nbf":  signES256(t, key, head, with(body, "nbf", c.now.Add(time.Minute).Unix())),
		"future iat":  signES256(t, key, head, with(body, "iat", c.now.Add(time.Minute).Unix())),
		"no exp":      signES256(t, key, head, with(body, "exp", nil)),
		"no iat":      signES256(t, key, head, with(body, "iat", nil)),
		"no nbf":      signES256(t, key, head, with(body, "nbf", nil)),
		"exp as text": signES256(t, key, head, with(body, "exp", "never")),
		// Abuse case 5.
		"another audience":     signES256(t, key, head, with(body, "aud", []string{"https://other.example"})),
		"no audience":          signES256(t, key, head, with(body, "aud", nil)),
		"another issuer":       signES256(t, key, head, with(body, "iss", "https://other.example")),
		"issuer with a suffix": signES256(t, key, head, with(body, "iss", issuer+".evil.example")),
		"no issuer":            signES256(t, key, head, with(body, "iss", nil)),
		// Abuse case 6.
		"ID token":        signES256(t, key, with(head, "typ", "JWT"), body),
		"mfa token":       signES256(t, key, with(head, "typ", "mfa+jwt"), body),
		"no typ":          signES256(t, key, with(head, "typ", nil), body),
		"a refresh token": "wpr_" + b64(make([]byte, 32)),
		// Abuse case 7.
		"edited role":    parts[0] + "." + encode(t, with(body, "role", "ADMIN")) + "." + parts[2],
		"edited subject": parts[0] + "." + encode(t, with(body, "sub", "1")) + "." + parts[2],
		"edited expiry":  parts[0] + "." + encode(t, with(body, "exp", c.now.Add(time.Hour*9999).Unix())) + "." + parts[2],
		// Signed, and yet nobody's.
		"no subject":        signES256(t, key, head, with(body, "sub", nil)),
		"subject as a name": signES256(t, key, head, with(body, "sub", "root")),
		"subject zero":      signES256(t, key, head, with(body, "sub", "0")),
		"no session":        signES256(t, key, head, with(body, "sid", nil)),
		"session as number": signES256(t, key, head, with(body, "sid", 5)),
		"no jti":            signES256(t, key, head, with(body, "jti", nil)),
		"unknown role":      signES256(t, key, head, with(body, "role", "ROOT")),
		// Not tokens.
		"empty":           "",
		"two segments":    parts[0] + "." + parts[1],
		"four segments":   good + "." + parts[2],
		"flattened JSON":  `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"general JSON":    `{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
		"100 KB":          good + strings.Repeat("A", 100<<10), // abuse case 12
		"trailing dot":    good + ".",
		"leading newline": "\n" + good,
		"inner newline":   parts[0] + ".\n" + parts[1] + "." + parts[2],
	}
	for name, raw := range tokens {
		if _, err := s.VerifyAccess(t.Context(), raw); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, raw := range map[string]string{
		"as issued":    good,
		"signed anew":  signES256(t, key, head, body),
		"unused x5t":   signES256(t, key, with(head, "x5t", "AAAA"), body),
		"unused claim": signES256(t, key, head, with(body, "scope", "all")),
	} {
		if _, err := s.VerifyAccess(t.Context(), raw); err != nil {
			t.Errorf("%s: %v; the forgeries prove nothing", name, err)
		}
	}
}

func TestATokenEndsAtItsExpiry(t *testing.T) {
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
	raw, err := s.IssueAccess(f.Context(), someClaims())
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
