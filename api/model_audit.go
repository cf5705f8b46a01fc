package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/audit"
)

// AuditEntry is one entry of the audit log, its members in the order in which they
// are hashed.
type AuditEntry struct {
	Seq           int64     `json:"seq" minimum:"1" example:"42" doc:"The entry's place in the chain: 1, 2, 3 and so on without a gap."`
	At            time.Time `json:"at" example:"2026-01-02T15:04:05.123456Z" doc:"When the entry was written, to the microsecond. Entries get their places a moment later, so at may decrease a little as seq increases."`
	ActorType     string    `json:"actor_type" enum:"user,token,job,cli,system,webhook,anonymous" example:"user" doc:"What sort of actor made the change."`
	ActorID       *string   `json:"actor_id" example:"1" doc:"The account's id, the API token's id, the job's id, the operating system's user, the name of the step, or the provider. Null if nobody is known, or if a batch has several."`
	SessionID     *string   `json:"session_id" example:"3f2c8a4e-51d7-4a0b-9c1e-6d2b7f8a9c10" doc:"The actor's session; null if there is none."`
	IP            *string   `json:"ip" example:"203.0.113.7" doc:"The network address of the request; null if there is none."`
	RequestID     *string   `json:"request_id" example:"5YQ2VJ6X7M3K4N5P6Q7R8S9T2U" doc:"The request's X-Request-Id; null if there is none, or if a batch has several."`
	Action        *string   `json:"action" example:"update-user" doc:"What was done: an operationId, or cli:, job: or system: with the name of the command, the job or the step. Null if unknown."`
	Op            string    `json:"op" enum:"insert,update,delete,batch,note" example:"update" doc:"What happened to the row. A batch covers several rows at once, a note is about something that is no row."`
	Table         *string   `json:"table" example:"users" doc:"The table; null if a note is about none."`
	RowID         *string   `json:"row_id" example:"7" doc:"The row's key. The parts of a composite key are joined by /, and of a secret key there are only the first 8 hexadecimal digits of its digest. Null if the entry is not about a single row."`
	Salt          *string   `json:"salt" pattern:"^[0-9a-f]*$" example:"6f1d2a3b4c5d4e6f8a9b0c1d2e3f4a5b" doc:"In hexadecimal; hashed before changes. Null once the entry was emptied."`
	Changes       *string   `json:"changes" example:"{\"new\": {\"role\": \"EDITOR\"}, \"old\": {\"role\": \"USER\"}}" doc:"JSON, as text: an object with new, old or note. Secrets are redacted, and of values over 4 KiB there is only the digest. Null once the entry was emptied."`
	ChangesDigest string    `json:"changes_digest" pattern:"^[0-9a-f]{64}$" example:"0d7d6a0b2f2fd7a8cbeae2dbb2c5a6f4e1c3b0a99887766554433221100ffeed" doc:"SHA-256 of salt and changes."`
	PrevHash      string    `json:"prev_hash" pattern:"^[0-9a-f]{64}$" example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" doc:"The hash of the entry before."`
	Hash          string    `json:"hash" pattern:"^[0-9a-f]{64}$" example:"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" doc:"SHA-256 of all other fields except salt and changes, which changes_digest stands for."`
}

func toAuditEntry(e audit.Entry) AuditEntry {
	return AuditEntry{
		Seq: e.Seq, At: e.At.UTC(), ActorType: e.ActorType, ActorID: e.ActorID, SessionID: e.SessionID, IP: e.IP,
		RequestID: e.RequestID, Action: e.Action, Op: e.Op, Table: e.Table, RowID: e.RowID, Salt: e.Salt, Changes: e.Changes,
		ChangesDigest: e.ChangesDigest, PrevHash: e.PrevHash, Hash: e.Hash,
	}
}

type auditVerdict struct {
	OK         bool                      `json:"ok" example:"false" doc:"Whether everything is as it was written."`
	Checked    int64                     `json:"checked" minimum:"0" example:"1000" doc:"How many entries were verified."`
	FirstBad   nullable[auditBad]        `json:"first_bad" doc:"The first entry that is wrong; null if none is."`
	Head       auditHead                 `json:"head" doc:"The newest entry."`
	Unsealed   int64                     `json:"unsealed" minimum:"0" example:"0" doc:"How many entries have no place in the chain yet."`
	Checkpoint nullable[auditCheckpoint] `json:"checkpoint" doc:"The newest checkpoint that was verified; null if the range has none."`
}

type auditBad struct {
	Seq    *int64 `json:"seq" minimum:"1" example:"42" doc:"The entry's place; null if it should have one and has none."`
	Reason string `json:"reason" enum:"row_hash,digest,link,gap,batch,truncated,checkpoint_signature,root,unsealed" example:"row_hash" doc:"What is wrong. row_hash: the entry's hash is not that of its fields. digest: salt and changes don't have this digest, or were emptied and no note says so. link: prev_hash is not the hash of the entry before. gap: an entry is missing. batch: the rows don't have the batch's digest. truncated: entries at the end are missing. checkpoint_signature: a checkpoint is not signed by our key. root: a checkpoint has another root than the entries. unsealed: an entry was left without a place."`
}

type auditHead struct {
	Seq  int64  `json:"seq" minimum:"0" example:"1000" doc:"Its place, which is also the number of entries; 0 while there are none."`
	Hash string `json:"hash" pattern:"^[0-9a-f]{64}$" example:"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" doc:"The newest entry's hash."`
}

func toAuditVerdict(v audit.Verdict) auditVerdict {
	out := auditVerdict{OK: v.OK, Checked: v.Checked, Head: auditHead{Seq: v.Head.Seq, Hash: v.Head.Hash}, Unsealed: v.Unsealed}
	if v.FirstBad != nil {
		out.FirstBad.value = &auditBad{Seq: v.FirstBad.Seq, Reason: v.FirstBad.Reason}
	}
	if v.Checkpoint != nil {
		out.Checkpoint.value = new(toAuditCheckpoint(*v.Checkpoint))
	}
	return out
}

type auditCheckpoint struct {
	Size     int64     `json:"size" minimum:"1" example:"1000" doc:"How many entries it covers: those with seq 1 to size."`
	Root     string    `json:"root" pattern:"^[0-9a-f]{64}$" example:"a3f5c2d1e4b697887766554433221100ffeeddccbbaa99887766554433221100" doc:"The root of the Merkle tree of this size (RFC 6962, section 2.1)."`
	HeadHash string    `json:"head_hash" pattern:"^[0-9a-f]{64}$" example:"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" doc:"The hash of entry size."`
	At       time.Time `json:"at" example:"2026-01-02T15:04:05Z" doc:"When it was signed."`
	Note     string    `json:"note" example:"waypost/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10\n1000\no/XC0eS2l4h3ZlVEMyIRAP/u3cy7qpmId2ZVRDMiEQA=\n60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752\n2026-01-02T15:04:05Z\n\n— waypost/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10 c2lnbmF0dXJl\n" doc:"The signed note: origin, size, root in base64, head_hash, time and signature. Keep it outside, and a shortened log can't go unnoticed."`
}

func toAuditCheckpoint(c audit.Checkpoint) auditCheckpoint {
	return auditCheckpoint{Size: c.Size, Root: c.Root, HeadHash: c.HeadHash, At: c.At.UTC(), Note: c.Note}
}

type auditProof struct {
	Seq    int64    `json:"seq" minimum:"1" example:"42" doc:"The entry."`
	Size   int64    `json:"size" minimum:"1" example:"1000" doc:"The size of the tree that it is proven to be in."`
	Leaf   string   `json:"leaf" pattern:"^[0-9a-f]{64}$" example:"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" doc:"The leaf's hash, which is the entry's."`
	Hashes []string `json:"hashes" nullable:"false" example:"[\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]" doc:"The audit path, from the leaf up (RFC 6962, section 2.1.1)."`
	Root   string   `json:"root" pattern:"^[0-9a-f]{64}$" example:"a3f5c2d1e4b697887766554433221100ffeeddccbbaa99887766554433221100" doc:"The root that the path leads to. Compare it with that of a checkpoint of this size."`
}

func toAuditProof(p audit.Proof) auditProof {
	return auditProof{Seq: p.Seq, Size: p.Size, Leaf: p.Leaf, Hashes: notNil(p.Hashes), Root: p.Root}
}

type auditConsistency struct {
	Old    int64    `json:"old" minimum:"1" example:"500" doc:"The size of the smaller tree."`
	New    int64    `json:"new" minimum:"1" example:"1000" doc:"The size of the larger tree."`
	Hashes []string `json:"hashes" nullable:"false" example:"[\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]" doc:"The consistency proof (RFC 6962, section 2.1.2); empty for equal sizes."`
}

func toAuditConsistency(c audit.Consistency) auditConsistency {
	return auditConsistency{Old: c.Old, New: c.New, Hashes: notNil(c.Hashes)}
}

// notNil makes an empty list of none, which JSON would show as null.
func notNil(list []string) []string { return append([]string{}, list...) }

type auditKey struct {
	InstallID   string `json:"install_id" format:"uuid" example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10" doc:"The installation's id. The first prev_hash is made of it."`
	Origin      string `json:"origin" example:"waypost/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10" doc:"The first line of every checkpoint."`
	VerifierKey string `json:"verifier_key" example:"waypost/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10+d3f1a2b4+AVJ1bm5pbmcgb3V0IG9mIGV4YW1wbGUga2V5cyBoZXJl" doc:"The public key in the format of signed notes. Pass it to waypost audit verify as --key, and keep it outside."`
}

func toAuditKey(k audit.Key) auditKey {
	return auditKey{InstallID: k.InstallID, Origin: k.Origin, VerifierKey: k.VerifierKey}
}

// AuditRow names a row whose history is erased.
type AuditRow struct {
	Table string `json:"table" model:"required,line,min=1,max=63" doc:"The row's table, as in the entries." example:"users"`
	RowID string `json:"row_id" model:"required,line,min=1,max=500" doc:"The row's key, as in the entries." example:"7"`
}

type auditErasure struct {
	Table   string `json:"table" example:"users" doc:"The row's table."`
	RowID   string `json:"row_id" example:"7" doc:"The row's key."`
	Entries int    `json:"entries" minimum:"1" example:"3" doc:"How many entries were emptied."`
}

// nullable is an object of an answer that may be null, which Huma can't say of a
// reference.
type nullable[T any] struct{ value *T }

// Schema implements huma.SchemaProvider.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = true
	return s
}

// MarshalJSON implements json.Marshaler.
func (n nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }
