package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// useTool calls a tool as its assistant would.
func useTool(t *testing.T, p *process, token, name string, arguments any) outside.Answer {
	t.Helper()
	body := outside.JSON(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
	return outside.Do(t, "POST", p.url+"/mcp", body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}

// outcome is what a call of a tool came to.
type outcome struct {
	Result struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]any `json:"_meta"`
	}
}

func TestToolsAreLimitedAndAuditedAsOperationsAre(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	token := admin(t, p, url)
	post := map[string]any{"title": "By an assistant", "body": "Text"}

	made := useTool(t, p, token, "create-post", map[string]any{"body": post})
	var o outcome
	if made.Into(t, &o); made.Status != 200 || o.Result.IsError {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	var log struct {
		Data []struct {
			Action    string
			RequestID string `json:"request_id"`
			Table     string
			IP        string
		}
	}
	id := made.Header.Get("X-Request-Id")
	outside.Do(t, "GET", p.url+"/api/admin/audit/verify", "", "Authorization", "Bearer "+token) // which seals first
	outside.Do(t, "GET", p.url+"/api/admin/audit?request_id="+id, "", "Authorization", "Bearer "+token).Into(t, &log)
	if len(log.Data) != 1 || log.Data[0].Action != "create-post" || log.Data[0].Table != "posts" || log.Data[0].IP != "127.0.0.1" {
		t.Errorf("the audit log has %+v", log.Data)
	}

	var bot struct{ Data struct{ Token string } }
	outside.Do(t, "POST", p.url+"/api/auth/tokens", `{"name":"assistant","scopes":["read"],"rate":3}`,
		"Authorization", "Bearer "+token, "Content-Type", "application/json").Into(t, &bot)
	for n := range 3 { // each counts once, though there is a request within the request
		if a := useTool(t, p, bot.Data.Token, "list-posts", map[string]any{}); a.Status != 200 {
			t.Fatalf("call %d: %d %s", n+1, a.Status, a.Body)
		}
	}
	a := useTool(t, p, bot.Data.Token, "list-posts", map[string]any{})
	wantError(t, a, http.StatusTooManyRequests, "rate_limited")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestToolsTakeWhatTheirOperationsTake(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	token := admin(t, p, url)
	long := strings.Repeat("\u00e9", 500_000) // 1 MB
	made := useTool(t, p, token, "create-blog", map[string]any{"body": map[string]any{"title": "Long", "content": long, "slug": "long"}})
	var o outcome
	if made.Into(t, &o); o.Result.IsError || o.Result.Meta["waypost/status"] != 201.0 {
		t.Fatalf("%.500s", made.Body)
	}
	for n := range 2 {
		useTool(t, p, token, "create-blog", map[string]any{"body": map[string]any{"title": "Long", "content": long, "slug": fmt.Sprintf("long-%d", n)}})
	}
	useTool(t, p, token, "list-blogs", map[string]any{}).Into(t, &o)
	if !o.Result.IsError || !strings.Contains(o.Result.Content[0].Text, "answer_too_large") {
		t.Errorf("three long blogs: %.300s", o.Result.Content[0].Text)
	}
	too := useTool(t, p, token, "create-blog", map[string]any{"body": map[string]any{"title": "Too long", "content": strings.Repeat("x", 10<<20)}})
	wantError(t, too, http.StatusRequestEntityTooLarge, "payload_too_large")
	other := outside.Do(t, "POST", p.url+"/mcp", "<a/>", "Authorization", "Bearer "+token, "Content-Type", "application/xml")
	wantError(t, other, http.StatusUnsupportedMediaType, "unsupported_media_type")

	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	outside.Do(t, "POST", p.url+"/mcp?tags=blogs", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Authorization", "Bearer "+token, "Content-Type", "application/json", "Origin", "https://waypost.example").Into(t, &list)
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"create-blog", "delete-blog", "get-blog", "list-blogs", "put-blog", "update-blog"}; !slices.Equal(names, want) {
		t.Errorf("the tools with the tag blogs: %v", names)
	}
}

func TestToolsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, "WAYPOST_MCP=off")
	for _, method := range []string{"GET", "POST"} {
		wantError(t, outside.Do(t, method, p.url+"/mcp", "{}"), http.StatusNotFound, "not_found")
	}
}
