package site

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
)

// Both sorts of keys carry their site's id in clear, so that a lookup needs no
// index over all sites' keys:
//
//	public  wps_<16 random characters>_<site id, 32 hexadecimal digits>
//	secret  wpr_<52 random characters>_<site id>, or wpi_ for scope ingest
const (
	publicPrefix  = "wps_"
	publicRandom  = 10 // bytes
	secretRandom  = 32 // bytes
	visiblePrefix = len("wpr_") + 8
)

var secretPrefixes = map[Scope]string{ScopeRead: "wpr_", ScopeIngest: "wpi_"}

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func newToken(random io.Reader, prefix string, size int, id uuid.UUID) (string, error) {
	secret, err := randomBytes(random, size)
	if err != nil {
		return "", err
	}
	return prefix + base32Lower.EncodeToString(secret) + "_" + hex.EncodeToString(id[:]), nil
}

func randomBytes(random io.Reader, size int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fmt.Errorf("site: randomness: %w", err)
	}
	return b, nil
}

// siteOf returns the site that a key with one of prefixes names.
func siteOf(key string, prefixes ...string) (uuid.UUID, bool) {
	known := false
	for _, p := range prefixes {
		known = known || strings.HasPrefix(key, p)
	}
	at := strings.LastIndexByte(key, '_')
	if !known || len(key) > 128 || len(key)-at-1 != hex.EncodedLen(len(uuid.UUID{})) {
		return uuid.UUID{}, false
	}
	var id uuid.UUID
	_, err := hex.Decode(id[:], []byte(key[at+1:]))
	return id, err == nil
}

// digest is what is stored of a secret. The secret has 256 random bits, so a
// plain hash cannot be searched.
func digest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
