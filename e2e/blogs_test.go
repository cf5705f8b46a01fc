package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
)

func TestABlogGoesFromADraftToThePublic(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	root := bearer(admin(t, p, urls.App))
	write := func(method, path, body string) answer {
		return do(t, method, p.url+path, body, slices.Concat(root, []string{"Content-Type", "application/json"})...)
	}
	if a := write("POST", "/api/blogs", `{"title":"Die Brücke über den Fluß","content":"Über das Wasser."}`); a.status != 201 || a.header.Get("Location") != "/api/blogs/1" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const public = "/api/blogs/die-brucke-uber-den-fluss"
	draft := do(t, "GET", p.url+public, "")
	wantError(t, draft, 404, "not_found")
	if draft.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a draft's 404: %v", draft.header)
	}
	var blog struct {
		Data struct {
			Slug        string
			PublishedAt string `json:"published_at"`
		}
	}
	write("PATCH", public, `{"published":true}`).into(t, &blog)
	first := blog.Data.PublishedAt
	a := do(t, "GET", p.url+public, "")
	if a.status != 200 || a.header.Get("Cache-Control") != "public, max-age=60" || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Authorization") || a.header.Get("Etag") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if again := do(t, "GET", p.url+public, "", "If-None-Match", a.header.Get("Etag")); again.status != http.StatusNotModified || len(again.body) > 0 {
		t.Errorf("%d %s", again.status, again.body)
	}
	if private := do(t, "GET", p.url+public, "", root...); private.header.Get("Cache-Control") != "private" {
		t.Errorf("signed in: %v", private.header)
	}
	wantError(t, do(t, "GET", p.url+public, "", "Authorization", "Bearer x.y.z"), 401, "token_invalid")
	if found := do(t, "GET", p.url+"/blogs?q=FLUSS+brucke", ""); !strings.Contains(string(found.body), "Die Brücke") {
		t.Errorf("%s", found.body)
	}
	write("PATCH", public, `{"published":false}`)
	wantError(t, do(t, "GET", p.url+public, ""), 404, "not_found")
	write("PUT", public, `{"published":true,"slug":"bruecke"}`).into(t, &blog)
	if blog.Data.PublishedAt != first || first == "" {
		t.Errorf("published at %s, then at %s", first, blog.Data.PublishedAt)
	}
	wantError(t, do(t, "GET", p.url+public, ""), 404, "not_found")
	if a := do(t, "GET", p.url+"/blogs/bruecke", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Two instances, because what one process knows must not be what keeps slugs apart.
func TestEqualTitlesAtOnceGetSlugsOfTheirOwn(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	instances := []*process{startServe(t, urls.App), startServe(t, urls.App)}
	root := bearer(admin(t, instances[0], urls.App))
	var mu sync.Mutex
	slugs := map[string]bool{}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			var made struct{ Data struct{ Slug string } }
			do(t, "POST", instances[n%2].url+"/api/blogs", `{"title":"The same","content":"Text"}`, slices.Concat(root, []string{"Content-Type", "application/json"})...).into(t, &made)
			mu.Lock()
			defer mu.Unlock()
			slugs[made.Data.Slug] = true
		})
	}
	all.Wait()
	for n := range 20 {
		want := "the-same"
		if n > 0 {
			want = fmt.Sprintf("the-same-%d", n+1)
		}
		if !slugs[want] {
			t.Errorf("no blog has the slug %s", want)
		}
	}
}

func TestTheShortPathsAnswer(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	root := bearer(admin(t, p, urls.App))
	if a := do(t, "POST", p.url+"/auth/login", `{"email":"root@example.com","password":"`+adminPassword+`"}`, "Content-Type", "application/json"); a.status != 200 {
		t.Errorf("/auth/login: %d %s", a.status, a.body)
	}
	description := string(do(t, "GET", p.url+"/docs/openapi.json", "").body)
	for _, path := range []string{"/users", "/users/1", "/posts", "/blogs"} {
		if a := do(t, "GET", p.url+path, "", root...); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if strings.Contains(description, `"`+path+`":`) {
			t.Errorf("%s is described", path)
		}
	}
}
