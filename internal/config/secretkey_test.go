package config_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/config"
)

// complaints are what serve says of a secret key.
func complaints(key string) string {
	c := config.Config{DatabaseURL: "postgres://x", URL: "https://api.example.com", SecretKey: key}
	return strings.Join(c.ServeErrors(), "\n")
}

func TestASecretKeyThatCanBeGuessedIsRefused(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"changemechangemechangemechangeme":                 "placeholder",
		"Change_Me 0123 change-this key 987654 qwz":        "placeholder",
		"please-replace-me-with-something-longer":          "placeholder",
		"waypost-waypost-waypost-waypost-waypost-":         "repeats words",
		"waypostWAYPOSTWaypostwaypostWAYPOSTWaypost":       "repeats words",
		"correct horse correct horse correct horse":        "repeats words",
		"secret1secret2secret3secret4secret5secret6":       "repeats words",
		"0123456789abcdef0123456789abcdef":                 "counts up",
		"abcdefghijklmnopqrstuvwxyz0123456789":             "counts up",
		"zyxwvutsrqponmlkjihgfedcba9876543210":             "counts up",
		"ababababababababababababababababababab":           "repeats words",
		"aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb":                 "repeats words",
		strings.Repeat("\x00", 64):                         "one character",
		strings.Repeat("0123456789abcdefghijklmnopqrs", 9): "counts up",
	} {
		said := complaints(key)
		if !strings.Contains(said, "WAYPOST_SECRET_KEY is weak") || !strings.Contains(said, want) || !strings.Contains(said, "openssl rand") {
			t.Errorf("%q: %q, want %q", key, said, want)
		}
		if strings.Contains(said, key) {
			t.Errorf("the key is quoted: %q", said)
		}
	}
}

func TestARandomSecretKeyAndAPassphraseAreTaken(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"a secret key for tests, longer than 32 bytes", "quite another key for tests, longer than 32 bytes",
		"plumage Ankara twelve quince hovercraft doze",
	} {
		if said := complaints(key); said != "" {
			t.Errorf("%q: %s", key, said)
		}
	}
	for range 2000 {
		b := make([]byte, 48)
		_, _ = rand.Read(b)
		for _, key := range []string{hex.EncodeToString(b[:16]), hex.EncodeToString(b), base64.StdEncoding.EncodeToString(b[:24]), base64.StdEncoding.EncodeToString(b), string(b[:32])} {
			if said := complaints(key); said != "" {
				t.Fatalf("%q: %s", key, said)
			}
		}
	}
}
