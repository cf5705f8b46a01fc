package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
)

// AuditExporter writes entries from a seq on, oldest first, as lines of JSON, and
// returns how many those were.
type AuditExporter interface {
	Export(ctx context.Context, fromSeq int64, w io.Writer) (int64, error)
}

// ndjsonType is the media type of a JSON value per line.
const ndjsonType = "application/x-ndjson"

// exportStall is how long a client may take nothing of an export.
const exportStall = 30 * time.Second

type exportAuditInput struct {
	FromSeq int64 `query:"from_seq" minimum:"1" default:"1" doc:"The first entry of the export." example:"1"`
}

func registerAuditExport(a huma.API, s AuditExporter) {
	huma.Register(a, access(huma.Operation{
		OperationID: "get-audit-export",
		Method:      http.MethodGet,
		Path:        "/api/admin/audit/export",
		Summary:     "Export the audit log",
		Description: "All entries from one on, oldest first, each a line of JSON with the members of an audit entry, for `waypost audit verify --export`. " +
			"A note about the export follows in the log. " +
			"If something fails on the way, the connection is cut: go on with the entry after the last whole line.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The entries.",
			Headers: map[string]*huma.Header{"Content-Disposition": {
				Schema: &huma.Schema{Type: huma.TypeString, Description: "A name for the file.", Examples: []any{exportDisposition}},
			}},
			Content: map[string]*huma.MediaType{ndjsonType: {
				Schema: &huma.Schema{Type: huma.TypeString, Description: "One audit entry per line."}, Example: exportExample,
			}},
		}},
	}, roles(identity.Admin)), func(_ context.Context, in *exportAuditInput) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humachi.Unwrap(ctx)
			exportAudit(w, r.WithContext(ctx.Context()), s, in.FromSeq)
		}}, nil
	})
}

const (
	exportDisposition = `attachment; filename="audit.ndjson"`
	exportExample     = `{"seq":1,"at":"2026-01-02T15:04:05.123456Z","actor_type":"cli","actor_id":"ada","session_id":null,"ip":null,"request_id":null,` +
		`"action":"cli:user create","op":"insert","table":"users","row_id":"1","salt":"6f1d2a3b4c5d4e6f8a9b0c1d2e3f4a5b","changes":"{\"new\": {\"id\": 1}}",` +
		`"changes_digest":"0d7d6a0b2f2fd7a8cbeae2dbb2c5a6f4e1c3b0a99887766554433221100ffeed",` +
		`"prev_hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",` +
		`"hash":"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}` + "\n"
)

// exportAudit answers with an export. What fails before the first byte is answered
// as any failure; after it nothing true can be said, so the connection is cut.
func exportAudit(w http.ResponseWriter, r *http.Request, s AuditExporter, fromSeq int64) {
	out := &exportWriter{w: w, control: http.NewResponseController(w)}
	if r.Method == http.MethodHead { // nobody gets anything, so there is nothing to take a note of
		out.begin()
		return
	}
	ctx, cancel := httpedge.Untimed(r.Context())
	defer cancel()
	// The server's limit for reading a request would end it later on.
	_ = out.control.SetReadDeadline(time.Time{})
	_, err := s.Export(ctx, fromSeq, out)
	switch {
	case err == nil:
		out.begin() // for an export of nothing
	case !out.begun:
		httpedge.WriteError(w, r, err)
	default:
		httpedge.Record(r.Context(), err)
		panic(http.ErrAbortHandler)
	}
}

// exportWriter begins the answer with the first byte, and gives the client time for
// each piece instead of for the whole.
type exportWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (e *exportWriter) begin() {
	if e.begun {
		return
	}
	e.begun = true
	e.w.Header().Set("Content-Type", ndjsonType)
	e.w.Header().Set("Content-Disposition", exportDisposition)
	e.w.WriteHeader(http.StatusOK)
}

func (e *exportWriter) Write(p []byte) (int, error) {
	e.begin()
	// A writer without deadlines (a test's recorder) has no slow clients either.
	if err := e.control.SetWriteDeadline(time.Now().Add(exportStall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return e.w.Write(p)
}
