package api_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
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
