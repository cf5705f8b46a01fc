package signature

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Digest names the hash function of an HMAC; "" is SHA256.
type Digest string

// The digests. SHA-1 is for providers that have nothing better: an HMAC is not
// broken by collisions of its hash function.
const (
	SHA1   Digest = "sha1"
	SHA256 Digest = "sha256"
	SHA512 Digest = "sha512"
)

// Encoding says how bytes are written in a header; "" is Hex. Hex is read in either
// case, Base64 is the padded one of RFC 4648, section 4.
type Encoding string

// The encodings.
const (
	Hex    Encoding = "hex"
	Base64 Encoding = "base64"
)

// Key says what a secret is; "" is TextKey.
type Key string

// The kinds of key: the text of the secret as it stands, or the bytes that it is the
// base64 of, with or without whsec_ before it and padding behind it.
const (
	TextKey   Key = "text"
	Base64Key Key = "base64"
)

const (
	// defaultTolerance is how far a timestamp may lie from now in either direction. A
	// future one would stay good to replay for as long.
	defaultTolerance = 5 * time.Minute
	maxTolerance     = 24 * time.Hour
	// maxCandidates is how many sums of one header are tried.
	maxCandidates = 16
)

// Scheme is any signature that is an HMAC (RFC 2104) in a header. With its header
// alone it is the hexadecimal HMAC-SHA256 of the body.
//
// Its members are what the configuration file calls them, and presets are nothing but
// values of it.
type Scheme struct {
	Header   string // with the signature
	Digest   Digest
	Encoding Encoding // of the sum
	// Prefix is what precedes the sum, exactly: "sha256=".
	Prefix string
	// Separator stands between the parts of a header that has several; one part with
	// Prefix and a good sum is enough, and parts without Prefix are ignored. When it is
	// empty, the whole header is one part.
	Separator string
	// Template is what the HMAC is of, such as "{timestamp}.{body}"; empty is "{body}".
	// The placeholders are {body}, the bytes as they came, {timestamp} and {id}.
	Template string
	// The timestamp is the part of Header with TimestampPrefix, the header
	// TimestampHeader, or the member TimestampField of the body, which is a JSON object;
	// at most one is set. Milliseconds says that it doesn't count seconds.
	TimestampPrefix, TimestampHeader, TimestampField string
	Milliseconds                                     bool
	// Tolerance is how far the timestamp may lie from now, in whole seconds and in either
	// direction; 0 is five minutes.
	Tolerance time.Duration
	IDHeader  string // with the event's id, when Template covers it
	Key       Key
}

// sent is what a delivery says of its signature.
type sent struct {
	candidates    []string // sums, encoded
	timestamp, id string   // literally
}

// Headers names the headers that carry the signature: only the sums are secret.
func (s Scheme) Headers() []string { return []string{s.Header} }

// Verify returns nil, or one of the package's errors.
func (s Scheme) Verify(secret, body []byte, h http.Header, now time.Time) error {
	key, err := s.key(secret)
	if err != nil {
		return err
	}
	got, err := s.read(h)
	if err != nil {
		return err
	}
	if s.TimestampPrefix != "" || s.TimestampHeader != "" {
		if err := s.checkTime(got.timestamp, now); err != nil {
			return err
		}
	}
	want := s.sum(key, got.timestamp, got.id, body)
	matches, readable := false, false
	for _, c := range got.candidates {
		if b, ok := s.decode(c); ok {
			readable = true
			matches = matches || hmac.Equal(b, want)
		}
	}
	switch {
	case !matches && !readable && s.Separator == "":
		return ErrMalformed
	case !matches:
		return ErrMismatch
	case s.TimestampField != "":
		t, err := timestampOf(body, s.TimestampField)
		if err != nil {
			return err
		}
		return s.checkTime(t, now)
	}
	return nil
}

// read takes the headers apart. Each must be sent once.
func (s Scheme) read(h http.Header) (sent, error) {
	var got sent
	var err error
	if s.IDHeader != "" {
		if got.id, err = only(h, s.IDHeader); err != nil {
			return sent{}, err
		}
		if s.ambiguous(got.id) {
			return sent{}, ErrMalformed
		}
	}
	if s.TimestampHeader != "" {
		if got.timestamp, err = only(h, s.TimestampHeader); err != nil {
			return sent{}, err
		}
	}
	value, err := only(h, s.Header)
	if err != nil {
		return sent{}, err
	}
	err = s.parse(value, &got)
	return got, err
}

// parse reads the value of Header: at least one sum, and exactly one timestamp where
// that is a part of it.
func (s Scheme) parse(value string, got *sent) error {
	parts := func(yield func(string) bool) { yield(value) }
	if s.Separator != "" {
		parts = strings.SplitSeq(value, s.Separator)
	}
	for part := range parts {
		if t, ok := strings.CutPrefix(part, s.TimestampPrefix); ok && s.TimestampPrefix != "" {
			if got.timestamp != "" || t == "" {
				return ErrMalformed
			}
			got.timestamp = t
			continue
		}
		if part == "" && s.TimestampPrefix != "" {
			return ErrMalformed
		}
		if sum, ok := strings.CutPrefix(part, s.Prefix); ok && len(got.candidates) < maxCandidates {
			got.candidates = append(got.candidates, sum)
		}
	}
	if len(got.candidates) == 0 || s.TimestampPrefix != "" && got.timestamp == "" {
		return ErrMalformed
	}
	return nil
}

// checkTime holds a timestamp against the tolerance.
func (s Scheme) checkTime(t string, now time.Time) error {
	at, err := parseTime(t)
	if err != nil {
		return err
	}
	if s.Milliseconds {
		at /= 1000
	}
	// Both are at least 0 in any year that a clock shows: the difference can't overflow.
	within := int64(cmp.Or(s.Tolerance, defaultTolerance) / time.Second)
	switch age := now.Unix() - at; {
	case age > within:
		return ErrTooOld
	case age < -within:
		return ErrTooNew
	}
	return nil
}

// parseTime reads a canonical decimal: digits only, no leading zero. The HMAC covers
// the text, so two spellings of one time must not both be good.
func parseTime(t string) (int64, error) {
	if t == "" || t[0] == '0' && len(t) > 1 || strings.Trim(t, "0123456789") != "" {
		return 0, ErrMalformed
	}
	at, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return 0, ErrMalformed
	}
	return at, nil
}

// Sign sets the headers as the provider would at the time now; an id that h has
// already stays. With a secret that is no key it sets no signature. A TimestampField
// is the body's, so it must be there already: see Stamp.
func (s Scheme) Sign(secret, body []byte, h http.Header, now time.Time) {
	s.SignAll(h, body, now, secret)
}

// SignAll signs with several secrets, as a provider does while it rotates them: each
// that is a key has its sum in the header. Without a Separator there is room for one.
func (s Scheme) SignAll(h http.Header, body []byte, now time.Time, secrets ...[]byte) {
	at := strconv.FormatInt(s.stamp(now), 10)
	var parts []string
	if s.TimestampPrefix != "" {
		parts = append(parts, s.TimestampPrefix+at)
	}
	signed := false
	for _, secret := range secrets {
		key, err := s.key(secret)
		if err != nil || signed && s.Separator == "" {
			continue
		}
		signed = true
		parts = append(parts, s.Prefix+s.encode(s.sum(key, at, h.Get(s.IDHeader), body)))
	}
	if !signed {
		return
	}
	if s.TimestampHeader != "" {
		h.Set(s.TimestampHeader, at)
	}
	h.Set(s.Header, strings.Join(parts, s.Separator))
}

// stamp is now as the scheme counts.
func (s Scheme) stamp(now time.Time) int64 {
	if s.Milliseconds {
		return now.UnixMilli()
	}
	return now.Unix()
}

// CheckSecret returns ErrNoSecret or ErrBadSecret for a secret that is no key.
func (s Scheme) CheckSecret(secret []byte) error {
	_, err := s.key(secret)
	return err
}

// key is what the HMAC is keyed with. Padding is optional: operators paste what a
// provider shows them.
func (s Scheme) key(secret []byte) ([]byte, error) {
	if s.Key != Base64Key {
		if len(secret) == 0 {
			return nil, ErrNoSecret
		}
		return secret, nil
	}
	text := strings.TrimRight(strings.TrimPrefix(string(secret), "whsec_"), "=")
	if text == "" {
		return nil, ErrNoSecret
	}
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, ErrBadSecret
	}
	return key, nil
}

// sum is the HMAC of the template with its placeholders filled in.
func (s Scheme) sum(key []byte, timestamp, id string, body []byte) []byte {
	mac := hmac.New(s.hash(), key)
	for literal, name := range pieces(s.template()) {
		mac.Write([]byte(literal))
		switch name {
		case placeTimestamp:
			mac.Write([]byte(timestamp))
		case placeID:
			mac.Write([]byte(id))
		case placeBody:
			mac.Write(body)
		}
	}
	return mac.Sum(nil)
}

func (s Scheme) hash() func() hash.Hash {
	switch s.Digest {
	case SHA1:
		return sha1.New
	case SHA512:
		return sha512.New
	}
	return sha256.New
}

// size is the length of a sum in bytes.
func (s Scheme) size() int {
	switch s.Digest {
	case SHA1:
		return sha1.Size
	case SHA512:
		return sha512.Size
	}
	return sha256.Size
}

func (s Scheme) encode(sum []byte) string {
	if s.Encoding == Base64 {
		return base64.StdEncoding.EncodeToString(sum)
	}
	return hex.EncodeToString(sum)
}

// decode reads a sum of exactly the digest's length. Base64 has one spelling for it:
// decoding would skip line ends, which don't fit into the length.
func (s Scheme) decode(text string) ([]byte, bool) {
	size := s.size()
	if s.Encoding == Base64 {
		if len(text) != base64.StdEncoding.EncodedLen(size) {
			return nil, false
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		return b, err == nil && len(b) == size
	}
	if len(text) != hex.EncodedLen(size) {
		return nil, false
	}
	b, err := hex.DecodeString(text)
	return b, err == nil
}
