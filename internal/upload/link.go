package upload

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// Bounds of a link's life in seconds.
const (
	MinLink = 1
	MaxLink = 86_400
)

// signer signs addresses with a key that HKDF-SHA256 (RFC 5869) derives from the
// operator's secret key, and knows the one before.
type signer struct{ keys [][]byte }

func newSigner(current, previous []byte) (signer, error) {
	var s signer
	for _, secret := range [][]byte{current, previous} {
		if len(secret) == 0 && len(s.keys) > 0 {
			break
		}
		if len(secret) < seal.MinSecretKey {
			return signer{}, fmt.Errorf("upload: a secret key is shorter than %d bytes", seal.MinSecretKey)
		}
		key, err := hkdf.Key(sha256.New, secret, nil, "waypost upload links v1", sha256.Size)
		if err != nil {
			return signer{}, fmt.Errorf("upload: derive the key of links: %w", err)
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// What a ticket is for.
const (
	forReading = "read"
	forWriting = "write"
)

// ticket lets whoever has it read or write the bytes of one file until it expires.
type ticket struct {
	id      int64
	purpose string
	expires time.Time // in whole seconds
	// bytes tells which bytes may be read: the beginning of their SHA-256. It is empty
	// in a ticket to write.
	bytes []byte
}

// tagSize is how much of a checksum a ticket holds, in bytes.
const tagSize = 16

// mac is HMAC-SHA256 over all fields, each behind its length (RFC 2104).
func (t ticket) mac(key []byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, field := range [][]byte{[]byte(t.purpose), binary.BigEndian.AppendUint64(nil, uint64(t.id)), binary.BigEndian.AppendUint64(nil, uint64(t.expires.Unix())), t.bytes} {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field)))) // never fails
		_, _ = h.Write(field)
	}
	return h.Sum(nil)
}

var encoding = base64.RawURLEncoding.Strict()

// sign is the ticket as it stands in an address.
func (s signer) sign(t ticket) string {
	return strconv.FormatInt(t.expires.Unix(), 10) + "." + encoding.EncodeToString(t.bytes) + "." + encoding.EncodeToString(t.mac(s.keys[0]))
}

// open reads a ticket of that purpose, or returns ErrLink.
func (s signer) open(signed, purpose string, id int64, now time.Time) (ticket, error) {
	parts := strings.Split(signed, ".")
	if len(parts) != 3 {
		return ticket{}, ErrLink
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	tag, tagErr := encoding.DecodeString(parts[1])
	mac, macErr := encoding.DecodeString(parts[2])
	if err := errors.Join(err, tagErr, macErr); err != nil {
		return ticket{}, ErrLink.Because(err)
	}
	t := ticket{id: id, purpose: purpose, expires: time.Unix(seconds, 0), bytes: tag}
	for _, key := range s.keys {
		if hmac.Equal(mac, t.mac(key)) && now.Before(t.expires) {
			return t, nil
		}
	}
	return ticket{}, ErrLink
}

// Link is an address by which everybody can read a file until it expires.
type Link struct {
	URL       string
	ExpiresAt time.Time
}

// MakeLink makes a link to the bytes of a file, for its owner or an ADMIN, that is good
// for so many seconds, and notes it in the audit log. It returns the errors of Find,
// ErrNoUpload also for a pending file, and a validation fault keyed by expires_in.
func (s *Service) MakeLink(ctx context.Context, id int64, seconds int64) (Link, error) {
	if seconds < MinLink || seconds > MaxLink {
		return Link{}, fault.Validation(map[string]string{"expires_in": "Must be 1 to 86400 seconds."})
	}
	row, err := s.find(ctx, id)
	if err != nil {
		return Link{}, err
	}
	if Status(row.Status) != Ready {
		return Link{}, ErrNoUpload
	}
	// A whole second more than asked for at most, and never less.
	expires := s.o.Now().Add(time.Duration(seconds)*time.Second + time.Second - 1).Truncate(time.Second).UTC()
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "uploads", strconv.FormatInt(id, 10), map[string]any{"link_expires_at": expires})
	})
	if err != nil {
		return Link{}, err
	}
	signed := s.signer.sign(ticket{id: id, purpose: forReading, expires: expires, bytes: row.Sha256[:tagSize]})
	return Link{URL: s.contentURL(id) + "?link=" + signed, ExpiresAt: expires}, nil
}

// contentURL is where a file's bytes are.
func (s *Service) contentURL(id int64) string {
	return s.o.BaseURL + "/api/uploads/" + strconv.FormatInt(id, 10) + "/content"
}

// names reports whether the ticket is for bytes with that checksum.
func (t ticket) names(sum []byte) bool {
	return len(t.bytes) == tagSize && len(sum) == sha256.Size && bytes.Equal(t.bytes, sum[:tagSize])
}
