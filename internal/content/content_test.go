package content_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbtest"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

type fixture struct {
	*content.Service
	authors [2]int64
	now     *time.Time
	db      *db.DB
	urls    dbtest.URLs
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	d, urls := dbtest.NewWithURL(t)
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	f := fixture{now: &now, db: d, urls: urls}
	for i := range f.authors {
		f.authors[i] = author(t, d, fmt.Sprintf("author%d@example.com", i))
	}
	var err error
	if f.Service, err = content.New(content.Options{DB: d, Now: func() time.Time { return *f.now }}); err != nil {
		t.Fatal(err)
	}
	return f
}

func author(t *testing.T, d *db.DB, email string) int64 {
	t.Helper()
	var id int64
	err := d.Single(identity.System("test")).QueryRow(t.Context(), `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		values ('Ada', 'Lovelace', $1, $1, '', now(), now()) returning id`, email).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f fixture) write(t *testing.T, n content.NewPost) content.Post {
	t.Helper()
	if n.AuthorID == 0 {
		n.AuthorID = f.authors[0]
	}
	if n.Body == "" {
		n.Body = "Text."
	}
	p, err := f.CreatePost(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPostIsListedAsItWasWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := content.Post{
		AuthorID: f.authors[0], Title: "Título ✓", Body: "Line one.\nLine <two>.", Tags: []string{"b", "a"},
		CreatedAt: *f.now, UpdatedAt: *f.now,
	}
	got := f.write(t, content.NewPost{Title: want.Title, Body: want.Body, Tags: []string{"b", "a", "b"}})
	want.ID = got.ID
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	list, err := f.ListPosts(t.Context(), content.PostFilter{Request: page.Request{Limit: 10, Count: true}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]content.Post{want}, list.Rows); diff != "" || *list.Total != 1 {
		t.Errorf("total %d, %s", *list.Total, diff)
	}
	if p := f.write(t, content.NewPost{Title: "No tags"}); p.Tags == nil {
		t.Error("the tags of a post without any are nil")
	}
}

func TestListsPageThroughEveryPostOnceNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []string
	for i := range 7 {
		title := fmt.Sprintf("Post %d", i)
		f.write(t, content.NewPost{Title: title})
		want = append([]string{title}, want...)
		if i%2 == 0 { // so that some share an instant
			*f.now = f.now.Add(time.Second)
		}
	}
	for _, limit := range []int{1, 3, 7, 50} {
		var got []string
		var after *page.Position
		for {
			some, err := f.ListPosts(t.Context(), content.PostFilter{Request: page.Request{Limit: limit, After: after}})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range some.Rows {
				got = append(got, p.Title)
			}
			if after = some.Next; after == nil {
				break
			}
			// What is written meanwhile belongs before the first page.
			f.write(t, content.NewPost{Title: "Meanwhile", AuthorID: f.authors[1]})
		}
		if diff := cmp.Diff(want, without(got, "Meanwhile")); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

func without(list []string, drop string) []string {
	var out []string
	for _, s := range list {
		if s != drop {
			out = append(out, s)
		}
	}
	return out
}

func TestFiltersSelectPosts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(t, content.NewPost{Title: "Alpha", Body: "100% of it", Tags: []string{"go", "Web"}})
	f.write(t, content.NewPost{Title: "Beta", Tags: []string{"golang"}})
	f.write(t, content.NewPost{Title: "Gamma", AuthorID: f.authors[1], Tags: []string{"go"}})
	for _, tc := range []struct {
		name   string
		filter content.PostFilter
		want   []string
	}{
		{"nothing", content.PostFilter{}, []string{"Gamma", "Beta", "Alpha"}},
		{"whole tag", content.PostFilter{Tag: "go"}, []string{"Gamma", "Alpha"}},
		{"tags keep their case", content.PostFilter{Tag: "web"}, nil},
		{"author", content.PostFilter{AuthorID: f.authors[1]}, []string{"Gamma"}},
		{"title in another case", content.PostFilter{Request: page.Request{Query: "BET"}}, []string{"Beta"}},
		{"words of the body, in any order", content.PostFilter{Request: page.Request{Query: "it OF 100"}}, []string{"Alpha"}},
		{"the last word as a beginning", content.PostFilter{Request: page.Request{Query: "of AL"}}, []string{"Alpha"}},
		{"an earlier word as no beginning", content.PostFilter{Request: page.Request{Query: "al of"}}, nil},
		{"without a word", content.PostFilter{Request: page.Request{Query: " %' --"}}, []string{"Gamma", "Beta", "Alpha"}},
		{"quotes are no words", content.PostFilter{Request: page.Request{Query: `' or true --`}}, nil},
		{"quotes are characters of a tag", content.PostFilter{Tag: `{"go"}`}, nil},
		{"both", content.PostFilter{Tag: "go", AuthorID: f.authors[0]}, []string{"Alpha"}},
	} {
		tc.filter.Limit, tc.filter.Count = 10, true
		posts, err := f.ListPosts(t.Context(), tc.filter)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		var got []string
		for _, p := range posts.Rows {
			got = append(got, p.Title)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || *posts.Total != int64(len(tc.want)) {
			t.Errorf("%s: total %d, %s", tc.name, *posts.Total, diff)
		}
	}
}

func TestFieldsThatBreakARuleAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for field, change := range map[string]func(*content.NewPost){
		"title":   func(n *content.NewPost) { n.Title = "" },
		"body":    func(n *content.NewPost) { n.Body = strings.Repeat("é", content.MaxBody+1) },
		"tags":    func(n *content.NewPost) { n.Tags = strings.Split(strings.Repeat("x", content.MaxTags+1), "") },
		"tags[1]": func(n *content.NewPost) { n.Tags = []string{"fine", strings.Repeat("x", content.MaxTag+1)} },
		"tags[0]": func(n *content.NewPost) { n.Tags = []string{"nul\x00"} },
	} {
		n := content.NewPost{AuthorID: f.authors[0], Title: "Title", Body: "Body"}
		change(&n)
		_, err := f.CreatePost(t.Context(), n)
		if details := detailsOf(err); len(details) != 1 || details[field] == "" {
			t.Errorf("%s: %v with details %v", field, err, details)
		}
	}
	for _, title := range []string{"two\nlines", "an escape \x1b[2J", "turned \u202eround", "\u2028", "\ufeffhidden"} {
		_, err := f.CreatePost(t.Context(), content.NewPost{AuthorID: f.authors[0], Title: title, Body: title})
		if details := detailsOf(err); len(details) != 1 || details["title"] == "" {
			t.Errorf("title %+q: %v with details %v", title, err, details)
		}
	}
	for field, filter := range map[string]content.PostFilter{"q": {Request: page.Request{Query: "\x00"}}, "tag": {Tag: "\xff"}} {
		if _, err := f.ListPosts(t.Context(), filter); detailsOf(err)[field] == "" {
			t.Errorf("filter %s: %v", field, err)
		}
	}
	f.write(t, content.NewPost{Title: strings.Repeat("é", content.MaxTitle), Body: strings.Repeat("é", content.MaxBody)})
}

func detailsOf(err error) map[string]string {
	if f, ok := err.(*fault.Error); ok && f.Kind == fault.Invalid {
		return f.Details
	}
	return nil
}
