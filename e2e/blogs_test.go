package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/e2e/outside"
)

func TestABlogGoesFromADraftToThePublic(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	p := startServe(t, urls.App)
	root := outside.Bearer(admin(t, p, urls.App))
	write := func(method, path, body string) outside.Answer {
		return outside.Do(t, method, p.url+path, body, slices.Concat(root, []string{"Content-Type", "application/json"})...)
	}
	if a := write("POST", "/api/blogs", `{"title":"Die Brücke über den Fluß","content":"Über das Wasser."}`); a.Status != 201 || a.Header.Get("Location") != "/api/blogs/1" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	const public = "/api/blogs/die-brucke-uber-den-fluss"
	draft := outside.Do(t, "GET", p.url+public, "")
	wantError(t, draft, 404, "not_found")
	if draft.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a draft's 404: %v", draft.Header)
	}
	var blog struct {
		Data struct {
			Slug        string
			PublishedAt string `json:"published_at"`
		}
	}
	write("PATCH", public, `{"published":true}`).Into(t, &blog)
	first := blog.Data.PublishedAt
	a := outside.Do(t, "GET", p.url+public, "")
	if a.Status != 200 || a.Header.Get("Cache-Control") != "public, max-age=60" || !strings.Contains(strings.Join(a.Header.Values("Vary"), ","), "Authorization") || a.Header.Get("Etag") == "" {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	if again := outside.Do(t, "GET", p.url+public, "", "If-None-Match", a.Header.Get("Etag")); again.Status != http.StatusNotModified || len(again.Body) > 0 {
		t.Errorf("%d %s", again.Status, again.Body)
	}
	if private := outside.Do(t, "GET", p.url+public, "", root...); private.Header.Get("Cache-Control") != "private" {
		t.Errorf("signed in: %v", private.Header)
	}
	wantError(t, outside.Do(t, "GET", p.url+public, "", "Authorization", "Bearer x.y.z"), 401, "token_invalid")
	if found := outside.Do(t, "GET", p.url+"/blogs?q=FLUSS+brucke", ""); !strings.Contains(string(found.Body), "Die Brücke") {
		t.Errorf("%s", found.Body)
	}
	write("PATCH", public, `{"published":false}`)
	wantError(t, outside.Do(t, "GET", p.url+public, ""), 404, "not_found")
	write("PUT", public, `{"published":true,"slug":"bruecke"}`).Into(t, &blog)
	if blog.Data.PublishedAt != first || first == "" {
		t.Errorf("published at %s, then at %s", first, blog.Data.PublishedAt)
	}
	wantError(t, outside.Do(t, "GET", p.url+public, ""), 404, "not_found")
	if a := outside.Do(t, "GET", p.url+"/blogs/bruecke", ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Two instances, because what one process knows must not be what keeps slugs apart.
func TestEqualTitlesAtOnceGetSlugsOfTheirOwn(t *testing.T) {
	t.Parallel()
	urls := dbtest.NewURL(t)
	instances := []*process{startServe(t, urls.App), startServe(t, urls.App)}
	root := outside.Bearer(admin(t, instances[0], urls.App))
	var mu sync.Mutex
	slugs := map[string]bool{}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			var made struct{ Data struct{ Slug string } }
			outside.Do(t, "POST", instances[n%2].url+"/api/blogs", `{"title":"The same","content":"Text"}`, slices.Concat(root, []string{"Content-Type", "application/json"})...).Into(t, &made)
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
	root := outside.Bearer(admin(t, p, urls.App))
	if a := outside.Do(t, "POST", p.url+"/auth/login", `{"email":"root@example.com","password":"`+outside.Password+`"}`, "Content-Type", "application/json"); a.Status != 200 {
		t.Errorf("/auth/login: %d %s", a.Status, a.Body)
	}
	description := string(outside.Do(t, "GET", p.url+"/docs/openapi.json", "").Body)
	for _, path := range []string{"/users", "/users/1", "/posts", "/blogs"} {
		if a := outside.Do(t, "GET", p.url+path, "", root...); a.Status != 200 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if strings.Contains(description, `"`+path+`":`) {
			t.Errorf("%s is described", path)
		}
	}
}
