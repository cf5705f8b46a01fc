package export

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/uuid"
)

// namespace of the ids (RFC 9562, section 5.5), itself made from a name.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:waypost:export"))

// postmanID is the same for the same thing in every export.
func postmanID(kind, key string) string {
	return uuid.NewSHA1(namespace, []byte(kind+" "+key)).String()
}

// insomniaID is a prefix that says what it is an id of, and 32 digits as the
// application makes them.
func insomniaID(prefix, key string) string {
	sum := sha256.Sum256([]byte(prefix + " " + key))
	return prefix + "_" + hex.EncodeToString(sum[:16])
}
