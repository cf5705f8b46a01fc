package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/identity"
)

// auditLog is a log in memory of so many entries, which answers as the real one.
type auditLog struct {
	size     int64
	broken   bool
	unknown  bool // no checkpoint yet
	filters  []audit.Filter
	verified [][3]int64
	erased   [][2]string
	export   func(ctx context.Context, fromSeq int64, w io.Writer) (int64, error)
}

var auditStart = time.Date(2026, 1, 2, 15, 4, 5, 123456000, time.UTC)

func digits(digit string) string { return strings.Repeat(digit, 64) }

// entry is of a user's change, or if its seq is divisible by three an emptied batch
// of nobody's.
func (l *auditLog) entry(seq int64) audit.Entry {
	e := audit.Entry{
		Seq: seq, At: auditStart.In(time.FixedZone("", 7200)), ActorType: "user", Op: "update", Table: new("users"),
		ChangesDigest: digits("a"), PrevHash: digits("b"), Hash: digits("c"),
	}
	if seq%3 == 0 {
		e.ActorType, e.Op = "webhook", "batch"
		return e
	}
	e.ActorID, e.SessionID, e.IP, e.RequestID, e.Action = new("1"), new("s"), new("203.0.113.7"), new("r"), new("update-user")
	e.RowID, e.Salt, e.Changes = new("7"), new("00ff"), new(`{"new": {"role": "<EDITOR>"}}`)
	return e
}

func (l *auditLog) checkpoint(size int64) audit.Checkpoint {
	return audit.Checkpoint{Size: size, Root: digits("d"), HeadHash: digits("c"), At: auditStart, Note: "note\n"}
}

func (l *auditLog) List(_ context.Context, f audit.Filter, before int64, limit int, total *int64) ([]audit.Entry, error) {
	l.filters = append(l.filters, f)
	if total != nil {
		*total = l.size
	}
	var list []audit.Entry
	for seq := l.size; seq > 0 && len(list) < limit; seq-- {
		if before == 0 || seq < before {
			list = append(list, l.entry(seq))
		}
	}
	return list, nil
}

func (l *auditLog) Get(_ context.Context, seq int64) (audit.Entry, error) {
	if seq > l.size {
		return audit.Entry{}, audit.ErrEntry
	}
	return l.entry(seq), nil
}

func (l *auditLog) Verify(_ context.Context, from, to, most int64) (audit.Verdict, error) {
	l.verified = append(l.verified, [3]int64{from, to, most})
	if to-from >= most {
		return audit.Verdict{}, fault.Validation(map[string]string{"query.to_seq": "Too many."})
	}
	v := audit.Verdict{OK: true, Checked: l.size, Head: audit.Head{Seq: l.size, Hash: digits("c")}}
	if !l.unknown {
		v.Checkpoint = new(l.checkpoint(l.size))
	}
	if l.broken {
		v.OK, v.FirstBad, v.Unsealed = false, &audit.Bad{Reason: "unsealed"}, 1
	}
	return v, nil
}

func (l *auditLog) Checkpoints(_ context.Context, before int64, limit int) ([]audit.Checkpoint, error) {
	var list []audit.Checkpoint
	for size := l.size; size > 0 && len(list) < limit; size-- {
		if before == 0 || size < before {
			list = append(list, l.checkpoint(size))
		}
	}
	return list, nil
}

func (l *auditLog) CountCheckpoints(context.Context) (int64, error) { return l.size, nil }

func (l *auditLog) fits(parameter string, size int64) (int64, error) {
	switch {
	case size > l.size:
		return 0, fault.Validation(map[string]string{parameter: "The log is smaller."})
	case size == 0:
		return l.size, nil
	}
	return size, nil
}

func (l *auditLog) Proof(_ context.Context, seq, size int64) (audit.Proof, error) {
	size, err := l.fits("query.size", size)
	if err == nil && seq > l.size {
		err = audit.ErrEntry
	}
	return audit.Proof{Seq: seq, Size: size, Leaf: digits("c"), Hashes: []string{digits("e")}, Root: digits("d")}, err
}

func (l *auditLog) Consistency(_ context.Context, older, newer int64) (audit.Consistency, error) {
	newer, err := l.fits("query.new", newer)
	if err == nil && older > newer {
		err = fault.Validation(map[string]string{"query.old": "It is the larger one."})
	}
	return audit.Consistency{Old: older, New: newer}, err
}

func (l *auditLog) Key(context.Context) (audit.Key, error) {
	return audit.Key{InstallID: "01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10", Origin: "waypost/x", VerifierKey: "waypost/x+0+k"}, nil
}

func (l *auditLog) Erase(_ context.Context, table, rowID string) (int, error) {
	l.erased = append(l.erased, [2]string{table, rowID})
	if rowID == "nobody" {
		return 0, audit.ErrNothing
	}
	return 3, nil
}

func (l *auditLog) Export(ctx context.Context, fromSeq int64, w io.Writer) (int64, error) {
	if l.export != nil {
		return l.export(ctx, fromSeq, w)
	}
	for seq := fromSeq; seq <= l.size; seq++ {
		if _, err := fmt.Fprintf(w, "{\"seq\":%d}\n", seq); err != nil {
			return 0, err
		}
	}
	return max(l.size-fromSeq+1, 0), nil
}

// byScopes signs in whoever presents a role, or lets an API token in that names its
// owner's role and its scopes: "ADMIN+read+admin". "settled" is an ADMIN who signed in
// an hour ago.
type byScopes struct{}

func (byScopes) Authenticate(_ context.Context, presented string) (identity.Principal, error) {
	words := strings.Split(presented, "+")
	role := identity.Role(words[0])
	p := identity.Account(1, role, "session")
	p.SignedInAt = time.Now()
	switch {
	case presented == "settled":
		p.Role, p.SignedInAt = identity.Admin, time.Now().Add(-time.Hour)
	case !role.Valid():
		return identity.Principal{}, fault.New(fault.Unauthenticated, "token_invalid", "No.")
	case len(words) > 1:
		var scopes []identity.Scope
		for _, s := range words[1:] {
			scopes = append(scopes, identity.Scope(s))
		}
		p = identity.Token(1, role, 1, identity.NewScopes(scopes...))
	}
	return p, nil
}

func (byScopes) RequireRecent(ctx context.Context) error {
	if p := identity.FromContext(ctx); p.SessionID == "" || time.Since(p.SignedInAt) > time.Minute {
		return account.ErrReauthenticate
	}
	return nil
}

// serveAudit is the API over a log. A request may take a tenth of a second.
func serveAudit(t *testing.T, l *auditLog) http.Handler {
	t.Helper()
	r := chi.NewRouter()
	if err := httpedge.Use(r, httpedge.Options{Logger: slog.New(slog.DiscardHandler), Timeout: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Mount(r, api.Options{BaseURL: baseURL, Authenticator: byScopes{}, Resources: []api.Resource{api.Audit(l, byScopes{})}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func askAudit(t *testing.T, h http.Handler, method, path, body, caller string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if caller != "" {
		r.Header.Set("Authorization", "Bearer "+caller)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), text: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			t.Fatalf("%s %s: %d %q: %v", method, path, w.Code, a.text, err)
		}
	}
	return a
}

const eraseAda = `{"table":"users","row_id":"7"}`

func TestTheAuditLogIsForAdministratorsAndTheirTokensWithScopeAdmin(t *testing.T) {
	t.Parallel()
	h := serveAudit(t, &auditLog{size: 5})
	type outcome struct {
		status int
		code   string
	}
	var (
		fine      = outcome{200, ""}
		forbidden = outcome{403, "forbidden"}
	)
	for caller, want := range map[string]struct{ read, erase outcome }{
		"":                       {outcome{401, "unauthenticated"}, outcome{401, "unauthenticated"}},
		"nonsense":               {outcome{401, "token_invalid"}, outcome{401, "token_invalid"}},
		"USER":                   {forbidden, forbidden},
		"EDITOR":                 {forbidden, forbidden},
		"ADMIN":                  {fine, fine},
		"settled":                {fine, outcome{403, "reauthentication_required"}},
		"ADMIN+read":             {forbidden, forbidden},
		"ADMIN+write":            {forbidden, forbidden},
		"ADMIN+admin":            {forbidden, forbidden},
		"ADMIN+ai":               {forbidden, forbidden},
		"ADMIN+read+write":       {forbidden, forbidden},
		"ADMIN+write+admin":      {forbidden, forbidden},
		"ADMIN+read+admin":       {fine, forbidden},
		"ADMIN+read+write+admin": {fine, forbidden},
		"EDITOR+read+admin":      {forbidden, forbidden},
		"USER+read+write+admin":  {forbidden, forbidden},
	} {
		for _, path := range []string{"", "/1", "/verify", "/checkpoints", "/proof/1", "/consistency?old=1", "/export", "/key"} {
			a := askAudit(t, h, "GET", "/api/admin/audit"+path, "", caller)
			a.wants(t, fmt.Sprintf("%s as %q", path, caller), want.read.status, want.read.code)
		}
		a := askAudit(t, h, "POST", "/api/admin/audit/erase", eraseAda, caller)
		a.wants(t, fmt.Sprintf("erase as %q", caller), want.erase.status, want.erase.code)
	}
}

func TestAnAuditEntryHasAllThatIsHashed(t *testing.T) {
	t.Parallel()
	h := serveAudit(t, &auditLog{size: 5})
	const hashes = `,"changes_digest":"%s","prev_hash":"%s","hash":"%s"},"message":"Entry found."}`
	for path, want := range map[string]string{
		"/2": `{"data":{"seq":2,"at":"2026-01-02T15:04:05.123456Z","actor_type":"user","actor_id":"1","session_id":"s","ip":"203.0.113.7","request_id":"r",` +
			`"action":"update-user","op":"update","table":"users","row_id":"7","salt":"00ff","changes":"{\"new\": {\"role\": \"<EDITOR>\"}}"`,
		"/3": `{"data":{"seq":3,"at":"2026-01-02T15:04:05.123456Z","actor_type":"webhook","actor_id":null,"session_id":null,"ip":null,"request_id":null,` +
			`"action":null,"op":"batch","table":"users","row_id":null,"salt":null,"changes":null`,
	} {
		want += fmt.Sprintf(hashes, digits("a"), digits("b"), digits("c"))
		if diff := cmp.Diff(want, strings.TrimSpace(askAudit(t, h, "GET", "/api/admin/audit"+path, "", "ADMIN").text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestAuditEntriesAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	l := &auditLog{size: 5}
	h := serveAudit(t, l)
	for _, path := range []string{"/api/admin/audit", "/api/admin/audit/checkpoints"} {
		var pages []string
		cursor := ""
		for range 3 {
			a := askAudit(t, h, "GET", path+"?limit=2&total=true&cursor="+url.QueryEscape(cursor), "", "ADMIN")
			var rows []struct{ Seq, Size int64 }
			if err := json.Unmarshal(a.body.Data, &rows); err != nil {
				t.Fatal(err)
			}
			pages, cursor = append(pages, fmt.Sprint(rows, a.body.Meta.HasMore, *a.body.Meta.Total)), a.body.Meta.NextCursor
		}
		want := []string{"[{5 0} {4 0}] true 5", "[{3 0} {2 0}] true 5", "[{1 0}] false 5"}
		if strings.HasSuffix(path, "checkpoints") {
			want = []string{"[{0 5} {0 4}] true 5", "[{0 3} {0 2}] true 5", "[{0 1}] false 5"}
		}
		if diff := cmp.Diff(want, pages); diff != "" || cursor != "" {
			t.Errorf("%s, then %q (-want +got):\n%s", path, cursor, diff)
		}
	}
	l.filters = nil
	a := askAudit(t, h, "GET", "/api/admin/audit?actor_type=token&actor_id=a&action=b&table=c&row_id=d/e&request_id=f&from=2026-01-02T00:00:00%2B02:00&to=2026-01-03T00:00:00Z", "", "ADMIN")
	want := audit.Filter{
		ActorType: "token", ActorID: "a", Action: "b", Table: "c", RowID: "d/e", RequestID: "f",
		From: time.Date(2026, 1, 1, 22, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff([]audit.Filter{want}, l.filters); diff != "" || a.body.Meta.Total != nil {
		t.Errorf("total %v (-want +got):\n%s", a.body.Meta.Total, diff)
	}
}

func TestBadInputToTheAuditLogNamesTheField(t *testing.T) {
	t.Parallel()
	l := &auditLog{size: 5}
	h := serveAudit(t, l)
	for path, field := range map[string]string{
		"?limit=0": "query.limit", "?limit=101": "query.limit", "?cursor=!": "query.cursor", "?cursor=e30x": "query.cursor",
		"?actor_type=nobody": "query.actor_type", "?from=yesterday": "query.from", "?to=2026-13-01T00:00:00Z": "query.to",
		"?actor_id=a%00b": "query.actor_id", "?row_id=%ff": "query.row_id", "?action=" + strings.Repeat("a", 256): "query.action",
		"?table=" + strings.Repeat("a", 64): "query.table", "?request_id=%00": "query.request_id",
		"/0": "path.seq", "/-1": "path.seq", "/x": "path.seq", "/9223372036854775808": "path.seq",
		"/verify?from_seq=3&to_seq=2": "query.to_seq", "/verify?from_seq=0": "query.from_seq", "/verify?to_seq=x": "query.to_seq",
		"/verify?from_seq=1&to_seq=1000001": "query.to_seq",
		"/checkpoints?cursor=e30":           "query.cursor",
		"/proof/0":                          "path.seq", "/proof/1?size=6": "query.size", "/proof/1?size=0": "query.size",
		"/consistency": "query.old", "/consistency?old=0": "query.old", "/consistency?old=1&new=6": "query.new", "/consistency?old=3&new=2": "query.old",
		"/export?from_seq=0": "query.from_seq", "/export?from_seq=x": "query.from_seq",
	} {
		a := askAudit(t, h, "GET", "/api/admin/audit"+path, "", "ADMIN")
		a.wants(t, path, 422, "validation_failed")
		if !slices.Contains(keysOf(a.body.Error.Details), field) {
			t.Errorf("%s: %v, want %s", path, a.body.Error.Details, field)
		}
	}
	for _, path := range []string{"/6", "/proof/6"} {
		askAudit(t, h, "GET", "/api/admin/audit"+path, "", "ADMIN").wants(t, path, 404, "not_found")
	}
	for _, body := range []string{
		`{}`, `{"table":"users"}`, `{"row_id":"1"}`, `{"table":"","row_id":"1"}`, `{"table":"users","row_id":""}`, `{"table":"users","row_id":null}`,
		`{"table":"users","row_id":1}`, `{"table":"users","row_id":"a\u0000"}`, `{"table":"users","row_id":"1","x":1}`, `{"Table":"users","row_id":"1"}`,
		`{"table":"` + strings.Repeat("a", 64) + `","row_id":"1"}`,
	} {
		askAudit(t, h, "POST", "/api/admin/audit/erase", body, "ADMIN").wants(t, body, 422, "validation_failed")
	}
	if len(l.erased) > 0 {
		t.Errorf("erased: %v", l.erased)
	}
}

func TestAVerificationOfABrokenChainIsAnAnswer(t *testing.T) {
	t.Parallel()
	l := &auditLog{size: 5}
	h := serveAudit(t, l)
	checkpoint := `{"size":5,"root":"` + digits("d") + `","head_hash":"` + digits("c") + `","at":"2026-01-02T15:04:05.123456Z","note":"note\n"}`
	for _, step := range []struct {
		name            string
		broken, unknown bool
		want            string
	}{
		{"whole", false, false, `{"ok":true,"checked":5,"first_bad":null,"head":{"seq":5,"hash":"` + digits("c") + `"},"unsealed":0,"checkpoint":` + checkpoint + `}`},
		{"broken", true, true, `{"ok":false,"checked":5,"first_bad":{"seq":null,"reason":"unsealed"},"head":{"seq":5,"hash":"` + digits("c") + `"},"unsealed":1,"checkpoint":null}`},
	} {
		l.broken, l.unknown = step.broken, step.unknown
		a := askAudit(t, h, "GET", "/api/admin/audit/verify?from_seq=2&to_seq=4", "", "ADMIN")
		a.wants(t, step.name, 200, "")
		if diff := cmp.Diff(step.want, string(a.body.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	askAudit(t, h, "GET", "/api/admin/audit/verify", "", "ADMIN")
	if diff := cmp.Diff([][3]int64{{2, 4, 1_000_000}, {2, 4, 1_000_000}, {0, 0, 1_000_000}}, l.verified); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProofsAndTheKeyAreShown(t *testing.T) {
	t.Parallel()
	h := serveAudit(t, &auditLog{size: 5})
	for path, want := range map[string]string{
		"/proof/2?size=4":          `{"seq":2,"size":4,"leaf":"` + digits("c") + `","hashes":["` + digits("e") + `"],"root":"` + digits("d") + `"}`,
		"/consistency?old=2&new=4": `{"old":2,"new":4,"hashes":[]}`,
		"/consistency?old=2":       `{"old":2,"new":5,"hashes":[]}`,
		"/key":                     `{"install_id":"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10","origin":"waypost/x","verifier_key":"waypost/x+0+k"}`,
	} {
		a := askAudit(t, h, "GET", "/api/admin/audit"+path, "", "ADMIN")
		a.wants(t, path, 200, "")
		if diff := cmp.Diff(want, string(a.body.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestARowIsErasedByWhoSignedInOfLate(t *testing.T) {
	t.Parallel()
	l := &auditLog{size: 5}
	h := serveAudit(t, l)
	askAudit(t, h, "POST", "/api/admin/audit/erase", eraseAda, "settled").wants(t, "settled", 403, "reauthentication_required")
	a := askAudit(t, h, "POST", "/api/admin/audit/erase", eraseAda, "ADMIN")
	if diff := cmp.Diff(`{"table":"users","row_id":"7","entries":3}`, string(a.body.Data)); diff != "" || a.status != 200 {
		t.Errorf("%d (-want +got):\n%s", a.status, diff)
	}
	askAudit(t, h, "POST", "/api/admin/audit/erase", `{"table":"users","row_id":"nobody"}`, "ADMIN").wants(t, "nothing", 404, "not_found")
	if diff := cmp.Diff([][2]string{{"users", "7"}, {"users", "nobody"}}, l.erased); diff != "" {
		t.Errorf("erased (-want +got):\n%s", diff)
	}
}
