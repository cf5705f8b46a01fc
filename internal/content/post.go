package content

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of a post's fields, in characters.
const (
	MaxTitle = 200
	MaxBody  = 100_000
	MaxTags  = 10
	MaxTag   = 50
)

// Faults of posts.
var (
	ErrNoPost = fault.Missing("post")
	// ErrNotAuthor is what everybody else gets who may read the post.
	ErrNotAuthor = fault.New(fault.Forbidden, fault.CodeForbidden, "Only the author, an EDITOR or an ADMIN may do this to the post.")
)

// Post is a short text by an account.
type Post struct {
	ID        int64
	AuthorID  int64
	Title     string
	Body      string
	Tags      []string // in the author's order; never nil
	CreatedAt time.Time
	UpdatedAt time.Time
}

func fromPost(r dbsqlc.Post) Post {
	return Post{
		ID: r.ID, AuthorID: r.AuthorID, Title: r.Title, Body: r.Body, Tags: r.Tags,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// NewPost is what CreatePost needs.
type NewPost struct {
	AuthorID int64
	Title    string
	Body     string
	Tags     []string
}

func (n NewPost) validate() error {
	p := problems{}
	p.check("title", text.Within(n.Title, 1, MaxTitle), fmt.Sprintf("Needs 1 to %d characters.", MaxTitle))
	p.check("title", text.IsLine(n.Title), text.LineRule)
	p.check("body", text.Within(n.Body, 1, MaxBody), fmt.Sprintf("Needs 1 to %d characters.", MaxBody))
	p.check("tags", len(n.Tags) <= MaxTags, fmt.Sprintf("Must have at most %d tags.", MaxTags))
	for i, tag := range n.Tags {
		p.check(fmt.Sprintf("tags[%d]", i), text.Within(text.Trim(tag), 1, MaxTag), fmt.Sprintf("Needs 1 to %d characters.", MaxTag))
		p.check(fmt.Sprintf("tags[%d]", i), text.IsLine(tag), text.LineRule)
	}
	return p.fault()
}

// PostChange is what UpdatePost changes; nil fields stay as they are.
type PostChange struct {
	Title *string
	Body  *string
	Tags  *[]string
}

func (c PostChange) validate() error {
	return NewPost{Title: or(c.Title, "-"), Body: or(c.Body, "-"), Tags: or(c.Tags, nil)}.validate()
}

// PostFilter selects posts; zero fields select all.
type PostFilter struct {
	page.Request
	Tag      string // exactly
	AuthorID int64
}

var postTable = table{name: "posts", words: "post_words", timed: true, size: "octet_length(p.body)", orders: byTimeAndTitle}

// ListPosts returns a page of posts. It returns a validation fault whose details are
// keyed by q, tag, sort or cursor.
func (s *Service) ListPosts(ctx context.Context, f PostFilter) (page.Page[Post], error) {
	sel := selection{Request: f.Request}
	if !text.Storable(f.Tag) {
		return page.Page[Post]{}, fault.Validation(map[string]string{"tag": "Must be text without U+0000."})
	}
	if f.Tag != "" {
		sel.others = append(sel.others, condition{"p.tags @> array[?::text]", []any{f.Tag}})
	}
	if f.AuthorID != 0 {
		sel.ordered = append(sel.ordered, condition{"p.author_id = ?", []any{f.AuthorID}})
	}
	return list(ctx, s, postTable, sel, func(ids []int64) ([]Post, error) {
		return each(fromPost)(s.queries.PostsByID(ctx, s.o.DB.Direct(), ids))
	}, func(p Post) int64 { return p.ID })
}

// CreatePost stores a post; a tag that is given twice is kept once. It returns a
// validation fault whose details are keyed by field.
func (s *Service) CreatePost(ctx context.Context, n NewPost) (Post, error) {
	n.Title = text.Trim(n.Title)
	if err := n.validate(); err != nil {
		return Post{}, err
	}
	return write(ctx, s, fromPost, func(ctx context.Context, tx pgx.Tx) (dbsqlc.Post, error) {
		row, err := s.queries.InsertPost(ctx, tx, dbsqlc.InsertPostParams{
			AuthorID: n.AuthorID, Title: n.Title, Body: n.Body, Tags: distinct(n.Tags), Now: s.o.Now(),
		})
		if err != nil {
			return row, err
		}
		return row, s.queries.IndexPost(ctx, tx, row.ID, searchable(row.Title, row.Body))
	})
}

// FindPost returns ErrNoPost when there is no such post.
func (s *Service) FindPost(ctx context.Context, id int64) (Post, error) {
	row, err := s.queries.FindPost(ctx, s.o.DB.Direct(), id)
	if err != nil {
		return Post{}, db.NotFound(err, ErrNoPost)
	}
	return fromPost(row), nil
}

// UpdatePost changes a post for its author, an EDITOR or an ADMIN. It returns
// ErrNoPost, ErrNotAuthor, or a validation fault keyed by field.
func (s *Service) UpdatePost(ctx context.Context, id int64, c PostChange) (Post, error) {
	c.Title = trimmed(c.Title)
	if err := c.validate(); err != nil {
		return Post{}, err
	}
	p := identity.FromContext(ctx)
	params := dbsqlc.UpdatePostParams{ID: id, Title: c.Title, Body: c.Body, Now: s.o.Now(), Anyones: changesAny(p), ActorID: p.UserID}
	if c.Tags != nil {
		params.Tags = distinct(*c.Tags)
	}
	return write(ctx, s, fromPost, func(ctx context.Context, tx pgx.Tx) (dbsqlc.Post, error) {
		row, err := s.queries.UpdatePost(ctx, tx, params)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return row, s.whyNotPost(ctx, tx, id)
		case err != nil || c.Title == nil && c.Body == nil:
			return row, err
		}
		return row, s.queries.IndexPost(ctx, tx, row.ID, searchable(row.Title, row.Body))
	})
}

// DeletePost deletes a post for its author, an EDITOR or an ADMIN. It returns
// ErrNoPost or ErrNotAuthor.
func (s *Service) DeletePost(ctx context.Context, id int64) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.DeletePost(ctx, tx, id, changesAny(p), p.UserID)
		if err == nil && n == 0 {
			return s.whyNotPost(ctx, tx, id)
		}
		return err
	})
}

func changesAny(p identity.Principal) bool { return p.Is(identity.Editor, identity.Admin) }

// whyNotPost says why a change found no post that the account may change.
func (s *Service) whyNotPost(ctx context.Context, tx pgx.Tx, id int64) error {
	exists, err := s.queries.PostExists(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case exists:
		return ErrNotAuthor
	}
	return ErrNoPost
}
