package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/identity"
)

// PostService keeps posts. ListPosts, CreatePost and UpdatePost return validation
// faults; ListPosts gives up to f.Limit posts and, when asked, how many match;
// FindPost, UpdatePost and DeletePost return content.ErrNoPost, the last two
// content.ErrNotAuthor.
type PostService interface {
	ListPosts(ctx context.Context, f content.Filter) ([]content.Post, *int64, error)
	CreatePost(ctx context.Context, n content.NewPost) (content.Post, error)
	FindPost(ctx context.Context, id int64) (content.Post, error)
	UpdatePost(ctx context.Context, id int64, c content.Change) (content.Post, error)
	DeletePost(ctx context.Context, id int64) error
}

type listPostsInput struct {
	Page
	Query    string `query:"q" maxLength:"200" doc:"Text to find in title and body; case makes no difference." example:"engine"`
	Tag      string `query:"tag" maxLength:"50" doc:"Only posts with exactly this tag." example:"notes"`
	AuthorID int64  `query:"author_id" minimum:"1" doc:"Only posts by this account." example:"1"`
}

type listPostsOutput struct {
	Body list[Post]
}

type createPostInput struct {
	Body model.Create[Post]
}

type postOutput struct {
	Body single[Post]
}

type postCursor struct {
	CreatedAt time.Time `json:"t"`
	ID        int64     `json:"i"`
}

func (in *listPostsInput) filter() (content.Filter, error) {
	f := content.Filter{Query: in.Query, Tag: in.Tag, AuthorID: in.AuthorID, Limit: in.Limit + 1, Count: in.Total}
	if in.Cursor == "" {
		return f, nil
	}
	var c postCursor
	if err := decodeCursor(in.Cursor, &c); err != nil {
		return f, err
	}
	f.After = &content.Position{CreatedAt: c.CreatedAt, ID: c.ID}
	return f, nil
}

// Posts are the operations on posts.
func Posts(s PostService) Resource {
	return Resource{
		Tag: "Posts", Area: "Content", Description: "Short texts with tags, written by signed-in people.",
		Models: []any{Post{}}, Aliases: []string{"/posts"},
		Register: func(a huma.API) {
			registerPosts(a, s)
			registerPost(a, s)
			for _, method := range []string{http.MethodPut, http.MethodPatch} {
				registerPostUpdate(a, s, method)
			}
		},
	}
}

func registerPosts(a huma.API, s PostService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-posts",
		Method:      http.MethodGet,
		Path:        "/api/posts",
		Summary:     "List posts",
		Description: "Everybody's posts, newest first, page by page.",
	}, signedIn()), func(ctx context.Context, in *listPostsInput) (*listPostsOutput, error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		posts, total, err := s.ListPosts(ctx, f)
		if err != nil {
			return nil, within("query", err)
		}
		return &listPostsOutput{Body: newList(posts, in.Limit, total, toPost, func(p content.Post) any {
			at := p.Position()
			return postCursor{CreatedAt: at.CreatedAt, ID: at.ID}
		})}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "create-post",
		Method:        http.MethodPost,
		Path:          "/api/posts",
		Summary:       "Write a post",
		Description:   "Stores a post by the account that is signed in.",
		DefaultStatus: http.StatusOK,
	}, signedIn()), export.Variant{Capture: map[string]string{"postId": "/data/id"}}), func(ctx context.Context, in *createPostInput) (*postOutput, error) {
		p := in.Body.Value()
		post, err := s.CreatePost(ctx, content.NewPost{
			AuthorID: identity.FromContext(ctx).UserID, Title: p.Title, Body: p.Body, Tags: p.Tags,
		})
		if err != nil {
			return nil, within("body", err)
		}
		return &postOutput{Body: single[Post]{Data: toPost(post), Message: "Post stored."}}, nil
	})
}

// PostInput names a post.
type PostInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The post's id." example:"1"`
}

type updatePostInput struct {
	PostInput
	Body model.Update[Post]
}

// change is what the body says and a post can be changed in.
func (in *updatePostInput) change() content.Change {
	var c content.Change
	p := in.Body.Value()
	for name, set := range map[string]func(){
		"title": func() { c.Title = &p.Title },
		"body":  func() { c.Body = &p.Body },
		"tags":  func() { c.Tags = &p.Tags },
	} {
		if in.Body.Has(name) {
			set()
		}
	}
	return c
}

func registerPost(a huma.API, s PostService) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-post",
		Method:      http.MethodGet,
		Path:        "/api/posts/{id}",
		Summary:     "Show a post",
		Description: "One post, whoever wrote it.",
	}, signedIn(), content.ErrNoPost), "postId"), func(ctx context.Context, in *PostInput) (*postOutput, error) {
		post, err := s.FindPost(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &postOutput{Body: single[Post]{Data: toPost(post), Message: "Post found."}}, nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "delete-post",
		Method:        http.MethodDelete,
		Path:          "/api/posts/{id}",
		Summary:       "Delete a post",
		Description:   "Only the post's author, an `EDITOR` or an `ADMIN` may delete it. Others who are signed in get 403, not 404, because they may read the post.",
		DefaultStatus: http.StatusNoContent,
	}, signedIn(), content.ErrNoPost, content.ErrNotAuthor), "postId"), func(ctx context.Context, in *PostInput) (*struct{}, error) {
		return nil, s.DeletePost(ctx, in.ID)
	})
}

// registerPostUpdate declares PUT and PATCH, which do the same.
func registerPostUpdate(a huma.API, s PostService, method string) {
	id, summary := "put-post", "Change a post"
	if method == http.MethodPatch {
		id, summary = "update-post", "Change a post in part"
	}
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: id,
		Method:      method,
		Path:        "/api/posts/{id}",
		Summary:     summary,
		Description: "Takes the post in full or in part: absent fields keep their values. Only the post's author, an `EDITOR` or an `ADMIN` may change it. " +
			"Others who are signed in get 403, not 404, because they may read the post.",
	}, signedIn(), content.ErrNoPost, content.ErrNotAuthor), "postId"), func(ctx context.Context, in *updatePostInput) (*postOutput, error) {
		post, err := s.UpdatePost(ctx, in.ID, in.change())
		if err != nil {
			return nil, within("body", err)
		}
		return &postOutput{Body: single[Post]{Data: toPost(post), Message: "Post changed."}}, nil
	})
}
