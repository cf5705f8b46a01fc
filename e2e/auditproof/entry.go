package auditproof

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Entry is a line of an export.
type Entry struct {
	Seq           int64   `json:"seq"`
	At            string  `json:"at"`
	ActorType     *string `json:"actor_type"`
	ActorID       *string `json:"actor_id"`
	SessionID     *string `json:"session_id"`
	IP            *string `json:"ip"`
	RequestID     *string `json:"request_id"`
	Action        *string `json:"action"`
	Op            string  `json:"op"`
	Table         *string `json:"table"`
	RowID         *string `json:"row_id"`
	Salt          *string `json:"salt"`
	Changes       *string `json:"changes"`
	ChangesDigest string  `json:"changes_digest"`
	PrevHash      string  `json:"prev_hash"`
	Hash          string  `json:"hash"`
}

// ComputeHash is the hash that the entry should have, in hex, or an error when a
// field is none of its kind.
func (e Entry) ComputeHash() (string, error) {
	at, err := time.Parse(time.RFC3339Nano, e.At)
	if err != nil {
		return "", fmt.Errorf("auditproof: at: %w", err)
	}
	if at.Nanosecond()%1000 != 0 {
		return "", fmt.Errorf("auditproof: at: %s is finer than a microsecond", e.At)
	}
	digest, err := digestOf(e.ChangesDigest)
	if err != nil {
		return "", err
	}
	before, err := digestOf(e.PrevHash)
	if err != nil {
		return "", err
	}
	m := lengthAndBytes([]byte{0}, "audit.v1")
	m = binary.BigEndian.AppendUint64(m, uint64(e.Seq))
	m = binary.BigEndian.AppendUint64(m, uint64(at.UnixMicro()))
	for _, text := range []*string{e.ActorType, e.ActorID, e.SessionID, e.IP, e.RequestID, e.Action, &e.Op, e.Table, e.RowID} {
		if text == nil {
			m = append(m, 0)
		} else {
			m = lengthAndBytes(append(m, 1), *text)
		}
	}
	m = lengthAndBytes(m, digest)
	m = lengthAndBytes(m, before)
	return sum(m), nil
}

// leaf is the entry's hash as the tree's leaf.
func (e Entry) leaf() []byte {
	raw, _ := hex.DecodeString(e.Hash) // it equals a computed one
	return raw
}

// contentsHold reports whether salt and changes give the digest, or were emptied as
// a note says.
func (e Entry) contentsHold(allowed func(int64) bool) bool {
	if e.Salt == nil && e.Changes == nil {
		return allowed(e.Seq)
	}
	if e.Salt == nil || e.Changes == nil {
		return false
	}
	salt, err := hex.DecodeString(*e.Salt)
	return err == nil && *e.Salt == strings.ToLower(*e.Salt) && sum(append(salt, *e.Changes...)) == e.ChangesDigest
}

// intact reports whether the entry, by itself, is as it was written.
func (e Entry) intact() bool {
	hash, err := e.ComputeHash()
	return err == nil && hash == e.Hash && e.contentsHold(func(int64) bool { return false })
}

// genesis is the first entry's prev_hash. The key's name is waypost/ and the
// installation's id.
func genesis(name string) string {
	return sum([]byte("audit.v1:" + strings.TrimPrefix(name, "waypost/")))
}

// Delivery is a row that a batch covers. Status is nil where the batch leaves it out.
type Delivery struct {
	ID, Provider, EventType, ExternalID string
	BodySHA256                          [32]byte
	Status                              *string
}

// BatchDigest is a batch's sha256, in hex, over rows in ascending order of their ids.
func BatchDigest(rows []Delivery) string {
	var m []byte
	for _, r := range rows {
		for _, text := range []string{r.ID, r.Provider, r.EventType, r.ExternalID} {
			m = lengthAndBytes(m, text)
		}
		m = append(m, r.BodySHA256[:]...)
		if r.Status != nil {
			m = lengthAndBytes(m, *r.Status)
		}
	}
	return sum(m)
}

func lengthAndBytes(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(text))), text...)
}

func sum(m []byte) string {
	h := sha256.Sum256(m)
	return hex.EncodeToString(h[:])
}

// digestOf are the 32 bytes of a digest in lower-case hex.
func digestOf(text string) (string, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size || text != strings.ToLower(text) {
		return "", fmt.Errorf("auditproof: %q is no digest", text)
	}
	return string(raw), nil
}
