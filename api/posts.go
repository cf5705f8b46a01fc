package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/identity"
)

// PostService keeps posts. ListPosts, CreatePost and UpdatePost return validation
// faults; FindPost, UpdatePost and DeletePost return content.ErrNoPost, the last two
// content.ErrNotAuthor.
type PostService interface {
	ListPosts(ctx context.Context, f content.PostFilter) (page.Page[content.Post], error)
	CreatePost(ctx context.Context, n content.NewPost) (content.Post, error)
	FindPost(ctx context.Context, id int64) (content.Post, error)
	UpdatePost(ctx context.Context, id int64, c content.PostChange) (content.Post, error)
	DeletePost(ctx context.Context, id int64) error
}

type listPostsInput struct {
	Page
	Query    string `query:"q" maxLength:"200" doc:"Words to find in title and body. Every word must occur, the last one as the beginning of a word; case and accents make no difference." example:"engine"`
	Tag      string `query:"tag" maxLength:"50" doc:"Only posts with exactly this tag." example:"notes"`
	AuthorID int64  `query:"author_id" minimum:"1" doc:"Only posts by this account." example:"1"`
	Sort     string `query:"sort" enum:"created_at,-created_at,title,-title" default:"-created_at" doc:"Sort order; a leading minus reverses it."`
}

// Posts are the operations on posts.
func Posts(s PostService) Resource {
	posts := rows[Post, content.Post, int64]{
		one: "post", many: "posts", path: "/api/posts", id: "The post's id.", example: 1, convert: toPost,
	}
	return Resource{
		Tag: "Posts", Area: "Content", Description: "Short texts with tags, written by signed-in people.",
		Models: []any{Post{}}, Aliases: []string{"/posts"},
		Register: func(a huma.API) {
			listRows(a, posts, said{
				summary:     "List posts",
				description: "Everybody's posts, newest first by default. " + pagesOfLongTexts,
				access:      signedIn().ofEverybody(),
			}, func(ctx context.Context, in *listPostsInput) (page.Page[content.Post], error) {
				r, err := in.request(in.Query, in.Sort)
				if err != nil {
					return page.Page[content.Post]{}, err
				}
				return s.ListPosts(ctx, content.PostFilter{Request: r, Tag: in.Tag, AuthorID: in.AuthorID})
			})
			posts.createOK(a, said{
				summary:     "Create a post",
				description: "Create a post by the signed-in account.",
				message:     "Post stored.",
				access:      signedIn().ofOneself(),
			}, func(ctx context.Context, p Post) (content.Post, error) {
				return s.CreatePost(ctx, content.NewPost{AuthorID: identity.FromContext(ctx).UserID, Title: p.Title, Body: p.Body, Tags: p.Tags})
			})
			posts.get(a, said{
				summary:     "Show a post",
				description: "One post, by any author.",
				message:     "Post found.",
				access:      signedIn().ofEverybody(), fails: []error{content.ErrNoPost},
			}, func(ctx context.Context, id int64) (content.Post, error) { return s.FindPost(ctx, id) })
			posts.update(a, said{
				summary:     "Update a post",
				description: "Update a post. Omitted fields stay. Only the author, an `EDITOR` or an `ADMIN` may do this; others get 403.",
				message:     "Post changed.",
				access:      signedIn().ofAuthors(), fails: []error{content.ErrNoPost, content.ErrNotAuthor},
			}, func(ctx context.Context, id int64, body *model.Update[Post]) (content.Post, error) {
				p := body.Value()
				return s.UpdatePost(ctx, id, content.PostChange{
					Title: given(body, "title", p.Title), Body: given(body, "body", p.Body), Tags: given(body, "tags", p.Tags),
				})
			})
			posts.remove(a, said{
				summary:     "Delete a post",
				description: "Only the author, an `EDITOR` or an `ADMIN` may do this; others get 403.",
				access:      signedIn().ofAuthors(), fails: []error{content.ErrNoPost, content.ErrNotAuthor},
			}, func(ctx context.Context, id int64) error { return s.DeletePost(ctx, id) })
		},
	}
}
