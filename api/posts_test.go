package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
)

func TestAPostIsStoredForWhoIsSignedIn(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "root@example.com", identity.Admin)
	ada := p.add(t, "ada@example.com", identity.User)
	a := p.do(t, "POST", "/api/posts", `{"title":"Hello","body":"World ✓","tags":["b","a","b"]}`, ada)
	a.wants(t, "create", 200, "")
	var post map[string]any
	if err := json.Unmarshal(a.body.Data, &post); err != nil {
		t.Fatal(err)
	}
	delete(post, "created_at")
	delete(post, "updated_at")
	if diff := cmp.Diff(map[string]any{
		"id": 1.0, "author_id": 2.0, "title": "Hello", "body": "World ✓", "tags": []any{"b", "a"},
	}, post); diff != "" {
		t.Error(diff)
	}
	p.do(t, "POST", "/api/posts", `{"title":"No tags","body":"."}`, ada).wants(t, "create without tags", 200, "")

	page := p.do(t, "GET", "/api/posts?limit=1&total=true", "", ada)
	page.wants(t, "list", 200, "")
	if *page.body.Meta.Total != 2 || !page.body.Meta.HasMore || !strings.Contains(page.text, `"tags":[]`) {
		t.Errorf("first page %s", page.text)
	}
	last := p.do(t, "GET", "/api/posts?limit=1&cursor="+page.body.Meta.NextCursor, "", ada)
	if last.body.Meta.HasMore || !strings.Contains(last.text, `"Hello"`) {
		t.Errorf("last page %s", last.text)
	}
	for query, hits := range map[string]int{"tag=a": 1, "tag=A": 0, "author_id=2": 2, "author_id=1": 0, "q=WORLD": 1, "author_id=9223372036854775807": 0} {
		a := p.do(t, "GET", "/api/posts?total=true&"+query, "", ada)
		if a.status != 200 || *a.body.Meta.Total != int64(hits) {
			t.Errorf("%s: %s", query, a.text)
		}
	}
}

func TestBadPostsAreRefusedAndNotStored(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ada := p.add(t, "ada@example.com", identity.User)
	for body, field := range map[string]string{
		`{}`:                                     "body.title",
		`{"title":"T"}`:                          "body.body",
		`{"title":"","body":"B"}`:                "body.title",
		`{"title":"T","body":"B","id":7}`:        "body.id", // abuse case 33
		`{"title":"T","body":"B","author_id":1}`: "body.author_id",
		`{"title":"T","body":"B","created_at":"2020-01-01T00:00:00Z"}`: "body.created_at",
		`{"title":"T","body":"B","colour":"red"}`:                      "body.colour",
		`{"title":"T","body":"B","tags":null}`:                         "body.tags",
		`{"title":"T","body":"B","tags":[""]}`:                         "body.tags[0]",
		`{"title":"T","body":"B","tags":"a"}`:                          "body.tags",
		`{"title":"T","body":"B","tags":[1,2,3,4,5,6,7,8,9,10,11]}`:    "body.tags",
		`{"title":"` + strings.Repeat("x", 201) + `","body":"B"}`:      "body.title",
	} {
		a := p.do(t, "POST", "/api/posts", body, ada)
		a.wants(t, body, 422, "validation_failed")
		if a.body.Error.Details[field] == "" {
			t.Errorf("%.60s: details %v", body, a.body.Error.Details)
		}
	}
	p.do(t, "POST", "/api/posts", `{"title":"T","body":"B"}`).wants(t, "unsigned", 401, "unauthenticated")
	p.do(t, "POST", "/api/posts", `{"title":"T\u0000","body":"B"}`, ada).wants(t, "U+0000", 422, "validation_failed")
	var posts int
	if err := p.db.Pool().QueryRow(t.Context(), `select count(*) from posts`).Scan(&posts); err != nil || posts != 0 {
		t.Errorf("%d posts were stored, %v", posts, err)
	}
}
