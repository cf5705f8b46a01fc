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
	AuthorID int64  `query:"author_id" minimum:"1" doc:"Only posts of this account." example:"1"`
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

func registerPosts(a huma.API, s PostService) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-posts",
		Method:      http.MethodGet,
		Path:        "/api/posts",
		Summary:     "List posts",
		Description: "Everybody's posts, newest first, page by page.",
		Tags:        []string{tagPosts},
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
		Tags:          []string{tagPosts},
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

	registerPost(a, s)
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		registerPostUpdate(a, s, method)
	}
}
