package content

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Faults of this domain.
var (
	ErrNoPost = fault.Missing("post")
	// ErrNotAuthor is what everybody else gets who may read the post.
	ErrNotAuthor = fault.New(fault.Forbidden, fault.CodeForbidden, "Only its author, an EDITOR or an ADMIN may do this to the post.")
)

// Change is what UpdatePost changes; nil fields stay as they are.
type Change struct {
	Title *string
	Body  *string
	Tags  *[]string
}

func (c Change) validate() error {
	// What stays is right already; any value that is will do in its place.
	n := NewPost{Title: "-", Body: "-"}
	if c.Title != nil {
		n.Title = *c.Title
	}
	if c.Body != nil {
		n.Body = *c.Body
	}
	if c.Tags != nil {
		n.Tags = *c.Tags
	}
	return n.validate()
}

// FindPost returns ErrNoPost when there is no such post.
func (s *Service) FindPost(ctx context.Context, id int64) (Post, error) {
	row, err := s.queries.FindPost(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return Post{}, db.NotFound(err, ErrNoPost)
	}
	return fromRow(row), nil
}

// UpdatePost changes a post for its author, an EDITOR or an ADMIN. It returns
// ErrNoPost, ErrNotAuthor, or a validation fault keyed by field.
func (s *Service) UpdatePost(ctx context.Context, id int64, c Change) (Post, error) {
	if err := c.validate(); err != nil {
		return Post{}, err
	}
	p := identity.FromContext(ctx)
	params := dbsqlc.UpdatePostParams{ID: id, Title: c.Title, Body: c.Body, Now: s.o.Now(), Anyones: changesAny(p), ActorID: p.UserID}
	if c.Tags != nil {
		params.Tags = distinct(*c.Tags)
	}
	var row dbsqlc.Post
	err := s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.UpdatePost(ctx, tx, params)
		if errors.Is(err, pgx.ErrNoRows) {
			return s.whyNot(ctx, tx, id)
		}
		return err
	})
	if err != nil {
		return Post{}, err
	}
	return fromRow(row), nil
}

// DeletePost deletes a post for its author, an EDITOR or an ADMIN. It returns
// ErrNoPost or ErrNotAuthor.
func (s *Service) DeletePost(ctx context.Context, id int64) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.DeletePost(ctx, tx, id, changesAny(p), p.UserID)
		if err == nil && n == 0 {
			return s.whyNot(ctx, tx, id)
		}
		return err
	})
}

func changesAny(p identity.Principal) bool { return p.Is(identity.Editor, identity.Admin) }

// whyNot says why a change found no post that p may change.
func (s *Service) whyNot(ctx context.Context, tx pgx.Tx, id int64) error {
	exists, err := s.queries.PostExists(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case exists:
		return ErrNotAuthor
	}
	return ErrNoPost
}
