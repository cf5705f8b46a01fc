package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// AuditProofs verifies the audit log, and proves that it is whole.
//
// Verify takes a range of seq, 0 for an end that is open, and returns a validation
// fault for one of more than most entries. Checkpoints returns up to limit, newest
// first, those smaller than before if that is not 0. Proof and Consistency take 0 for
// the size of the newest checkpoint, and return validation faults for sizes that don't
// fit, Proof also audit.ErrEntry. All faults name the parameter: "query.size".
type AuditProofs interface {
	Verify(ctx context.Context, from, to, most int64) (audit.Verdict, error)
	Checkpoints(ctx context.Context, before int64, limit int) ([]audit.Checkpoint, error)
	CountCheckpoints(ctx context.Context) (int64, error)
	Proof(ctx context.Context, seq, size int64) (audit.Proof, error)
	Consistency(ctx context.Context, older, newer int64) (audit.Consistency, error)
	Key(ctx context.Context) (audit.Key, error)
}

// mostVerified is how many entries one request may have verified.
const mostVerified = 1_000_000

type verifyAuditInput struct {
	FromSeq int64 `query:"from_seq" minimum:"1" doc:"The first entry to verify. Leave it out to begin with the oldest." example:"1"`
	ToSeq   int64 `query:"to_seq" minimum:"1" doc:"The last entry to verify. Leave it out to end with the newest." example:"1000"`
}

type auditVerdictOutput struct {
	Body single[auditVerdict]
}

type listCheckpointsOutput struct {
	Body list[auditCheckpoint]
}

type auditProofInput struct {
	AuditInput
	Size int64 `query:"size" minimum:"1" doc:"The size of the tree; at least seq, and at most the number of entries. Leave it out for the newest checkpoint's." example:"1000"`
}

type auditProofOutput struct {
	Body single[auditProof]
}

type auditConsistencyInput struct {
	Old int64 `query:"old" required:"true" minimum:"1" doc:"The size of the smaller tree." example:"500"`
	New int64 `query:"new" minimum:"1" doc:"The size of the larger tree, at most the number of entries. Leave it out for the newest checkpoint's." example:"1000"`
}

type auditConsistencyOutput struct {
	Body single[auditConsistency]
}

type auditKeyOutput struct {
	Body single[auditKey]
}

func registerAuditVerification(a huma.API, s AuditProofs) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-audit-verification",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/verify",
		Summary:     "Verify the audit log",
		Description: "Recompute the hashes of the entries, the rows of batches, and the roots and signatures of the checkpoints in a range, in one snapshot. A broken chain is 200 too, " +
			"with `ok` false and the first wrong entry in `first_bad`. One call verifies at most 1,000,000 entries; more are 422. Verify range by range, or use `waypost audit " +
			"verify`.",
	}, roles(identity.Admin)), func(ctx context.Context, in *verifyAuditInput) (*auditVerdictOutput, error) {
		if in.ToSeq != 0 && in.ToSeq < in.FromSeq {
			return nil, fault.Validation(map[string]string{"query.to_seq": "Must not be less than from_seq."})
		}
		v, err := s.Verify(ctx, in.FromSeq, in.ToSeq, mostVerified)
		if err != nil {
			return nil, err
		}
		message := "Everything is as it was written."
		if !v.OK {
			message = "The chain is broken: see first_bad."
		}
		return &auditVerdictOutput{Body: single[auditVerdict]{Data: toAuditVerdict(v), Message: message}}, nil
	})
}

func registerAuditCheckpoints(a huma.API, s AuditProofs) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-audit-checkpoints",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/checkpoints",
		Summary:     "List audit checkpoints",
		Description: "The signed checkpoints of the audit log, newest first. A change gets one within 30 seconds.",
	}, roles(identity.Admin)), func(ctx context.Context, in *struct{ Page }) (*listCheckpointsOutput, error) {
		var c auditCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		checkpoints, err := s.Checkpoints(ctx, c.Before, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountCheckpoints(ctx) })
		if err != nil {
			return nil, err
		}
		return &listCheckpointsOutput{Body: newList(checkpoints, in.Limit, total, toAuditCheckpoint, func(c audit.Checkpoint) any {
			return auditCursor{c.Size}
		})}, nil
	})

	huma.Register(a, access(huma.Operation{
		OperationID: "get-audit-key",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/key",
		Summary:     "Get the key that verifies checkpoints",
		Description: "The public key of the checkpoints' signatures. Keep a copy elsewhere, together with checkpoints.",
	}, roles(identity.Admin)), func(ctx context.Context, _ *struct{}) (*auditKeyOutput, error) {
		k, err := s.Key(ctx)
		if err != nil {
			return nil, err
		}
		return &auditKeyOutput{Body: single[auditKey]{Data: toAuditKey(k), Message: "Key found."}}, nil
	})
}

func registerAuditProofs(a huma.API, s AuditProofs) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-audit-proof",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/proof/{seq}",
		Summary:     "Prove that an entry is in the log",
		Description: "An inclusion proof: the hashes from the entry's hash to the root of the Merkle tree of the given size.",
	}, roles(identity.Admin), audit.ErrEntry), export.Variant{
		Parameters: map[string]string{"seq": "{{auditSeq}}", "size": "{{auditSeq}}"},
	}), func(ctx context.Context, in *auditProofInput) (*auditProofOutput, error) {
		p, err := s.Proof(ctx, in.Seq, in.Size)
		if err != nil {
			return nil, err
		}
		return &auditProofOutput{Body: single[auditProof]{Data: toAuditProof(p), Message: "Proof found."}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-audit-consistency",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/consistency",
		Summary:     "Prove that the log was only appended to",
		Description: "A consistency proof: the hashes that show that the larger tree starts with the entries of the smaller one.",
	}, roles(identity.Admin)), export.Variant{
		Parameters: map[string]string{"old": "1", "new": "{{auditSeq}}"},
	}), func(ctx context.Context, in *auditConsistencyInput) (*auditConsistencyOutput, error) {
		c, err := s.Consistency(ctx, in.Old, in.New)
		if err != nil {
			return nil, err
		}
		return &auditConsistencyOutput{Body: single[auditConsistency]{Data: toAuditConsistency(c), Message: "Proof found."}}, nil
	})
}
