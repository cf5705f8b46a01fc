package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/identity"
)

func TestABlogIsWrittenByEditorsAndReadByEverybody(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ed, eve := p.add(t, "ed@example.com", identity.Editor), p.add(t, "eve@example.com", identity.User)
	a := p.do(t, "POST", "/api/blogs", `{"title":"Crème brûlée","content":"World ✓","published":true}`, ed)
	a.wants(t, "create", 201, "")
	if got := a.header.Get("Location"); got != "/api/blogs/1" {
		t.Errorf("Location %q", got)
	}
	blog := a.data(t)
	want := map[string]any{
		"id": 1.0, "author_id": 1.0, "title": "Crème brûlée", "slug": "creme-brulee", "excerpt": "", "content": "World ✓", "image": "",
		"published": true, "published_at": blog["created_at"], "created_at": blog["created_at"], "updated_at": blog["created_at"],
	}
	if diff := cmp.Diff(want, blog); diff != "" {
		t.Error(diff)
	}
	p.do(t, "POST", "/blogs", `{"title":"Draft","content":"Secret","slug":"draft"}`, ed).wants(t, "a draft", 201, "")
	draft := p.do(t, "GET", "/api/blogs/draft", "", ed)
	draft.wants(t, "an editor reads the draft", 200, "")
	if _, has := draft.data(t)["published_at"]; has {
		t.Errorf("a draft was published: %s", draft.text)
	}
	nobody := func(*http.Request) {}
	for name, who := range map[string]func(*http.Request){"nobody": nobody, "a USER": eve} {
		for _, path := range []string{"/api/blogs/1", "/api/blogs/creme-brulee", "/blogs/creme-brulee"} {
			a := p.do(t, "GET", path, "", who)
			a.wants(t, name+" reads "+path, 200, "")
			if diff := cmp.Diff(want, a.data(t)); diff != "" {
				t.Error(diff)
			}
		}
		for _, path := range []string{"/api/blogs/draft", "/api/blogs/2", "/api/blogs/former", "/api/blogs/Not%20a%20slug", "/api/blogs/99999999999999999999"} {
			a := p.do(t, "GET", path, "", who)
			a.wants(t, name+" reads "+path, 404, "not_found")
			if a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", path, a.header)
			}
		}
		for _, query := range []string{"", "&q=secret", "&published=false", "&q=secret&published=false&sort=title"} {
			if a := p.do(t, "GET", "/api/blogs?total=true"+query, "", who); a.status != 200 || strings.Contains(a.text, "Secret") || query != "" && *a.body.Meta.Total != 0 {
				t.Errorf("%s lists %s: %s", name, query, a.text)
			}
		}
	}
	for method, body := range map[string]string{"PUT": `{"title":"Hers"}`, "PATCH": `{"title":"Hers"}`, "DELETE": "", "POST": `{"title":"Hers","content":"C"}`} {
		path := "/api/blogs/creme-brulee"
		if method == "POST" {
			path = "/api/blogs"
		}
		p.do(t, method, path, body, eve).wants(t, "a USER's "+method, 403, "forbidden")
		p.do(t, method, path, body).wants(t, "nobody's "+method, 401, "unauthenticated")
	}
	p.do(t, "PATCH", "/api/blogs/creme-brulee", `{"slug":"custard"}`, ed).wants(t, "another slug", 200, "")
	p.do(t, "GET", "/api/blogs/creme-brulee", "").wants(t, "the former slug", 404, "not_found")
	p.do(t, "PUT", "/api/blogs/draft", `{"slug":"custard"}`, ed).wants(t, "a taken slug", 409, "slug_taken")
	p.do(t, "POST", "/api/blogs", `{"title":"T","content":"C","slug":"custard"}`, ed).wants(t, "a taken slug", 409, "slug_taken")
	p.do(t, "DELETE", "/api/blogs/custard", "", ed).wants(t, "delete", 204, "")
	p.do(t, "GET", "/api/blogs/custard", "").wants(t, "the deleted one", 404, "not_found")
}

func TestPublicBlogsAreKeptByCachesAndOthersByNone(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ed := p.add(t, "ed@example.com", identity.Editor)
	p.do(t, "POST", "/api/blogs", `{"title":"Hello","content":"World","published":true}`, ed).wants(t, "create", 201, "")
	for _, path := range []string{"/api/blogs", "/api/blogs/hello", "/blogs/1", "/api/blogs?q=wor&sort=title"} {
		for control, who := range map[string]func(*http.Request){"public, max-age=60": func(*http.Request) {}, "private": ed} {
			a := p.do(t, "GET", path, "", who)
			a.wants(t, path, 200, "")
			tag := a.header.Get("ETag")
			if a.header.Get("Cache-Control") != control || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Authorization") || tag == "" {
				t.Errorf("%s, %s: %v", path, control, a.header)
			}
			again := p.do(t, "GET", path, "", who, func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
			if again.status != 304 || again.text != "" || again.header.Get("ETag") != tag || again.header.Get("Cache-Control") != control {
				t.Errorf("%s with what is known: %d %v", path, again.status, again.header)
			}
			p.do(t, "GET", path, "", who, func(r *http.Request) { r.Header.Set("If-None-Match", `W/"other"`) }).wants(t, path+" with something else", 200, "")
		}
		for name, change := range map[string]func(*http.Request){
			"token_invalid":   func(r *http.Request) { r.Header.Set("Authorization", "Bearer a.b.c") },
			"unauthenticated": func(r *http.Request) { r.Header.Set("Authorization", "Basic YTpi") },
		} {
			a := p.do(t, "GET", path, "", change)
			a.wants(t, path+" with a bad token", 401, name)
			if a.header.Get("Cache-Control") != "no-store" || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%v", a.header)
			}
		}
	}
}

func TestBodiesOfBlogsMayBeLargerThanOthers(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ed := p.add(t, "ed@example.com", identity.Editor)
	escaped := strings.Repeat(`\ud83d\ude00`, 499_999)
	p.do(t, "POST", "/api/blogs", `{"title":"Long","content":"`+escaped+`x"}`, ed).wants(t, "6 MB for 500,000 characters", 201, "")
	a := p.do(t, "POST", "/api/blogs", `{"title":"Long","content":"`+escaped+`xy"}`, ed)
	a.wants(t, "one character too many", 422, "validation_failed")
	if a.body.Error.Details["body.content"] == "" {
		t.Error(a.text)
	}
	p.do(t, "PATCH", "/api/blogs/long", `{"content":"`+strings.Repeat("x", 8<<20)+`"}`, ed).wants(t, "more than 8 MiB", 413, "payload_too_large")
	p.do(t, "POST", "/api/posts", `{"title":"Long","body":"`+strings.Repeat("x", 1<<20)+`"}`, ed).wants(t, "a post of more than 1 MiB", 413, "payload_too_large")
}

func TestBadBlogsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ed := p.add(t, "ed@example.com", identity.Editor)
	for body, field := range map[string]string{
		`{}`:                                    "body.title",
		`{"title":"T","content":"C","slug":""}`: "body.slug",
		`{"title":"T","content":"C","slug":"A B"}`:                                 "body.slug",
		`{"title":"T","content":"C","slug":"42"}`:                                  "body.slug",
		`{"title":"T","content":"C","slug":null}`:                                  "body.slug",
		`{"title":"T","content":"C","image":"http://example.com"}`:                 "body.image",
		`{"title":"T","content":"C","published":"yes"}`:                            "body.published",
		`{"title":"T","content":"C","published_at":"2026-01-01T00:00:00Z"}`:        "body.published_at",
		`{"title":"T","content":"C","author_id":7}`:                                "body.author_id",
		`{"title":"T","content":"C","excerpt":"` + strings.Repeat("x", 501) + `"}`: "body.excerpt",
	} {
		a := p.do(t, "POST", "/api/blogs", body, ed)
		a.wants(t, body, 422, "validation_failed")
		if a.body.Error.Details[field] == "" {
			t.Errorf("%.60s: details %v", body, a.body.Error.Details)
		}
	}
	for _, query := range []string{"sort=slug", "sort=id", "limit=0", "published=perhaps", "cursor=x", "author_id=0", "q=%00"} {
		p.do(t, "GET", "/api/blogs?"+query, "").wants(t, query, 422, "validation_failed")
	}
}

func TestListsAreSortedAndTheirCursorsAreOfOneOrder(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ed, root := p.add(t, "ed@example.com", identity.Editor), p.add(t, "root@example.com", identity.Admin)
	for _, title := range []string{"Charlie", "Alpha", "Delta", "Bravo"} {
		p.do(t, "POST", "/api/blogs", fmt.Sprintf(`{"title":%q,"content":"C","published":true}`, title), ed).wants(t, "create", 201, "")
		p.do(t, "POST", "/api/posts", fmt.Sprintf(`{"title":%q,"body":"B"}`, title), ed).wants(t, "create", 200, "")
	}
	for sort, want := range map[string]string{
		"created_at": "Charlie Alpha Delta Bravo", "-created_at": "Bravo Delta Alpha Charlie",
		"title": "Alpha Bravo Charlie Delta", "-title": "Delta Charlie Bravo Alpha",
	} {
		for _, path := range []string{"/api/blogs", "/api/posts"} {
			var titles []string
			cursor := ""
			for {
				a := p.do(t, "GET", path+"?limit=3&sort="+sort+"&cursor="+cursor, "", ed)
				a.wants(t, path+" by "+sort, 200, "")
				titles = append(titles, titlesOf(t, a)...)
				if cursor = a.body.Meta.NextCursor; cursor == "" {
					break
				}
				other := "title"
				if sort == other {
					other = "-title"
				}
				p.do(t, "GET", path+"?sort="+other+"&cursor="+cursor, "", ed).wants(t, "a cursor of another order", 422, "validation_failed")
			}
			if got := strings.Join(titles, " "); got != want {
				t.Errorf("%s by %s: %s", path, sort, got)
			}
		}
	}
	p.do(t, "GET", "/api/posts?sort=body", "", ed).wants(t, "an unlisted order", 422, "validation_failed")
	for sort, status := range map[string]int{"last_name": 200, "-last_name": 200, "email": 200, "title": 422, "password_hash": 422} {
		p.do(t, "GET", "/api/users?sort="+sort, "", root).wants(t, "accounts by "+sort, status, map[int]string{422: "validation_failed"}[status])
	}
}

func titlesOf(t *testing.T, a answer) []string {
	t.Helper()
	var rows []struct{ Title string }
	if err := json.Unmarshal(a.body.Data, &rows); err != nil {
		t.Fatal(err)
	}
	titles := make([]string, len(rows))
	for i, r := range rows {
		titles[i] = r.Title
	}
	return titles
}
