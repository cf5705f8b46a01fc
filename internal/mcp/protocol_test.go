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
	"testing"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// What the protocol's server would say of itself in errors.
var itsOwnWords = []string{"mcp.", "json:", "Go ", "unmarshal", "jsonrpc2", "*", "struct", "%", "goroutine", "supported versions:", "Content-Type must"}

func TestWhatIsWrongWithAMessageIsSaidInJSONRPC(t *testing.T) {
	t.Parallel()
	h := newHandler(t, func(http.ResponseWriter, *http.Request) { t.Error("an operation was called") })
	discover := `{"jsonrpc":"2.0","id":"i","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	newest := []string{"MCP-Protocol-Version", "2026-07-28"}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   int
		id     string
	}{
		"nothing":                     {``, nil, 400, codeParse, "null"},
		"no JSON":                     {`{nope`, nil, 400, codeParse, "null"},
		"two values":                  {`{} {}`, nil, 400, codeParse, "null"},
		"a member twice":              {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, nil, 400, codeParse, "null"},
		"no UTF-8":                    {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", nil, 400, codeParse, "null"},
		"half a surrogate":            {`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, nil, 400, codeParse, "null"},
		"a text":                      {`"ping"`, nil, 400, codeInvalid, "null"},
		"an empty object":             {`{}`, nil, 400, codeInvalid, "null"},
		"an empty batch":              {`[]`, nil, 400, codeInvalid, "null"},
		"a batch of numbers":          {`[1,2]`, nil, 400, codeInvalid, "null"},
		"a batch in a batch":          {`[[{"jsonrpc":"2.0","id":1,"method":"ping"}]]`, nil, 400, codeInvalid, "null"},
		"one id twice":                {`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, codeInvalid, "1"},
		"no version":                  {`{"id":1,"method":"ping"}`, nil, 400, codeInvalid, "1"},
		"another version":             {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, nil, 400, codeInvalid, "1"},
		"another case":                {`{"jsonrpc":"2.0","id":1,"Method":"ping"}`, nil, 400, codeInvalid, "1"},
		"null for an id":              {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, codeInvalid, "null"},
		"a fraction for an id":        {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, codeInvalid, "null"},
		"an object for an id":         {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, codeInvalid, "null"},
		"a long id":                   {`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 300) + `","method":"ping"}`, nil, 400, codeInvalid, "null"},
		"a call without an id":        {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"list-things"}}`, nil, 400, codeInvalid, "null"},
		"a notification with an id":   {`{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, nil, 400, codeInvalid, "1"},
		"a response":                  {`{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, codeInvalid, "1"},
		"parameters in a list":        {`{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, nil, 400, codeInvalid, "1"},
		"deep":                        {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`, nil, 400, codeInvalid, "null"},
		"very deep":                   {strings.Repeat("[", 1<<20), nil, 400, codeParse, "null"},
		"no such method":              {`{"jsonrpc":"2.0","id":"a","method":"resources/list"}`, nil, 200, codeMethod, `"a"`},
		"no such method, newer":       {`{"jsonrpc":"2.0","id":"a","method":"resources/list"}`, newest, 404, codeMethod, `"a"`},
		"a subscription":              {`{"jsonrpc":"2.0","id":"a","method":"subscriptions/listen","params":{}}`, newest, 404, codeMethod, `"a"`},
		"no name":                     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, nil, 200, codeParams, "1"},
		"no parameters":               {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, nil, 400, codeParams, "1"},
		"a number for a name":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, nil, 200, codeParams, "1"},
		"a number for arguments":      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list-things","arguments":7}}`, nil, 200, codeParams, "1"},
		"many arguments":              {call("list-things", "{"+strings.TrimSuffix(many(101), ",")+"}"), nil, 200, codeParams, "1"},
		"much beside the arguments":   {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list-things","_meta":{` + strings.TrimSuffix(many(9000), ",") + `}}}`, nil, 400, codeInvalid, "1"},
		"a long list":                 {"[" + strings.Repeat("1,", 1<<18) + "1]", nil, 400, codeInvalid, "null"},
		"no such tool":                {call("get-secret", `{}`), nil, 200, codeParams, "1"},
		"no such page":                {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, nil, 200, codeParams, "1"},
		"a number for a version":      {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`, nil, 200, codeParams, "1"},
		"an unknown protocol":         {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"MCP-Protocol-Version", "1999-01-01"}, 400, codeVersion, "null"},
		"a protocol of the future":    {strings.ReplaceAll(discover, "2026-07-28", "2099-01-01"), []string{"MCP-Protocol-Version", "2099-01-01", "Mcp-Method", "server/discover"}, 400, codeVersion, `"i"`},
		"a header that says other":    {discover, append([]string{"Mcp-Method", "tools/list"}, newest...), 400, codeHeaderMismatch, `"i"`},
		"newer, without its headers":  {discover, newest, 400, codeHeaderMismatch, `"i"`},
		"newer, without its metadata": {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append([]string{"Mcp-Method", "tools/list"}, newest...), 400, codeParams, "1"},
		"a batch that is too new":     {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, []string{"MCP-Protocol-Version", "2025-06-18"}, 400, codeInvalid, "null"},
	} {
		w := post(t, h, c.body, c.header...)
		var answer struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   problem         `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Errorf("%s: %d %.200s: %v", name, w.Code, w.Body, err)
			continue
		}
		if w.Code != c.status || answer.Error.Code != c.code || string(answer.ID) != c.id || answer.Version != "2.0" {
			t.Errorf("%s: %d %s, want %d with %d for %s", name, w.Code, w.Body, c.status, c.code, c.id)
		}
		checkAnswer(t, name, w)
	}
}

// many are n members of an object.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":1,`, i)
	}
	return b.String()
}

// checkAnswer holds what every answer has and has not.
func checkAnswer(t *testing.T, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
		t.Errorf("%s: %v", name, w.Header())
	}
	for _, words := range itsOwnWords {
		if strings.Contains(w.Body.String(), words) {
			t.Errorf("%s: the answer says %q: %s", name, words, w.Body)
		}
	}
}

func TestWhatIsWrongWithTheRequestIsSaidInTheEnvelope(t *testing.T) {
	t.Parallel()
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, c := range map[string]struct {
		status int
		code   string
		change func(h *Handler, r *http.Request)
	}{
		"another origin":     {403, fault.CodeForbidden, func(_ *Handler, r *http.Request) { r.Header.Set("Origin", "https://evil.example") }},
		"no origin's origin": {403, fault.CodeForbidden, func(_ *Handler, r *http.Request) { r.Header.Set("Origin", "null") }},
		"another scheme":     {403, fault.CodeForbidden, func(_ *Handler, r *http.Request) { r.Header.Set("Origin", "http://things.example") }},
		"another port":       {403, fault.CodeForbidden, func(_ *Handler, r *http.Request) { r.Header.Set("Origin", "https://things.example:8443") }},
		"two origins": {403, fault.CodeForbidden, func(_ *Handler, r *http.Request) {
			r.Header["Origin"] = []string{"https://things.example", "https://evil.example"}
		}},
		"nobody": {401, fault.CodeUnauthenticated, func(_ *Handler, r *http.Request) { r.Header.Del("Authorization") }},
		"a body that is long": {413, fault.CodePayloadTooLarge, func(h *Handler, _ *http.Request) {
			h.o.ReadBody = func(http.ResponseWriter, *http.Request, int64) ([]byte, error) {
				return nil, fault.New(fault.TooLarge, fault.CodePayloadTooLarge, "Too large.")
			}
		}},
		"no description": {500, fault.CodeInternal, func(h *Handler, _ *http.Request) {
			h.tools = func() (*catalogue, error) { return nil, errors.New("mcp.secret") }
		}},
		"its time over": {503, fault.CodeUnavailable, func(_ *Handler, r *http.Request) {
			ctx, cancel := context.WithDeadline(r.Context(), time.Unix(0, 0))
			cancel()
			*r = *r.WithContext(ctx)
		}},
	} {
		h := newHandler(t, func(http.ResponseWriter, *http.Request) { t.Error("an operation was called") })
		w, r := httptest.NewRecorder(), request(t.Context(), strings.Replace(ping, "ping", "tools/list", 1))
		c.change(h, r)
		h.ServeHTTP(w, r)
		var envelope struct{ Error struct{ Code string } }
		if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil || w.Code != c.status || envelope.Error.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, c.status, c.code)
		}
		if (w.Header().Get("WWW-Authenticate") != "") != (c.status == http.StatusUnauthorized) {
			t.Errorf("%s: %v", name, w.Header())
		}
		checkAnswer(t, name, w)
	}
	w := post(t, newHandler(t, nil), ping, "Origin", "https://things.example")
	if w.Code != http.StatusOK {
		t.Errorf("the own origin: %d %s", w.Code, w.Body)
	}
}

// Nobody whom the service doesn't know makes it read a body.
func TestABodyIsReadForThoseAloneWhoMaySendIt(t *testing.T) {
	t.Parallel()
	h := newHandler(t, nil)
	h.o.ReadBody = func(http.ResponseWriter, *http.Request, int64) ([]byte, error) {
		t.Error("the body was read")
		return nil, io.EOF
	}
	for _, header := range [][]string{{"Authorization", "Basic x"}, {"Origin", "https://evil.example"}} {
		post(t, h, "{}", header...)
	}
}

func TestVersionsOfTheProtocol(t *testing.T) {
	t.Parallel()
	h := newHandler(t, nil)
	for asked, want := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05", "1999-01-01": "2025-11-25",
	} {
		w := post(t, h, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		var answer struct {
			Result struct {
				ProtocolVersion string
				Capabilities    json.RawMessage
				ServerInfo      struct{ Name string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Result.ProtocolVersion != want ||
			string(answer.Result.Capabilities) != `{"tools":{}}` || answer.Result.ServerInfo.Name != "waypost" {
			t.Errorf("%s: %d %s", asked, w.Code, w.Body)
		}
		if w.Header().Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: a session", asked)
		}
	}
	if w := post(t, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); w.Code != http.StatusAccepted || w.Body.Len() != 0 {
		t.Errorf("a notification: %d %s", w.Code, w.Body)
	}
}

// Whatever somebody sends, the answer is JSON of ours.
func FuzzMessages(f *testing.F) {
	for _, body := range []string{
		call("list-things", `{"limit":1}`), "[" + call("get-thing", `{"id":"a"}`) + "]", `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
	} {
		f.Add(body, "2025-06-18")
		f.Add(body, "2026-07-28")
	}
	f.Fuzz(func(t *testing.T, body, version string) {
		h := newHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{}`)
		})
		w := post(t, h, body, "MCP-Protocol-Version", version)
		if w.Code == http.StatusAccepted {
			return
		}
		if !json.Valid(w.Body.Bytes()) || w.Code >= http.StatusInternalServerError || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
