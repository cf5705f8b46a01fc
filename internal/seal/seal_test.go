package seal_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/seal"
)

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, seal.MinSecretKey) }

func keyring(t interface {
	Helper()
	Fatal(...any)
}, purpose string, current, previous []byte) *seal.Keyring {
	t.Helper()
	k, err := seal.New(purpose, current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatIsSealedOpensUnderItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	k := keyring(t, "test", secret('a'), nil)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		name := rapid.String().Draw(t, "name")
		s, err := k.Seal(plain, name, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Open(s, name); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %x, %v", got, err)
		}
		if _, err := k.Open(s, name+"x"); !errors.Is(err, seal.ErrCorrupt) {
			t.Fatalf("under another name: %v", err)
		}
		at := rapid.IntRange(0, len(s.Box)-1).Draw(t, "at")
		s.Box[at] ^= 1
		if _, err := k.Open(s, name); !errors.Is(err, seal.ErrCorrupt) {
			t.Fatalf("with bit %d turned: %v", at, err)
		}
		if _, err := k.Open(seal.Sealed{KeyID: s.KeyID, Box: s.Box[:at]}, name); !errors.Is(err, seal.ErrCorrupt) {
			t.Fatalf("cut to %d: %v", at, err)
		}
	})
}

func TestAKeyIsRotatedWithThePreviousOneAtHand(t *testing.T) {
	t.Parallel()
	old := keyring(t, "test", secret('a'), nil)
	s, err := old.Seal([]byte("plain"), "row 1", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rotating := keyring(t, "test", secret('b'), secret('a'))
	if got, err := rotating.Open(s, "row 1"); err != nil || string(got) != "plain" || !rotating.Stale(s) || old.Stale(s) {
		t.Errorf("%q, %v, stale %v", got, err, rotating.Stale(s))
	}
	anew, err := rotating.Seal([]byte("plain"), "row 1", rand.Reader)
	if err != nil || rotating.Stale(anew) {
		t.Errorf("%v, stale %v", err, rotating.Stale(anew))
	}
	rotated := keyring(t, "test", secret('b'), nil)
	if _, err := rotated.Open(anew, "row 1"); err != nil {
		t.Error(err)
	}
	if _, err := rotated.Open(s, "row 1"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("the dropped key's: %v", err)
	}
}

func TestPurposesShareNoKey(t *testing.T) {
	t.Parallel()
	s, err := keyring(t, "one", secret('a'), nil).Seal([]byte("plain"), "row", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyring(t, "two", secret('a'), nil).Open(s, "row"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("opened for another purpose: %v", err)
	}
}

func TestAShortSecretKeyIsRefused(t *testing.T) {
	t.Parallel()
	for _, keys := range [][2][]byte{{nil, nil}, {secret('a')[1:], nil}, {secret('a'), []byte("short")}} {
		if _, err := seal.New("test", keys[0], keys[1]); err == nil {
			t.Errorf("%d and %d bytes were taken", len(keys[0]), len(keys[1]))
		}
	}
}
