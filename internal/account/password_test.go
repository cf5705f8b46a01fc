package account

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

var cheap = PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}

func newTestHasher(t testing.TB, concurrent int) *hasher {
	t.Helper()
	h, err := newHasher(cheap, concurrent, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAPasswordMatchesItsHashAndNoOther(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringN(MinPassword, MaxPassword, -1).Draw(t, "password")
		other := rapid.StringN(MinPassword, MaxPassword, -1).Draw(t, "other")
		stored, err := h.hash(context.Background(), password, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := h.verify(context.Background(), password, stored, nil); err != nil || !ok {
			t.Fatalf("its own password: %v, %v", ok, err)
		}
		if norm.NFC.String(other) == norm.NFC.String(password) {
			return
		}
		// Ends differ too: nothing is truncated.
		for _, wrong := range []string{other, password + "x", password[:len(password)-1]} {
			if ok, err := h.verify(context.Background(), wrong, stored, nil); err != nil || ok {
				t.Fatalf("%q opens the hash of %q: %v, %v", wrong, password, ok, err)
			}
		}
	})
}

func TestOnePasswordHasManyHashes(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, 1)
	first, err1 := h.hash(t.Context(), "same password", nil)
	second, err2 := h.hash(t.Context(), "same password", nil)
	if err1 != nil || err2 != nil || first == second {
		t.Errorf("%q %v, %q %v", first, err1, second, err2)
	}
}

// The vector is from the reference implementation's own tests (P-H-C/phc-winner-argon2, src/test.c).
func TestAHashFromAnotherImplementationIsUnderstood(t *testing.T) {
	t.Parallel()
	const stored = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	h := newTestHasher(t, 1)
	if ok, err := h.verify(t.Context(), "password", stored, nil); err != nil || !ok {
		t.Errorf("right password: %v, %v", ok, err)
	}
	if ok, err := h.verify(t.Context(), "Password", stored, nil); err != nil || ok {
		t.Errorf("wrong password: %v, %v", ok, err)
	}
}

func TestTheSamePasswordTypedInAnotherUnicodeFormMatches(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, 1)
	stored, err := h.hash(t.Context(), "caf\u00e9 au lait", nil)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.verify(t.Context(), "cafe\u0301 au lait", stored, nil); err != nil || !ok {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestTheDecoyAsksForTheSameWorkAsARealHash(t *testing.T) {
	t.Parallel()
	h := newTestHasher(t, 1)
	decoy, err := parsePHC(h.decoy)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := h.hash(t.Context(), "a password", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePHC(stored)
	if err != nil {
		t.Fatal(err)
	}
	if decoy.cost != p.cost || len(decoy.key) != len(p.key) || len(decoy.salt) != len(p.salt) {
		t.Errorf("decoy %s, real %s", h.decoy, stored)
	}
}

func TestOnlyWellFormedHashesAreParsed(t *testing.T) {
	t.Parallel()
	const salt, key = "c29tZXNhbHQxMjM0", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	good := "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + key
	if _, err := parsePHC(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "$", "plain text", good + "$", " " + good,
		strings.Replace(good, "argon2id", "argon2i", 1),
		strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "m=64", "m=64000000", 1), // would take 61 GiB
		strings.Replace(good, "m=64", "m=4294967360", 1),
		strings.Replace(good, "m=64", "m=7", 1),
		strings.Replace(good, "m=64", "m=064", 1),
		strings.Replace(good, "t=1", "t=0", 1),
		strings.Replace(good, "t=1", "t=99", 1),
		strings.Replace(good, "p=1", "p=0", 1),
		strings.Replace(good, "p=1", "p=257", 1),
		strings.Replace(good, "m=64,t=1", "t=1,m=64", 1),
		strings.Replace(good, salt, "c2FsdA", 1),
		strings.Replace(good, salt, "not base64!", 1),
		strings.Replace(good, key, "", 1),
		strings.Replace(good, key, key+"=", 1),
		strings.Replace(good, key, key[:len(key)-1]+"B", 1), // spare bits set
	} {
		if p, err := parsePHC(bad); err == nil {
			t.Errorf("%q is parsed as %+v", bad, p)
		}
	}
}

func FuzzParsePHC(f *testing.F) {
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQxMjM0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=,t=,p=$$")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePHC(s)
		if err != nil {
			return
		}
		if p.cost.validate() != nil {
			t.Errorf("%q asks for %+v", s, p.cost)
		}
		if diff := cmp.Diff(strings.NewReplacer("\r", "", "\n", "").Replace(s), p.String()); diff != "" {
			t.Errorf("not written as it was read: %s", diff)
		}
	})
}
