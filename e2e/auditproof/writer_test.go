package auditproof_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/auditproof"
)

const (
	install = "5f0c1e9a-3d57-4b86-9d2e-7a1c64c0b8f3"
	origin  = "waypost/" + install
)

// log is a made-up chain, written by the document with code of its own.
type log []auditproof.Entry

func str(s string) *string { return &s }

// newLog has n entries of all sorts. The first tenth was emptied by retention, and
// one row later on was erased; two notes after four fifths say so.
func newLog(n int) log {
	random := rand.New(rand.NewPCG(12, 10))
	l := make(log, 0, n)
	for i := range n {
		e := auditproof.Entry{
			At:        time.Date(2026, 12, 1, 9, 30, 0, i*1000*random.IntN(100_000), time.UTC).Format(time.RFC3339Nano),
			ActorType: str([]string{"user", "token", "job", "cli", "system", "webhook", "anonymous"}[random.IntN(7)]),
			Op:        "insert", Table: str("posts"), RowID: str(strconv.Itoa(i)),
			Changes: str(fmt.Sprintf(`{"new": {"id": %d, "title": "Zoë %d"}}`, i, random.Uint64())),
		}
		if random.IntN(2) == 0 {
			e.ActorID, e.SessionID, e.IP = str(strconv.Itoa(random.IntN(50))), str(install), str("2001:db8::1")
			e.RequestID, e.Action = str(fmt.Sprintf("%016x", random.Uint64())), str("create-post")
		}
		switch random.IntN(5) {
		case 0:
			e.Op, e.Changes = "update", str(`{"new": {"title": ""}, "old": {"title": "`+strings.Repeat("a", random.IntN(300))+`"}}`)
		case 1:
			e.Op, e.Changes = "delete", str(`{"old": {"id": 1, "password_hash": "[redacted]"}}`)
		case 2:
			e.Op, e.Table, e.RowID, e.Changes = "batch", str("webhook_events"), nil, str(`{"new": {"ids": [], "rows": 0, "sha256": ""}}`)
		case 3:
			e.Op, e.RowID, e.Changes = "note", str(""), str(`{"note": {"what": "emptied", "from_seq": 1, "to_seq": 9999999}}`) // of no consequence: of another table
		}
		l = append(l, e)
	}
	emptied := n / 10
	l[n*4/5] = note(l[n*4/5], fmt.Sprintf(`{"note": {"what": "emptied", "from_seq": 1, "to_seq": %d}}`, emptied))
	l[n*4/5+1] = note(l[n*4/5+1], fmt.Sprintf(`{"note": {"what": "erased", "table": "posts", "row_id": "7", "seqs": [%d, %d]}}`, n/2, n/2+1))
	l.seal(1)
	for i := range l {
		if i < emptied || i == n/2-1 || i == n/2 {
			l[i].Salt, l[i].Changes = nil, nil
		}
	}
	return l
}

func note(e auditproof.Entry, changes string) auditproof.Entry {
	e.Op, e.Table, e.RowID, e.Changes = "note", str("audit_log"), nil, &changes
	return e
}

// seal numbers and hashes the entries from seq on, as whoever owns the database can.
func (l log) seal(from int) {
	for i := from - 1; i < len(l); i++ {
		e := &l[i]
		e.Seq = int64(i + 1)
		if e.Changes != nil {
			salt := sha256.Sum256([]byte(strconv.Itoa(i)))
			e.Salt = str(hex.EncodeToString(salt[:16]))
			e.ChangesDigest = hexSum(string(salt[:16]) + *e.Changes)
		}
		if e.PrevHash = hexSum("audit.v1:" + install); i > 0 {
			e.PrevHash = l[i-1].Hash
		}
		e.Hash = hashed(*e)
	}
}

func hashed(e auditproof.Entry) string {
	var m strings.Builder
	lp := func(s string) {
		_ = binary.Write(&m, binary.BigEndian, uint32(len(s)))
		m.WriteString(s)
	}
	opt := func(s *string) {
		if s == nil {
			m.WriteByte(0)
			return
		}
		m.WriteByte(1)
		lp(*s)
	}
	at, err := time.Parse(time.RFC3339, e.At)
	if err != nil {
		panic(err)
	}
	m.WriteByte(0)
	lp("audit.v1")
	_ = binary.Write(&m, binary.BigEndian, []int64{e.Seq, at.UnixMicro()})
	opt(e.ActorType)
	opt(e.ActorID)
	opt(e.SessionID)
	opt(e.IP)
	opt(e.RequestID)
	opt(e.Action)
	opt(&e.Op)
	opt(e.Table)
	opt(e.RowID)
	lp(unhex(e.ChangesDigest))
	lp(unhex(e.PrevHash))
	return hexSum(m.String())
}

func (l log) export(t testing.TB) string {
	t.Helper()
	var out strings.Builder
	for _, e := range l {
		if err := json.NewEncoder(&out).Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func (l log) clone() log { return slices.Clone(l) }

// signer signs checkpoints.
type signer ed25519.PrivateKey

func newSigner(seed byte) signer {
	return signer(ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize)))
}

func (s signer) public() string {
	return "\x01" + string(ed25519.PrivateKey(s).Public().(ed25519.PublicKey))
}

func (s signer) keyID() string { return unhex(hexSum(origin + "\n" + s.public()))[:4] }

func (s signer) verifierKey() string {
	return fmt.Sprintf("%s+%x+%s", origin, s.keyID(), base64.StdEncoding.EncodeToString([]byte(s.public())))
}

func (s signer) sign(body string) string {
	signature := ed25519.Sign(ed25519.PrivateKey(s), []byte(body))
	return body + "\n— " + origin + " " + base64.StdEncoding.EncodeToString(append([]byte(s.keyID()), signature...)) + "\n"
}

// checkpoint is a note on the first size entries.
func (s signer) checkpoint(l log, size int) string {
	leaves := make([]string, size)
	for i := range leaves {
		leaves[i] = unhex(l[i].Hash)
	}
	return s.sign(fmt.Sprintf("%s\n%d\n%s\n%s\n2026-12-01T10:00:00.000000Z\n", origin, size, base64.StdEncoding.EncodeToString([]byte(rfcRoot(leaves))), l[size-1].Hash))
}

// rfcRoot is RFC 6962, section 2.1, word for word, but for the hash of a leaf.
func rfcRoot(d []string) string {
	switch n := len(d); n {
	case 0:
		return unhex(hexSum(""))
	case 1:
		return d[0]
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		return unhex(hexSum("\x01" + rfcRoot(d[:k]) + rfcRoot(d[k:])))
	}
}

func hexSum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func unhex(s string) string {
	raw, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
