package token_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/token"
)

const issuer = "https://waypost.example"

func secret(fill byte) []byte { return bytes.Repeat([]byte{fill}, token.MinSecretKey) }

func newService(t *testing.T, d *db.DB, change func(*token.Options)) *token.Service {
	t.Helper()
	o := token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')}
	if change != nil {
		change(&o)
	}
	s, err := token.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func someClaims() token.Claims {
	return token.Claims{UserID: 7, SessionID: uuid.New(), Role: identity.Editor}
}

func issue(t *testing.T, s *token.Service, c token.Claims) string {
	t.Helper()
	raw, err := s.IssueAccess(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestATokenGivesBackItsClaims(t *testing.T) {
	t.Parallel()
	s := newService(t, dbtest.New(t), nil)
	want := someClaims()
	got, err := s.VerifyAccess(t.Context(), issue(t, s, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if first, second := issue(t, s, want), issue(t, s, want); first == second {
		t.Error("two tokens are equal: no jti")
	}
}

func TestTheKeyOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	raw := issue(t, newService(t, d, nil), someClaims())
	if _, err := newService(t, d, nil).VerifyAccess(t.Context(), raw); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestInstancesThatStartAtOnceCreateOneKey(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	const n = 8
	services := make([]*token.Service, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if services[i], err = token.New(t.Context(), token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	var keys int
	if err := d.Pool().QueryRow(t.Context(), `select count(*) from signing_keys`).Scan(&keys); err != nil {
		t.Fatal(err)
	}
	if keys != 1 {
		t.Errorf("%d keys were created", keys)
	}
	raw := issue(t, services[0], someClaims())
	for i, s := range services {
		if _, err := s.VerifyAccess(t.Context(), raw); err != nil {
			t.Errorf("instance %d refuses the token of instance 0: %v", i, err)
		}
	}
}

func TestAnotherSecretKeyIsAStartUpErrorUnlessThePreviousOneIsGiven(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	raw := issue(t, newService(t, d, nil), someClaims())

	_, err := token.New(t.Context(), token.Options{DB: d, Issuer: issuer, SecretKey: secret('n')})
	if !errors.Is(err, token.ErrSecretKey) {
		t.Fatalf("another secret key: %v, want ErrSecretKey", err)
	}
	rotated := newService(t, d, func(o *token.Options) { o.SecretKey, o.PreviousSecretKey = secret('n'), secret('k') })
	if _, err := rotated.VerifyAccess(t.Context(), raw); err != nil {
		t.Errorf("with the previous key given: %v", err)
	}
	// That start has encrypted the key anew, so the previous one can be dropped.
	alone := newService(t, d, func(o *token.Options) { o.SecretKey = secret('n') })
	if _, err := alone.VerifyAccess(t.Context(), raw); err != nil {
		t.Errorf("with the new key alone: %v", err)
	}
	if _, err := token.New(t.Context(), token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')}); !errors.Is(err, token.ErrSecretKey) {
		t.Errorf("the old key alone: %v, want ErrSecretKey", err)
	}
}

func TestATamperedStoredKeyIsAStartUpError(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	newService(t, d, nil)
	if _, err := d.Single(identity.System("test")).Exec(t.Context(), `update signing_keys set private_key = set_byte(private_key, 20, get_byte(private_key, 20) # 1)`); err != nil {
		t.Fatal(err)
	}
	_, err := token.New(t.Context(), token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')})
	if !errors.Is(err, token.ErrSecretKey) {
		t.Errorf("error is %v, want ErrSecretKey", err)
	}
}

func TestWeakOptionsAreRefused(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	good := token.Options{DB: d, Issuer: issuer, SecretKey: secret('k')}
	for name, change := range map[string]func(*token.Options){
		"no database":        func(o *token.Options) { o.DB = nil },
		"no issuer":          func(o *token.Options) { o.Issuer = "" },
		"short key":          func(o *token.Options) { o.SecretKey = o.SecretKey[1:] },
		"short previous key": func(o *token.Options) { o.PreviousSecretKey = []byte("short") },
	} {
		o := good
		change(&o)
		if _, err := token.New(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestThePrivateKeyIsNotStoredInClear(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	random := &recorder{}
	newService(t, d, func(o *token.Options) { o.Random = random })
	var stored, public []byte
	if err := d.Pool().QueryRow(t.Context(), `select private_key, public_key from signing_keys`).Scan(&stored, &public); err != nil {
		t.Fatal(err)
	}
	// PKCS #8 of an EC key carries the public point, which ends the SPKI.
	if point := public[len(public)-64:]; bytes.Contains(stored, point) {
		t.Error("the stored private key holds the public point in clear")
	}
	if !bytes.HasPrefix(stored, random.read[:12]) {
		t.Error("the nonce does not come from Options.Random")
	}
}

func TestJWKSHoldsOnlyPublicMembers(t *testing.T) {
	t.Parallel()
	s := newService(t, dbtest.New(t), nil)
	raw, err := s.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 1 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	key := set.Keys[0]
	if key["kid"] != header(t, issue(t, s, someClaims()))["kid"] {
		t.Error("the tokens' kid is not in the set")
	}
	for name := range key {
		switch name {
		case "kty", "crv", "x", "y", "kid", "alg", "use":
		default:
			t.Errorf("member %q", name)
		}
	}
}

// recorder is a random source that remembers what it gave.
type recorder struct{ read []byte }

func (r *recorder) Read(p []byte) (int, error) {
	n, err := rand.Read(p)
	r.read = append(r.read, p[:n]...)
	return n, err
}

// clock is a settable time.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }
