package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waypost/waypost/db/dbsqlc"
)

// Entry is one entry of the log, in its JSON form: bytes are lower-case hex.
type Entry struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"` // of writing, in UTC, whole microseconds
	ActorType string    `json:"actor_type"`
	ActorID   *string   `json:"actor_id"`
	SessionID *string   `json:"session_id"`
	IP        *string   `json:"ip"`
	RequestID *string   `json:"request_id"`
	Action    *string   `json:"action"`
	Op        string    `json:"op"`
	Table     *string   `json:"table"`
	RowID     *string   `json:"row_id"`
	// Salt and Changes are nil once they were emptied. Changes is JSON text.
	Salt          *string `json:"salt"`
	Changes       *string `json:"changes"`
	ChangesDigest string  `json:"changes_digest"`
	PrevHash      string  `json:"prev_hash"`
	Hash          string  `json:"hash"`
}

// timeLayout is RFC 3339 in UTC with six digits of a second.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON writes the time with all six digits of a second.
func (e Entry) MarshalJSON() ([]byte, error) {
	type fields Entry
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Seq int64  `json:"seq"`
		At  string `json:"at"`
		fields
	}{e.Seq, e.At.UTC().Format(timeLayout), fields(e)})
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// ComputeHash returns the hash that the entry's fields give, by the layout audit.v1.
// It returns an error when one that should be hex is not.
func (e Entry) ComputeHash() ([32]byte, error) {
	r, err := e.record()
	if err != nil {
		return [32]byte{}, err
	}
	return hashOf(&r, nil), nil
}

func entryOf(r dbsqlc.AuditLog) Entry {
	e := Entry{
		Seq: r.Seq, At: r.At.UTC(), ActorType: r.ActorType, ActorID: r.ActorID, SessionID: r.SessionID, IP: r.Ip, RequestID: r.RequestID,
		Action: r.Action, Op: r.Op, Table: r.TableName, RowID: r.RowID, Changes: r.Changes,
		ChangesDigest: hex.EncodeToString(r.ChangesDigest), PrevHash: hex.EncodeToString(r.PrevHash), Hash: hex.EncodeToString(r.Hash),
	}
	if r.Salt != nil {
		salt := hex.EncodeToString(r.Salt)
		e.Salt = &salt
	}
	return e
}

// record is the entry as the database has it.
func (e Entry) record() (dbsqlc.AuditLog, error) {
	r := dbsqlc.AuditLog{
		Seq: e.Seq, At: e.At, ActorType: e.ActorType, ActorID: e.ActorID, SessionID: e.SessionID, Ip: e.IP, RequestID: e.RequestID,
		Action: e.Action, Op: e.Op, TableName: e.Table, RowID: e.RowID, Changes: e.Changes,
	}
	var err error
	for _, field := range []struct {
		name string
		text *string
		to   *[]byte
	}{
		{"salt", e.Salt, &r.Salt}, {"changes_digest", &e.ChangesDigest, &r.ChangesDigest},
		{"prev_hash", &e.PrevHash, &r.PrevHash}, {"hash", &e.Hash, &r.Hash},
	} {
		if field.text == nil {
			continue
		}
		if *field.to, err = hex.DecodeString(*field.text); err != nil {
			return r, fmt.Errorf("audit: entry %d: %s is not hex", e.Seq, field.name)
		}
	}
	return r, nil
}

// hashOf is the hash that r's fields give. It writes what is hashed to buffer, which
// may be nil.
func hashOf(r *dbsqlc.AuditLog, buffer []byte) [32]byte {
	b := append(buffer[:0], 0)
	b = appendLP(b, []byte("audit.v1"))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixMicro()))
	for _, text := range [...]*string{&r.ActorType, r.ActorID, r.SessionID, r.Ip, r.RequestID, r.Action, &r.Op, r.TableName, r.RowID} {
		if text == nil {
			b = append(b, 0)
			continue
		}
		b = appendLP(append(b, 1), []byte(*text))
	}
	b = appendLP(b, r.ChangesDigest)
	b = appendLP(b, r.PrevHash)
	return sha256.Sum256(b)
}

// appendLP appends x behind its length in four bytes.
func appendLP(b, x []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(x))), x...)
}

// emptied reports whether what r says was emptied.
func emptied(r *dbsqlc.AuditLog) bool { return r.Salt == nil && r.Changes == nil }

// digestFits reports whether the digest is that of salt and changes.
func digestFits(salt []byte, changes *string, digest []byte) bool {
	if salt == nil || changes == nil {
		return false
	}
	h := sha256.New()
	h.Write(salt)
	h.Write([]byte(*changes))
	return bytes.Equal(h.Sum(nil), digest)
}

// genesis is the prev_hash of the first entry.
func genesis(installID string) [32]byte { return sha256.Sum256([]byte("audit.v1:" + installID)) }
