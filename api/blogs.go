package api

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/identity"
)

// BlogService keeps blogs. ListBlogs, CreateBlog and UpdateBlog return validation
// faults, the last two content.ErrSlugTaken; FindBlog, UpdateBlog and DeleteBlog take an
// id or a slug and return content.ErrNoBlog, also for a draft that the account may not
// read.
type BlogService interface {
	ListBlogs(ctx context.Context, f content.BlogFilter) (page.Page[content.Blog], error)
	CreateBlog(ctx context.Context, n content.NewBlog) (content.Blog, error)
	FindBlog(ctx context.Context, name string) (content.Blog, error)
	UpdateBlog(ctx context.Context, name string, c content.BlogChange) (content.Blog, error)
	DeleteBlog(ctx context.Context, name string) error
}

const (
	// maxBlog is the largest body in bytes: a text of the most characters, all escaped.
	maxBlog = 8 << 20
	// pagesOfLongTexts is what lists say whose rows can be long.
	pagesOfLongTexts = "A page of long texts may have fewer rows than `limit`."
)

type listBlogsInput struct {
	Page
	Query     string         `query:"q" maxLength:"200" doc:"Words to find in title and content. Every word must occur, the last one as the beginning of a word; case and accents make no difference." example:"engine"`
	AuthorID  int64          `query:"author_id" minimum:"1" doc:"Only blogs by this account." example:"1"`
	Published optional[bool] `query:"published" doc:"Only published blogs, or only drafts." example:"true"`
	Sort      string         `query:"sort" enum:"created_at,-created_at,title,-title" default:"-created_at" doc:"Sort order; a leading minus reverses it."`
}

// Blogs are the operations on blogs.
func Blogs(s BlogService) Resource {
	blogs := rows[Blog, content.Blog, string]{
		one: "blog", many: "blogs", path: "/api/blogs", id: "The blog's id or slug.", example: "why-the-engine-weaves", convert: toBlog,
		key: func(b Blog) string { return strconv.FormatUint(b.ID, 10) }, maxBody: maxBlog,
	}
	editors := roles(identity.Admin, identity.Editor)
	return Resource{
		Tag: "Blogs", Area: "Content", Description: "Long texts that everybody may read once they are published.",
		Models: []any{Blog{}}, Aliases: []string{"/blogs"},
		Register: func(a huma.API) {
			registerBlogList(a, blogs, s)
			blogs.create(a, said{
				summary:     "Create a blog",
				description: "Create a blog by the signed-in account, as a draft unless `published` is true.",
				message:     "Blog stored.",
				access:      editors.ofOneself(), fails: []error{content.ErrSlugTaken},
			}, func(ctx context.Context, b Blog) (content.Blog, error) {
				n := content.NewBlog{
					AuthorID: identity.FromContext(ctx).UserID, Title: b.Title, Excerpt: b.Excerpt, Content: b.Content, Image: b.Image, Published: b.Published,
				}
				if b.Slug != "" { // one that is given has a character
					n.Slug = &b.Slug
				}
				return s.CreateBlog(ctx, n)
			})
			blogs.get(a, said{
				summary:     "Show a blog",
				description: "Anybody may read a published blog. Drafts are 404 for everybody but an `EDITOR` or an `ADMIN`. Old slugs are 404.",
				message:     "Blog found.",
				access:      anybody().ofReaders(), fails: []error{content.ErrNoBlog},
			}, func(ctx context.Context, name string) (content.Blog, error) { return s.FindBlog(ctx, name) })
			blogs.update(a, said{
				summary:     "Update a blog",
				description: "Update a blog. Omitted fields stay. `published_at` is set when `published` first becomes true, and stays.",
				message:     "Blog changed.",
				access:      editors.ofEverybody(), fails: []error{content.ErrNoBlog, content.ErrSlugTaken},
			}, func(ctx context.Context, name string, body *model.Update[Blog]) (content.Blog, error) {
				b := body.Value()
				return s.UpdateBlog(ctx, name, content.BlogChange{
					Title: given(body, "title", b.Title), Slug: given(body, "slug", b.Slug), Excerpt: given(body, "excerpt", b.Excerpt),
					Content: given(body, "content", b.Content), Image: given(body, "image", b.Image), Published: given(body, "published", b.Published),
				})
			})
			blogs.remove(a, said{
				summary:     "Delete a blog",
				description: "Delete a blog or a draft.",
				access:      editors.ofEverybody(), fails: []error{content.ErrNoBlog},
			}, func(ctx context.Context, name string) error { return s.DeleteBlog(ctx, name) })
		},
	}
}

func registerBlogList(a huma.API, blogs rows[Blog, content.Blog, string], s BlogService) {
	listRows(a, blogs, said{
		summary: "List blogs",
		description: "Published blogs, newest first by default. An `EDITOR` or an `ADMIN` also sees drafts. " +
			pagesOfLongTexts,
		access: anybody().ofEverybody(),
	}, func(ctx context.Context, in *listBlogsInput) (page.Page[content.Blog], error) {
		r, err := in.request(in.Query, in.Sort)
		if err != nil {
			return page.Page[content.Blog]{}, err
		}
		f := content.BlogFilter{Request: r, AuthorID: in.AuthorID}
		if in.Published.set {
			f.Published = &in.Published.value
		}
		return s.ListBlogs(ctx, f)
	})
}
