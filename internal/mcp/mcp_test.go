package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

const thingsAPI = `{
  "paths": {
    "/things": {
      "get": {"operationId": "list-things", "summary": "List things", "description": "All of them.", "tags": ["Things"],
        "parameters": [
          {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "How many."},
          {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}, "explode": false},
          {"name": "format", "in": "query", "schema": {"type": "string"}},
          {"name": "X-Key", "in": "header", "schema": {"type": "string"}}, {"name": "authorization", "in": "header", "schema": {"type": "string"}},
          {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}, "example": {"country": "PT"}}],
        "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Things"}}}},
          "422": {"$ref": "#/components/responses/Failed"}}},
      "post": {"operationId": "create-thing", "tags": ["Things"],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
        "responses": {"201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Things"}}}}}}
    },
    "/things/{id}": {
      "parameters": [],
      "get": {"operationId": "get-thing", "tags": ["Things", "More things"], "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}}},
      "delete": {"operationId": "delete-thing", "tags": ["Other"], "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {"204": {}}}
    },
    "/things/secret": {"get": {"operationId": "get-secret", "tags": ["Secrets"], "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}}}}
  },
  "components": {"schemas": {
    "Things": {"type": "object", "properties": {"data": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}}, "required": ["data"]},
    "Thing": {"type": "object", "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}}},
    "Unused": {"type": "object"}
  }}
}`

var errNobody = fault.New(fault.Unauthenticated, fault.CodeUnauthenticated, "Sign in first.")

// newHandler makes the tools of what is described before a service. Whoever sends a name as
// bearer token is called so; EDITORs alone may delete.
func newHandler(t *testing.T, service http.HandlerFunc) *Handler {
	t.Helper()
	anybody := func(identity.Principal) bool { return true }
	if service == nil {
		service = http.NotFound
	}
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /things", "POST /things", "GET /things/{id}", "DELETE /things/{id}", "GET /things/secret"} {
		mux.HandleFunc(pattern, service)
	}
	h, err := New(Options{
		Title: "Things", Version: "1", BaseURL: "https://things.example",
		Offers: []Offer{
			{Name: "list-things", Without: []string{"format"}, OpenTo: anybody}, {Name: "create-thing", OpenTo: anybody, MaxBody: 100},
			{Name: "get-thing", OpenTo: anybody}, {Name: "not-described", OpenTo: anybody},
			{Name: "delete-thing", OpenTo: func(p identity.Principal) bool { return p.Role == identity.Editor }},
		},
		Description: func() ([]byte, error) { return []byte(thingsAPI), nil },
		Service:     mux,
		Route: func(method, path string) string {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			_, pattern := mux.Handler(r)
			_, path, _ = strings.Cut(pattern, " ")
			return path
		},
		Caller: func(r *http.Request) (*http.Request, identity.Principal, error) {
			name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return nil, identity.Principal{}, errNobody
			}
			return r, identity.Account(1, identity.Role(name), "s"), nil
		},
		ReadBody: func(_ http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
			return io.ReadAll(io.LimitReader(r.Body, limit))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func request(ctx context.Context, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer USER")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func post(t *testing.T, h *Handler, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t.Context(), body, header...))
	return w
}

func call(name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
}

// called is what a call came to.
type called struct {
	Result struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
		Meta              map[string]any `json:"_meta"`
	}
	Error *problem
}

func result(t *testing.T, w *httptest.ResponseRecorder) called {
	t.Helper()
	var c called
	if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return c
}

func TestArgumentsGoWhereTheOperationHasThem(t *testing.T) {
	t.Parallel()
	var got string
	h := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.RequestURI + " " + r.Header.Get("X-Key") + string(body)
		if r.Header.Get("Authorization") != "Bearer USER" {
			t.Errorf("the credential became %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	for _, c := range []struct{ tool, arguments, want, wrong string }{
		{"list-things", `{}`, "GET /things ", ""},
		{"list-things", `{"limit":5}`, "GET /things?limit=5 ", ""},
		{"list-things", `{"limit":5.50}`, "GET /things?limit=5.50 ", ""},
		{"list-things", `{"limit":"a&b=c d\n"}`, "GET /things?limit=a%26b%3Dc+d%0A ", ""},
		{"list-things", `{"tag":["a","b"]}`, "GET /things?tag=a%2Cb ", ""},
		{"list-things", `{"filter":{"country":"PT","path":["/a","/b"]}}`, "GET /things?filter%5Bcountry%5D=PT&filter%5Bpath%5D=%2Fa&filter%5Bpath%5D=%2Fb ", ""},
		{"list-things", `{"filter":"PT"}`, "", "query.filter"},
		{"list-things", `{"limit":null}`, "", "query.limit"},
		{"list-things", `{"limit":{"a":1}}`, "", "query.limit"},
		{"list-things", `{"limit":[[1]]}`, "", "query.limit"},
		{"list-things", `{"format":"csv"}`, "", "arguments.format"},
		{"list-things", `{"body":{}}`, "", "arguments.body"},
		{"list-things", `{"authorization":"Bearer x"}`, "", "arguments.authorization"},
		{"list-things", `{"X-Key":"a"}`, "GET /things a", ""},
		{"list-things", `{"X-Key":"a\r\nAuthorization: b"}`, "", "header.X-Key"},
		{"create-thing", `{"body":{"name":"a","n":12345678901234567890}}`, `POST /things {"name":"a","n":12345678901234567890}`, ""},
		{"create-thing", `{"body":null}`, `POST /things null`, ""},
		{"create-thing", `{}`, `POST /things `, ""},
		{"get-thing", `{"id":"a b/c?d=e#f"}`, "GET /things/a%20b%2Fc%3Fd=e%23f ", ""},
		{"get-thing", `{"id":"../secret"}`, "GET /things/..%2Fsecret ", ""},
		{"get-thing", `{"id":"%2e%2e"}`, "GET /things/%252e%252e ", ""},
		{"get-thing", `{"id":7}`, "GET /things/7 ", ""},
		{"get-thing", `{}`, "", "path.id"},
		{"get-thing", `{"id":["a"]}`, "", "path.id"},
	} {
		got = ""
		r := result(t, post(t, h, call(c.tool, c.arguments)))
		text := ""
		if len(r.Result.Content) > 0 {
			text = r.Result.Content[0].Text
		}
		if got != c.want || r.Result.IsError != (c.wrong != "") || !strings.Contains(text, c.wrong) {
			t.Errorf("%s %s became %q, want %q; %s", c.tool, c.arguments, got, c.want, text)
		}
	}
}

// The paths of other operations are not reached by what somebody calls an id.
func TestNoArgumentReachesAnotherOperation(t *testing.T) {
	t.Parallel()
	h := newHandler(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("reached: %s", r.RequestURI) })
	for _, id := range []string{"secret", "", ".", ".."} {
		r := result(t, post(t, h, call("get-thing", fmt.Sprintf(`{"id":%q}`, id))))
		if !r.Result.IsError && r.Error == nil {
			t.Errorf("the id %q: %+v", id, r)
		}
	}
}

func TestAnAnswerBecomesAResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status      int
		media, body string
		tool        string
		isError     bool
		text        string
		structured  string
		wantStatus  float64
	}{
		"a success":          {200, "application/json", `{"data":[]}`, "list-things", false, `{"data":[]}`, `{"data":[]}`, 200},
		"a media type's say": {200, "application/json; charset=utf-8", `{"data":[]}`, "list-things", false, `{"data":[]}`, `{"data":[]}`, 200},
		"nothing to say":     {204, "", "", "delete-thing", false, "", "", 204},
		"a failure":          {409, "application/json", `{"error":{"code":"taken"}}`, "list-things", true, `{"error":{"code":"taken"}}`, "", 409},
		"bytes":              {200, "application/octet-stream", `{}`, "list-things", true, codeNoJSON, "", 415},
		"a page":             {500, "text/html", `<html>`, "list-things", true, codeNoJSON, "", 415},
		"half an answer":     {200, "application/json", `{"data":[`, "list-things", true, codeNoJSON, "", 415},
		"a redirect":         {302, "application/json", `{}`, "list-things", true, codeNoJSON, "", 415},
		"too much":           {200, "application/json", `{"data":"` + strings.Repeat("x", maxAnswers) + `"}`, "list-things", true, codeTooLarge, "", 413},
	} {
		h := newHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		r := result(t, post(t, h, call(c.tool, map[bool]string{true: `{}`, false: `{"id":"1"}`}[c.tool == "list-things"]))).Result
		text := ""
		if len(r.Content) > 0 {
			text = r.Content[0].Text
		}
		if r.IsError != c.isError || !strings.Contains(text, c.text) || len(text) > 1000 || string(r.StructuredContent) != c.structured || r.Meta["waypost/status"] != c.wantStatus {
			t.Errorf("%s: %+v", name, r)
		}
		if (r.Meta["waypost/retryAfter"] == "7") != (c.status == 409) {
			t.Errorf("%s: %v", name, r.Meta)
		}
	}
}

func TestEachCallerIsShownWhatItMayCall(t *testing.T) {
	t.Parallel()
	h := newHandler(t, nil)
	for _, c := range []struct {
		role, query string
		want        []string
	}{
		{"USER", "", []string{"create-thing", "get-thing", "list-things"}},
		{"EDITOR", "", []string{"create-thing", "delete-thing", "get-thing", "list-things"}},
		{"EDITOR", "?tags=other", []string{"delete-thing"}},
		{"USER", "?tags=Other", []string{}},
		{"EDITOR", "?tags=More%20things,other", []string{"delete-thing", "get-thing"}},
		{"EDITOR", "?tags=more-things&tags=Other", []string{"delete-thing", "get-thing"}},
		{"EDITOR", "?tags=secrets", []string{}},
	} {
		w := httptest.NewRecorder()
		r := request(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+c.role)
		r.URL.RawQuery = strings.TrimPrefix(c.query, "?")
		h.ServeHTTP(w, r)
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, tool := range list.Result.Tools {
			got = append(got, tool.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.role, c.query, diff)
		}
	}
	for _, query := range []string{"tags=", "tags=,", "tags=thing"} {
		w := httptest.NewRecorder()
		r := request(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		r.URL.RawQuery = query
		if h.ServeHTTP(w, r); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if c := result(t, func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := request(t.Context(), call("list-things", "{}"))
		r.URL.RawQuery = "tags=other"
		h.ServeHTTP(w, r)
		return w
	}()); c.Error == nil || c.Error.Message != errTool.Message {
		t.Errorf("a tool without the tag was called: %+v", c)
	}
}

func TestSchemasCarryWhatTheyReferTo(t *testing.T) {
	t.Parallel()
	c, err := newHandler(t, nil).tools()
	if err != nil {
		t.Fatal(err)
	}
	thing := `"Thing":{"properties":{"name":{"type":"string"},"parts":{"items":{"$ref":"#/$defs/Thing"},"type":"array"}},"type":"object"}`
	want := map[string][2]string{
		"create-thing": {
			`{"$defs":{` + thing + `},"additionalProperties":false,"properties":{"body":{"$ref":"#/$defs/Thing"}},"required":["body"],"type":"object"}`,
			`{"$defs":{` + thing + `},"properties":{"data":{"items":{"$ref":"#/$defs/Thing"},"type":"array"}},"required":["data"],"type":"object"}`,
		},
		"delete-thing": {`{"additionalProperties":false,"properties":{"id":{"type":"string"}},"required":["id"],"type":"object"}`, `null`},
	}
	for _, tool := range c.tools {
		w, ok := want[tool.listed.Name]
		if !ok {
			continue
		}
		for i, schema := range []any{tool.listed.InputSchema, tool.listed.OutputSchema} {
			got, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(w[i], string(got)); diff != "" {
				t.Errorf("%s: %s", tool.listed.Name, diff)
			}
		}
	}
}

func TestTwoArgumentsOfOneNameAreAnError(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{`{"name":"body","in":"query"}`, `{"name":"a","in":"query"},{"name":"a","in":"path"}`} {
		doc, err := readObject([]byte(`{"paths":{"/a":{"get":{"operationId":"a","parameters":[` + parameters + `],"responses":{}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		op, _ := doc["paths"].(object)["/a"].(object)["get"].(object)
		if _, err := newTool(doc, "GET", "/a", op, Offer{Name: "a"}); err == nil {
			t.Errorf("%s: no error", parameters)
		}
	}
}

// A client that goes away ends the call, and one call does not wait for another's.
func TestACallEndsWithItsClientAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan error, 1)
	h := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(began)
			<-r.Context().Done()
			ended <- r.Context().Err()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	ctx, goAway := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), request(ctx, call("create-thing", `{"body":{}}`)))
	}()
	<-began
	if r := result(t, post(t, h, call("list-things", `{}`))); r.Result.IsError {
		t.Errorf("%+v", r)
	}
	goAway()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-done
}

func TestABatchRunsAFewCallsAtATime(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	var full sync.WaitGroup
	full.Add(callsAtOnce)
	var first atomic.Int32
	h := newHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if first.Add(1) <= callsAtOnce { // as many as may, at the same time
			full.Done()
			full.Wait()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	var list []string
	for i := range maxBatch {
		list = append(list, strings.Replace(call("list-things", `{}`), `"id":1`, fmt.Sprintf(`"id":%d`, i), 1))
	}
	var answers []called
	w := post(t, h, "["+strings.Join(list, ",")+"]")
	if err := json.Unmarshal(w.Body.Bytes(), &answers); err != nil || len(answers) != maxBatch {
		t.Fatalf("%d answers, %v: %s", len(answers), err, w.Body)
	}
	if most.Load() != callsAtOnce {
		t.Errorf("%d calls at a time, want %d", most.Load(), callsAtOnce)
	}
	if w := post(t, h, "["+strings.Join(append(list, strings.Replace(call("list-things", `{}`), `"id":1`, `"id":99`, 1)), ",")+"]"); w.Code != http.StatusBadRequest {
		t.Errorf("a batch of one too many: %d %.200s", w.Code, w.Body)
	}
}

func TestAPanicOfAnOperationEndsItsCallAlone(t *testing.T) {
	t.Parallel()
	h := newHandler(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	w := post(t, h, call("list-things", `{}`))
	if r := result(t, w); r.Error == nil || r.Error.Code != codeInternal || r.Error.Message != sentences[codeInternal] {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
