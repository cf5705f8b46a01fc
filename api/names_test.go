package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Whatever has a name or a title is refused one that pretends to be more than it
// is, and the answer names the field.
func TestNamesAndTitlesAreOneLineOfWhatCanBeSeen(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	ada := p.add(t, "ada@example.com", identity.User)
	me := "/api/users/" + p.id(t, "ada@example.com")
	post := p.do(t, "POST", "/api/posts", `{"title":"A post","body":"text\nin lines"}`, ada)
	postPath := fmt.Sprintf("/api/posts/%.0f", post.data(t)["id"])
	for _, bad := range []string{"Ada\nhttps://evil.example", "Ada\r", "Ada\x1b[2J", "Ada\u0085", "\u2028Ada", "\u202eadA", "\u2069Ada", "A\u200bda", "Ada\ufeff"} {
		for _, c := range []struct {
			method, path, field string
			body                map[string]any
		}{
			{"POST", "/api/auth/register", "first_name", map[string]any{"first_name": bad, "last_name": "King", "email": "new@example.com", "password": password}},
			{"POST", "/api/auth/register", "last_name", map[string]any{"first_name": "Ada", "last_name": bad, "email": "new@example.com", "password": password}},
			{"POST", "/api/users", "first_name", map[string]any{"first_name": bad, "last_name": "King", "email": "new@example.com"}},
			{"POST", "/api/users", "last_name", map[string]any{"first_name": "Ada", "last_name": bad, "email": "new@example.com"}},
			{"PATCH", me, "first_name", map[string]any{"first_name": bad}},
			{"PUT", me, "last_name", map[string]any{"last_name": bad}},
			{"POST", "/api/auth/tokens", "name", map[string]any{"name": bad, "scopes": []string{"read"}}},
			{"POST", "/api/posts", "title", map[string]any{"title": bad, "body": "text"}},
			{"PATCH", postPath, "title", map[string]any{"title": bad}},
			{"PUT", postPath, "title", map[string]any{"title": bad}},
			{"POST", "/api/posts", "tags[1]", map[string]any{"title": "A post", "body": "text", "tags": []string{"good", bad}}},
			{"PATCH", postPath, "tags[0]", map[string]any{"tags": []string{bad}}},
			{"POST", "/api/blogs", "title", map[string]any{"title": bad, "content": "text"}},
			{"PATCH", "/api/blogs/1", "title", map[string]any{"title": bad}},
		} {
			what := fmt.Sprintf("%s %s %s %+q", c.method, c.path, c.field, bad)
			a := p.do(t, c.method, c.path, object(c.body), root)
			a.wants(t, what, 422, "validation_failed")
			if diff := cmp.Diff([]string{"body." + c.field}, keysOf(a.body.Error.Details)); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
	}
	for _, name := range []string{"علی\u200cرضا", "क्\u200dष"} {
		p.do(t, "PATCH", me, object(map[string]any{"first_name": name}), ada).wants(t, name, 200, "")
	}
	p.do(t, "PATCH", me, `{"first_name":"   "}`, ada).wants(t, "a blank name", 422, "validation_failed")
}

// Whatever has a name or a title has it without white space around.
func TestNamesAndTitlesAreAnsweredWithoutWhiteSpaceAroundThem(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	root := p.add(t, "root@example.com", identity.Admin)
	for _, c := range []struct {
		method, path, field string
		body                map[string]any
	}{
		{"POST", "/api/users", "first_name", map[string]any{"first_name": " Name\u00a0", "last_name": "King", "email": "new@example.com"}},
		{"POST", "/api/auth/tokens", "name", map[string]any{"name": " Name ", "scopes": []string{"read"}}},
		{"POST", "/api/posts", "title", map[string]any{"title": " Name ", "body": "text"}},
		{"PATCH", "/api/posts/1", "title", map[string]any{"title": "\u3000Name "}},
		{"PATCH", "/api/posts/1", "tags", map[string]any{"tags": []string{" Name", "Name "}}},
		{"POST", "/api/blogs", "title", map[string]any{"title": " Name ", "content": "text"}},
		{"PATCH", "/api/blogs/1", "title", map[string]any{"title": " Name "}},
	} {
		a := p.do(t, c.method, c.path, object(c.body), root)
		if got := fmt.Sprint(a.data(t)[c.field]); strings.Trim(got, "[]") != "Name" {
			t.Errorf("%s %s: %q", c.method, c.path, a.text)
		}
	}
	for _, c := range [][2]string{{"/api/posts", `{"title":"  ","body":"text"}`}, {"/api/blogs", `{"title":"\u3000","content":"text"}`}, {"/api/posts", `{"title":"A","body":"text","tags":[" "]}`}} {
		p.do(t, "POST", c[0], c[1], root).wants(t, "nothing but white space", 422, "validation_failed")
	}
}

// elsewhere are the texts in bodies that are no names, by their path or the path with the
// operation: what they hold is checked in another way, or anything may stand in it.
var elsewhere = map[string]string{
	"body": "text", "content": "text", "excerpt": "text",
	"password": "secret", "current_password": "secret", "new_password": "secret", "code": "secret", "code_verifier": "secret",
	"mfa_token": "secret", "refresh_token": "secret", "token": "secret",
	"slug": "a form of its own", "domain": "a form of its own", "timezone": "a form of its own", "image": "a form of its own",
	"content_type": "a form of its own", "allowed_networks[]": "a form of its own", "to": "a form of its own", "sha256": "a form of its own",
	"event_type": "looked for", "external_id": "looked for", "provider": "looked for",
	"create-webhook-replay target": "looked for", "create-webhook-replay error": "looked for",
	"presign-upload filename":      "checked by internal/upload",
	"create-chat-completion model": "looked for", "create-embeddings model": "looked for", "create-chat-completion messages[].role": "handed on",
	// Reports of visits are counted, whatever they say: browsers get no other answer.
	"collect-hit name": "counted", "collect-hit props{}": "counted", "referrer": "counted", "url": "counted", "site_key": "looked for",
	"events[].event_id": "counted", "events[].ip": "counted", "events[].name": "counted", "events[].referrer": "counted",
	"events[].url": "counted", "events[].user_agent": "counted",
}

// A text that somebody sends is a name until the list above says what else it is, so that
// a new field is not forgotten.
func TestEveryTextThatSomebodySendsIsOneLineUnlessItSaysWhyNot(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	seen, lines := map[string]bool{}, 0
	for _, item := range doc["paths"].(map[string]any) {
		for _, op := range item.(map[string]any) {
			op := op.(map[string]any)
			id := op["operationId"].(string)
			body, _ := op["requestBody"].(map[string]any)
			content, _ := body["content"].(map[string]any)
			for _, media := range content {
				texts(doc, media.(map[string]any)["schema"], "", func(path, pattern string) {
					_, byPath := elsewhere[path]
					_, byBoth := elsewhere[id+" "+path]
					seen[path], seen[id+" "+path] = true, true
					switch line := strings.Contains(pattern, text.RefusedInLine); {
					case line:
						lines++
					case !byPath && !byBoth:
						t.Errorf("%s: %s may have line breaks and marks of direction: make it `line`, or say in elsewhere what it is", id, path)
					}
				})
			}
		}
	}
	for path := range elsewhere {
		if !seen[path] {
			t.Errorf("nobody sends %s", path)
		}
	}
	if lines < 15 {
		t.Errorf("only %d names", lines)
	}
}

// texts calls found with each text that a schema lets somebody write as they like: by its
// path in the body, and with its pattern.
func texts(doc map[string]any, schema any, path string, found func(path, pattern string)) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		texts(doc, doc["components"].(map[string]any)["schemas"].(map[string]any)[name], path, found)
		return
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[key].([]any)
		for _, one := range list {
			texts(doc, one, path, found)
		}
	}
	if strings.Contains(fmt.Sprint(s["type"]), "string") && s["enum"] == nil && s["format"] == nil && s["readOnly"] != true {
		found(path, fmt.Sprint(s["pattern"]))
	}
	properties, _ := s["properties"].(map[string]any)
	for name, one := range properties {
		texts(doc, one, strings.TrimPrefix(path+"."+name, "."), found)
	}
	if s["items"] != nil {
		texts(doc, s["items"], path+"[]", found)
	}
	if s["additionalProperties"] != nil {
		texts(doc, s["additionalProperties"], path+"{}", found)
	}
}

func keysOf(m map[string]string) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

func TestNamesOfSitesAndKeysAreOneLineOfWhatCanBeSeen(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	made := s.create(t, `{"name":"Blog","domain":"blog.example.com"}`)
	path := "/api/admin/sites/" + made.ID
	for _, bad := range []string{"Blog\nhttps://evil.example", "\tBlog", "\u202egolB", "Bl\u200bog"} {
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/api/admin/sites", object(map[string]any{"name": bad, "domain": "example.com"})},
			{"PATCH", path, object(map[string]any{"name": bad})},
			{"PUT", path, object(map[string]any{"name": bad})},
			{"POST", path + "/keys", object(map[string]any{"name": bad})},
		} {
			what := fmt.Sprintf("%s %s %+q", c.method, c.path, bad)
			a := s.send(t, c.method, c.path, c.body)
			a.wants(t, what, 422, "validation_failed")
			if diff := cmp.Diff([]string{"body.name"}, keysOf(a.body.Error.Details)); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
	}
}
