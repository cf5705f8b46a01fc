package content_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/content/slug"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// as is the context of a request by the first author with a role.
func (f fixture) as(t *testing.T, role identity.Role) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.Account(f.authors[0], role, ""))
}

func (f fixture) blog(t *testing.T, n content.NewBlog) content.Blog {
	t.Helper()
	n.AuthorID = f.authors[0]
	if n.Content == "" {
		n.Content = "Text."
	}
	b, err := f.CreateBlog(f.as(t, identity.Editor), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABlogIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := content.Blog{
		AuthorID: f.authors[0], Title: "Título ✓", Slug: "titulo", Excerpt: "An excerpt.", Content: "Line one.\nLine <two>.",
		Image: "https://example.com/a.webp", Published: true, PublishedAt: f.now, CreatedAt: *f.now, UpdatedAt: *f.now,
	}
	got := f.blog(t, content.NewBlog{Title: want.Title, Excerpt: want.Excerpt, Content: want.Content, Image: want.Image, Published: true})
	want.ID = got.ID
	for _, name := range []string{fmt.Sprint(got.ID), got.Slug} {
		read, err := f.FindBlog(t.Context(), name)
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff([]content.Blog{want, want}, []content.Blog{got, read}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	list, err := f.ListBlogs(t.Context(), content.BlogFilter{Request: page.Request{Query: "titulo two", Limit: 10, Count: true}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]content.Blog{want}, list.Rows); diff != "" || *list.Total != 1 {
		t.Error(diff)
	}
}

func TestSlugsThatAreMadeNeverCollide(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var made []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 { // at once
		all.Go(func() {
			for range 3 {
				b, err := f.CreateBlog(f.as(t, identity.Editor), content.NewBlog{AuthorID: f.authors[0], Title: "One title", Content: "Text."})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made = append(made, b.Slug)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	want := []string{"one-title"}
	for n := 2; n <= 24; n++ {
		want = append(want, fmt.Sprintf("one-title-%d", n))
	}
	slices.Sort(want)
	slices.Sort(made)
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	for title, want := range map[string]string{"One title 3": "one-title-3-2", "🎉": "blog", "🎈": "blog-2", "2024": "blog-2024"} {
		if b := f.blog(t, content.NewBlog{Title: title}); title != "🎉" && title != "🎈" && b.Slug != want || !slug.Valid(b.Slug) {
			t.Errorf("%s: %s, want %s", title, b.Slug, want)
		}
	}
	long := strings.Repeat("word ", 40)
	for range 3 {
		if b := f.blog(t, content.NewBlog{Title: long}); !slug.Valid(b.Slug) {
			t.Errorf("%q", b.Slug)
		}
	}
}

func TestASlugThatIsGivenMustBeFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	editor := f.as(t, identity.Editor)
	first := f.blog(t, content.NewBlog{Title: "First", Slug: new("here")})
	second := f.blog(t, content.NewBlog{Title: "Second"})
	if _, err := f.CreateBlog(editor, content.NewBlog{AuthorID: 1, Title: "T", Content: "C", Slug: new("here")}); !errors.Is(err, content.ErrSlugTaken) {
		t.Errorf("create: %v", err)
	}
	if _, err := f.UpdateBlog(editor, second.Slug, content.BlogChange{Slug: new("here")}); !errors.Is(err, content.ErrSlugTaken) {
		t.Errorf("update: %v", err)
	}
	if _, err := f.UpdateBlog(editor, "here", content.BlogChange{Slug: new("here")}); err != nil {
		t.Errorf("its own: %v", err)
	}
	if b, err := f.UpdateBlog(editor, "here", content.BlogChange{Slug: new("there")}); err != nil || b.ID != first.ID {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := f.FindBlog(editor, "here"); !errors.Is(err, content.ErrNoBlog) {
		t.Errorf("a former slug: %v", err)
	}
	if b, err := f.UpdateBlog(editor, "there", content.BlogChange{Title: new("Another title")}); err != nil || b.Slug != "there" {
		t.Errorf("another title makes the slug %q, %v", b.Slug, err)
	}
}

func TestDraftsAreForEditorsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.blog(t, content.NewBlog{Title: "Published loom", Published: true})
	draft := f.blog(t, content.NewBlog{Title: "Draft loom"})
	yes, no := true, false
	for role, sees := range map[identity.Role]bool{"": false, identity.User: false, identity.Editor: true, identity.Admin: true} {
		ctx := t.Context()
		if role != "" {
			ctx = f.as(t, role)
		}
		for _, name := range []string{"draft-loom", fmt.Sprint(draft.ID)} {
			if _, err := f.FindBlog(ctx, name); errors.Is(err, content.ErrNoBlog) == sees {
				t.Errorf("%s reads %s: %v", role, name, err)
			}
		}
		for _, tc := range []struct {
			published *bool
			query     string
			want      int64
		}{{nil, "", 2}, {nil, "loom", 2}, {nil, "draft", 1}, {&yes, "", 1}, {&no, "", 1}, {&no, "loom", 1}} {
			if !sees && (tc.published == &no || tc.query == "draft") {
				tc.want = 0
			} else if !sees {
				tc.want = 1
			}
			list, err := f.ListBlogs(ctx, content.BlogFilter{Request: page.Request{Query: tc.query, Limit: 10, Count: true}, Published: tc.published})
			if err != nil || int64(len(list.Rows)) != tc.want || *list.Total != tc.want {
				t.Errorf("%s lists %+v: %+v, %v", role, tc, list, err)
			}
		}
	}
}

func TestTheFirstPublicationIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	editor := f.as(t, identity.Editor)
	b := f.blog(t, content.NewBlog{Title: "Draft"})
	if b.PublishedAt != nil {
		t.Errorf("a draft was published at %v", b.PublishedAt)
	}
	first := f.now.Add(time.Hour)
	for i, published := range []bool{true, false, true, true} {
		*f.now = f.now.Add(time.Hour)
		b, err := f.UpdateBlog(editor, b.Slug, content.BlogChange{Published: &published})
		if err != nil {
			t.Fatal(err)
		}
		if b.Published != published || published != (b.PublishedAt != nil) || published && !b.PublishedAt.Equal(first) {
			t.Errorf("step %d: published %v at %v, want %v", i, b.Published, b.PublishedAt, first)
		}
	}
}

func TestABlogsFieldsThatBreakARuleAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for field, change := range map[string]func(*content.NewBlog){
		"title":   func(n *content.NewBlog) { n.Title = "two\nlines" },
		"slug":    func(n *content.NewBlog) { n.Slug = new("Not a slug") },
		"excerpt": func(n *content.NewBlog) { n.Excerpt = strings.Repeat("x", content.MaxExcerpt+1) },
		"content": func(n *content.NewBlog) { n.Content = strings.Repeat("é", content.MaxContent+1) },
		"image":   func(n *content.NewBlog) { n.Image = "javascript:alert(1)" },
	} {
		n := content.NewBlog{AuthorID: f.authors[0], Title: "Title", Content: "Text"}
		change(&n)
		_, err := f.CreateBlog(f.as(t, identity.Editor), n)
		if details := detailsOf(err); len(details) != 1 || details[field] == "" {
			t.Errorf("%s: %v with details %v", field, err, details)
		}
	}
	for _, image := range []string{"http://example.com/a", "https://", "//example.com/a", "https://u:p@example.com/", "data:image/png;base64,AA", "https://example.com/\n", "x"} {
		if _, err := f.UpdateBlog(f.as(t, identity.Editor), "1", content.BlogChange{Image: &image}); detailsOf(err)["image"] == "" {
			t.Errorf("image %q: %v", image, err)
		}
	}
	for _, digits := range []string{"123", ""} {
		if _, err := f.UpdateBlog(f.as(t, identity.Editor), "1", content.BlogChange{Slug: &digits}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("slug %q: %v", digits, err)
		}
	}
	f.blog(t, content.NewBlog{Title: strings.Repeat("é", content.MaxTitle), Content: strings.Repeat("𐐀", content.MaxContent)})
}

func TestWhatNamesNoBlogIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.blog(t, content.NewBlog{Title: "There", Published: true})
	editor := f.as(t, identity.Admin)
	for _, name := range []string{"0", "-1", "99999999999999999999", "There", "nowhere", "", "a b", "there-", "' or true --"} {
		_, err := f.FindBlog(editor, name)
		_, changing := f.UpdateBlog(editor, name, content.BlogChange{Title: new("Gone")})
		for what, err := range map[string]error{"find": err, "update": changing, "delete": f.DeleteBlog(editor, name)} {
			if !errors.Is(err, content.ErrNoBlog) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if err := f.DeleteBlog(editor, "there"); err != nil {
		t.Error(err)
	}
}
