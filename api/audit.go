package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// AuditEntries reads the audit log and empties entries. List returns up to limit
// entries, newest first, those before a seq if that is not 0, and sets total when it
// is not nil. Get returns audit.ErrEntry, Erase audit.ErrNothing.
type AuditEntries interface {
	List(ctx context.Context, f audit.Filter, before int64, limit int, total *int64) ([]audit.Entry, error)
	Get(ctx context.Context, seq int64) (audit.Entry, error)
	Erase(ctx context.Context, table, rowID string) (int, error)
}

// AuditService is all of the audit log.
type AuditService interface {
	AuditEntries
	AuditProofs
	AuditExporter
}

// RecentSignIn returns account.ErrReauthenticate unless the acting account signed in
// of late.
type RecentSignIn interface {
	RequireRecent(ctx context.Context) error
}

// AuditInput names an entry.
type AuditInput struct {
	Seq int64 `path:"seq" minimum:"1" doc:"The entry's place in the chain." example:"42"`
}

type listAuditInput struct {
	Page
	ActorType string    `query:"actor_type" enum:"user,token,job,cli,system,webhook,anonymous" doc:"Only what this sort of actor did." example:"user"`
	ActorID   string    `query:"actor_id" maxLength:"255" doc:"Only what the actor with this id did." example:"1"`
	Action    string    `query:"action" maxLength:"255" doc:"Only entries of this action." example:"update-user"`
	Table     string    `query:"table" maxLength:"63" doc:"Only entries about this table." example:"users"`
	RowID     string    `query:"row_id" maxLength:"500" doc:"Only entries about the row with this key." example:"7"`
	RequestID string    `query:"request_id" maxLength:"255" doc:"Only entries of the request with this X-Request-Id." example:"5YQ2VJ6X7M3K4N5P6Q7R8S9T2U"`
	From      time.Time `query:"from" doc:"Only entries at or after this instant." example:"2026-01-01T00:00:00Z"`
	To        time.Time `query:"to" doc:"Only entries before this instant." example:"2026-02-01T00:00:00Z"`
}

// filter refuses text that the database can't compare with anything.
func (in *listAuditInput) filter() (audit.Filter, error) {
	for name, value := range map[string]string{
		"actor_id": in.ActorID, "action": in.Action, "table": in.Table, "row_id": in.RowID, "request_id": in.RequestID,
	} {
		if !text.Storable(value) {
			return audit.Filter{}, fault.Validation(map[string]string{"query." + name: "It holds U+0000 or is not valid UTF-8."})
		}
	}
	return audit.Filter{
		ActorType: in.ActorType, ActorID: in.ActorID, Action: in.Action, Table: in.Table, RowID: in.RowID, RequestID: in.RequestID,
		From: in.From, To: in.To,
	}, nil
}

type listAuditOutput struct {
	Body list[AuditEntry]
}

type auditOutput struct {
	Body single[AuditEntry]
}

type erasedOutput struct {
	Body single[auditErasure]
}

// auditCursor is the seq of a page's last entry, or the size of its last checkpoint.
type auditCursor struct {
	Before int64 `json:"b"`
}

// Audit are the operations on the audit log.
func Audit(s AuditService, accounts RecentSignIn) Resource {
	return Resource{
		Tag: "Audit log", Area: "Service",
		Description: "Who changed what, and when: a chain of hashes that the database itself writes, with signed checkpoints and proofs. " +
			"Hashes are hexadecimal, except inside notes, which have their own encoding.",
		Register: func(a huma.API) {
			registerAuditEntries(a, s)
			registerAuditVerification(a, s)
			registerAuditCheckpoints(a, s)
			registerAuditProofs(a, s)
			registerAuditExport(a, s)
			registerAuditErasure(a, s, accounts)
		},
	}
}

func registerAuditEntries(a huma.API, s AuditEntries) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "list-audit-entries",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit",
		Summary:     "List audit entries",
		Description: "All entries, newest first. A change appears within a second.",
	}, roles(identity.Admin)), export.Variant{Capture: map[string]string{"auditSeq": "/data/0/seq"}}), func(ctx context.Context, in *listAuditInput) (*listAuditOutput, error) {
		var c auditCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		var total *int64
		if in.Total {
			total = new(int64)
		}
		entries, err := s.List(ctx, f, c.Before, in.Limit+1, total)
		if err != nil {
			return nil, err
		}
		return &listAuditOutput{Body: newList(entries, in.Limit, total, toAuditEntry, func(e audit.Entry) any { return auditCursor{e.Seq} })}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "get-audit-entry",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/{seq}",
		Summary:     "Show an audit entry",
		Description: "One entry, with everything its hash is computed from.",
	}, roles(identity.Admin), audit.ErrEntry), ofAuditEntry), func(ctx context.Context, in *AuditInput) (*auditOutput, error) {
		e, err := s.Get(ctx, in.Seq)
		if err != nil {
			return nil, err
		}
		return &auditOutput{Body: single[AuditEntry]{Data: toAuditEntry(e), Message: "Entry found."}}, nil
	})
}

// ofAuditEntry is how exports ask for the entry that the list showed first.
var ofAuditEntry = export.Variant{Parameters: map[string]string{"seq": "{{auditSeq}}"}}

func registerAuditErasure(a huma.API, s AuditEntries, accounts RecentSignIn) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID: "erase-audit-entries",
		Method:      http.MethodPost,
		Path:        "/api/admin/audit/erase",
		Summary:     "Erase an audited row's data",
		Description: "Empty `changes` and `salt` in all entries about one row, for example to erase a person. Who changed the row and when stays, and so do the digests: the chain stays " +
			"valid. The log records which entries were emptied. This can't be undone. Requires a sign-in within the last 15 minutes.",
	}, roles(identity.Admin).bySession(), audit.ErrNothing, account.ErrReauthenticate), export.Variant{
		Order: orderErase, Body: map[string]any{"table": "users", "row_id": "{{userId}}"},
	}), func(ctx context.Context, in *struct{ Body model.Request[AuditRow] }) (*erasedOutput, error) {
		if err := accounts.RequireRecent(ctx); err != nil {
			return nil, err
		}
		row := in.Body.Value()
		n, err := s.Erase(ctx, row.Table, row.RowID)
		if err != nil {
			return nil, err
		}
		return &erasedOutput{Body: single[auditErasure]{
			Data: auditErasure{Table: row.Table, RowID: row.RowID, Entries: n}, Message: "The entries about this row are emptied.",
		}}, nil
	})
}
