package truth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waypost/waypost/e2e/outside"
)

// assistant is a client of the tools, with somebody's credentials. They are asked for with
// each request, since a call may end them.
type assistant interface {
	list(t *testing.T) *mcp.ListToolsResult
	// call returns the result and the id of its request, and fails the test on an error of
	// the protocol.
	call(t *testing.T, tool string, arguments map[string]any) (r *mcp.CallToolResult, requestID string)
}

// goAssistant is the official client for Go.
type goAssistant struct {
	*mcp.ClientSession
	signed func() []string

	mu        sync.Mutex
	requestID string // of the latest answer
	kept      string // its Cache-Control
}

// assist connects an assistant.
func (w *world) assist(t *testing.T, signed func() []string) assistant {
	t.Helper()
	a := &goAssistant{signed: signed}
	client := mcp.NewClient(&mcp.Implementation{Name: "truth", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: a}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.ClientSession = session
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// RoundTrip implements http.RoundTripper.
func (a *goAssistant) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for pair := range slices.Chunk(a.signed(), 2) {
		r.Header.Set(pair[0], pair[1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requestID, a.kept = response.Header.Get("X-Request-Id"), response.Header.Get("Cache-Control")
	}
	return response, err
}

func (a *goAssistant) list(t *testing.T) *mcp.ListToolsResult {
	t.Helper()
	list, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.kept != "private, no-store" {
		t.Errorf("the list is %q to caches", a.kept)
	}
	return list
}

func (a *goAssistant) call(t *testing.T, tool string, arguments map[string]any) (*mcp.CallToolResult, string) {
	t.Helper()
	r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return r, a.requestID
}

// shown are the tools that an assistant is shown, by name and in their order.
func shown(t *testing.T, a assistant) (map[string]*mcp.Tool, []string) {
	t.Helper()
	list := a.list(t)
	if list.CacheScope != "private" || list.NextCursor != "" {
		t.Errorf("the list is %q; next %q", list.CacheScope, list.NextCursor)
	}
	byName, names := map[string]*mcp.Tool{}, []string{}
	for _, tool := range list.Tools {
		byName[tool.Name], names = tool, append(names, tool.Name)
	}
	if !slices.IsSorted(names) {
		t.Error("the list has no lasting order")
	}
	return byName, names
}

// ownAffairs are the operations under /api/auth that no assistant can make use of to get
// into an account, or to keep somebody out.
var ownAffairs = []string{"get-me", "list-sessions", "end-session", "end-all-sessions", "list-identities"}

// isNoTool says what the contract says of operations that are never offered.
func (o *operation) isNoTool() bool {
	for _, never := range []string{"/webhooks/", "/api/collect", "/api/ai/v1/"} {
		if strings.HasPrefix(o.path, never) {
			return true
		}
	}
	for _, part := range strings.Split(o.path, "/") {
		if slices.Contains([]string{"keys", "tokens", "link", "presign", "content", "thumbnail"}, part) {
			return true
		}
	}
	if slices.Contains(o.schemes(), "siteKey") || strings.HasPrefix(o.path, "/api/auth/") && !slices.Contains(ownAffairs, o.id) {
		return true
	}
	if _, ok := o.doc.Responses["302"]; ok || o.doc.RequestBody != nil && o.doc.RequestBody.Content["application/json"].Schema == nil {
		return true
	}
	for status, answer := range o.doc.Responses {
		if status < "300" && len(answer.Content) > 0 && answer.Content["application/json"].Schema == nil {
			return true
		}
	}
	return false
}

// TestTheToolsAreWhatTheirCallerMayCall holds what assistants of every account and with
// every API token are shown against the table of access in docs/security.md.
func TestTheToolsAreWhatTheirCallerMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.described = readDescription(t, outside.Do(t, "GET", w.url+"/docs/openapi.json", "").Body)
	rows := readAccessTable(t)
	some := false
	for _, c := range w.everyCaller(t) {
		want := []string{}
		for _, o := range w.described.operations {
			name := o.method + " " + o.path
			may := slices.ContainsFunc(rows, func(r documentedRow) bool {
				return slices.Contains(r.operations, name) && (r.nobody == "yes" && len(r.scopes) == 0 || r.want(o, c) == http.StatusOK)
			})
			if may && !o.isNoTool() {
				want = append(want, o.id)
			}
		}
		slices.Sort(want)
		_, got := shown(t, w.assist(t, c.signed))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("as %s: %s", c, diff)
		}
		some = some || len(got) > 60
	}
	if !some {
		t.Error("nobody is shown most of the operations")
	}
}

// secretText is what no answer may have: tokens, keys and codes of links.
var secretText = regexp.MustCompile(`\b(wp|wpr|wprt|wpml|whsec)_[A-Za-z0-9+/_-]{16,}|eyJ[A-Za-z0-9_-]{10,}\.`)

// TestAToolAnswersAsItsOperation calls every operation over HTTP and as a tool, as each kind
// of account and with an API token that may only read: the outcomes are the same, results are
// as their schemas say, the audit log has the changes under the same names, and no answer has
// a secret.
func TestAToolAnswersAsItsOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.callTools(t, func(signed func() []string) assistant { return w.assist(t, signed) })
}

// callTools calls all tools through clients of one make.
func (w *world) callTools(t *testing.T, assist func(signed func() []string) assistant) {
	t.Helper()
	w.described = readDescription(t, outside.Do(t, "GET", w.url+"/docs/openapi.json", "").Body)
	const callerReads = "an API token that may read"
	w.credentials[callerReads] = outside.Bearer(w.makeToken(t, callerAdmin, []string{"read"}).Token)
	w.newPerson(t, "root@example.com", "ADMIN") // so that nobody else is the last
	var trail auditTrail
	for _, caller := range []string{callerUser, callerEditor, callerAdmin, callerReads} {
		a := assist(func() []string { return w.credentials[caller] })
		tools, _ := shown(t, a)
		for _, o := range w.described.operations {
			if o.isNoTool() {
				continue
			}
			t.Run(caller+" "+o.id, func(t *testing.T) {
				w.signInAgain(t)
				over := w.send(t, o, w.valid(t, o, caller))
				w.signInAgain(t)
				r := w.valid(t, o, caller)
				result, requestID := a.call(t, o.id, o.arguments(r))
				status := checkResult(t, tools[o.id], over, result)
				trail.add(o, r, outside.Answer{Status: status, Header: http.Header{"X-Request-Id": {requestID}}})
			})
		}
		w.signInAgain(t)
	}
	if noted := trail.checkEach(t, w); len(noted) < 20 {
		t.Errorf("only %v left an entry in the audit log", slices.Sorted(maps.Keys(noted)))
	}
}

// arguments are what a request is as a call of a tool.
func (o *operation) arguments(r request) map[string]any {
	arguments := map[string]any{}
	for name, value := range r.params {
		if strings.Contains(o.path, "{"+name+"}") {
			arguments[name] = value
		}
	}
	for name, values := range r.query {
		arguments[name] = values[0]
	}
	if r.body != nil {
		arguments["body"] = json.RawMessage(r.body)
	}
	return arguments
}

// checkResult holds a result against the answer of the operation to such a request, and
// returns its status.
func checkResult(t *testing.T, tool *mcp.Tool, over outside.Answer, r *mcp.CallToolResult) int {
	t.Helper()
	number, _ := r.Meta["waypost/status"].(float64)
	status := int(number)
	text := ""
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	asked := outside.Answer{Status: status, Body: []byte(text)}
	// What the first call did may be in the way of the second: both came through.
	inTheWay := status != over.Status && got(asked) == got(over) && got(over) == http.StatusOK
	if status != over.Status && !inTheWay || r.IsError != (status >= 400) {
		t.Errorf("the tool answers %d (an error: %v) %.300s, the operation %d %.300s", status, r.IsError, text, over.Status, over.Body)
	}
	if found := secretText.FindString(text); found != "" {
		t.Errorf("the answer has a secret: %s", found)
	}
	switch {
	case inTheWay:
	case status >= 400:
		if code := asked.ErrorCode(); code != over.ErrorCode() || code == "" || r.StructuredContent != nil {
			t.Errorf("the error is %s, that of the operation %s", text, over.Body)
		}
	case tool == nil:
		t.Error("somebody can call what they are not shown")
	case status == http.StatusNoContent:
		if text != "" || r.StructuredContent != nil || tool.OutputSchema != nil {
			t.Errorf("an answer without a body has %q, %v", text, r.StructuredContent)
		}
	default:
		if err := conforms(tool.OutputSchema, r.StructuredContent); err != nil {
			t.Error(err)
		}
		var said any
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(said, r.StructuredContent); diff != "" {
			t.Errorf("the text says other than the structure: %s", diff)
		}
	}
	return status
}

// conforms holds a value against a schema that has all it needs with it.
func conforms(schema, value any) error {
	if schema == nil {
		return errors.New("there is no schema")
	}
	var parsed [2]any
	for i, v := range []any{schema, value} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if parsed[i], err = jsonschema.UnmarshalJSON(bytes.NewReader(b)); err != nil {
			return err
		}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource("tool.json", parsed[0]); err != nil {
		return err
	}
	compiled, err := c.Compile("tool.json")
	if err != nil {
		return err
	}
	return compiled.Validate(parsed[1])
}

// Over the hints, assistants decide what to ask people about first.
func TestToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.described = readDescription(t, outside.Do(t, "GET", w.url+"/docs/openapi.json", "").Body)
	tools, _ := shown(t, w.assist(t, func() []string { return w.credentials[callerAdmin] }))
	for _, o := range w.described.operations {
		tool := tools[o.id]
		if tool == nil {
			continue
		}
		h := tool.Annotations
		if h == nil || h.DestructiveHint == nil || h.OpenWorldHint == nil {
			t.Errorf("%s says not all", o.id)
			continue
		}
		changesOnce := o.method == http.MethodPut || o.method == http.MethodPatch || o.method == http.MethodDelete
		if h.ReadOnlyHint != (o.method == http.MethodGet) || h.IdempotentHint != changesOnce ||
			*h.DestructiveHint != (o.method == http.MethodDelete) || *h.OpenWorldHint {
			t.Errorf("%s %s: %+v", o.method, o.id, h)
		}
		if tool.Title == "" || !strings.Contains(tool.Description, o.access()) {
			t.Errorf("%s has the title %q and the text %q", o.id, tool.Title, tool.Description)
		}
	}
}
