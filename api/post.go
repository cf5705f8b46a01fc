package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/content"
)

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
		Description: "One post, by whomever.",
		Tags:        []string{tagPosts},
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
		Description:   "For its author, an `EDITOR` or an `ADMIN`; others who are signed in get 403, for they may read it.",
		Tags:          []string{tagPosts},
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
		Description: "Takes the post in full or in part: absent fields stay. For its author, an `EDITOR` or an `ADMIN`; " +
			"others who are signed in get 403, for they may read it.",
		Tags: []string{tagPosts},
	}, signedIn(), content.ErrNoPost, content.ErrNotAuthor), "postId"), func(ctx context.Context, in *updatePostInput) (*postOutput, error) {
		post, err := s.UpdatePost(ctx, in.ID, in.change())
		if err != nil {
			return nil, within("body", err)
		}
		return &postOutput{Body: single[Post]{Data: toPost(post), Message: "Post changed."}}, nil
	})
}
