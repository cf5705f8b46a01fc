package content

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/content/slug"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Bounds of a blog's fields, in characters. The title has a post's.
const (
	MaxExcerpt = 500
	MaxContent = 500_000
	MaxImage   = 2000
)

// Faults of blogs.
var (
	ErrNoBlog    = fault.Missing("blog")
	ErrSlugTaken = fault.New(fault.Conflict, "slug_taken", "Another blog has this slug.")
)

// Blog is a long text that is published at some time.
type Blog struct {
	ID       int64
	AuthorID int64
	Title    string
	Slug     string
	Excerpt  string
	Content  string
	Image    string // a URL, or empty
	// Published says that everybody may read it; otherwise it is a draft.
	Published bool
	// PublishedAt is when it was published for the first time; nil for a draft.
	PublishedAt *time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

func fromBlog(r dbsqlc.Blog) Blog {
	b := Blog{
		ID: r.ID, AuthorID: r.AuthorID, Title: r.Title, Slug: r.Slug, Excerpt: r.Excerpt, Content: r.Content, Image: r.Image,
		Published: r.Published, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Published && r.PublishedAt != nil {
		b.PublishedAt = new(r.PublishedAt.UTC())
	}
	return b
}

// NewBlog is what CreateBlog needs.
type NewBlog struct {
	AuthorID  int64
	Title     string
	Slug      *string // nil to make one from the title
	Excerpt   string
	Content   string
	Image     string
	Published bool
}

func (n NewBlog) validate() error {
	p := problems{}
	p.check("title", text.Within(n.Title, 1, MaxTitle), fmt.Sprintf("Needs 1 to %d characters.", MaxTitle))
	p.check("title", text.IsLine(n.Title), text.LineRule)
	p.check("slug", n.Slug == nil || slug.Valid(*n.Slug), slug.Rule)
	p.check("excerpt", text.Within(n.Excerpt, 0, MaxExcerpt), fmt.Sprintf("Must have at most %d characters.", MaxExcerpt))
	p.check("content", text.Within(n.Content, 1, MaxContent), fmt.Sprintf("Needs 1 to %d characters.", MaxContent))
	p.check("image", isImage(n.Image), fmt.Sprintf("Must be an https URL of at most %d characters, or empty.", MaxImage))
	return p.fault()
}

// isImage reports whether s is a URL that a page can show without a warning.
func isImage(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && text.Within(s, 1, MaxImage) && text.IsLine(s)
}

// BlogChange is what UpdateBlog changes; nil fields stay as they are.
type BlogChange struct {
	Title     *string
	Slug      *string
	Excerpt   *string
	Content   *string
	Image     *string
	Published *bool
}

func (c BlogChange) validate() error {
	return NewBlog{Title: or(c.Title, "-"), Slug: c.Slug, Excerpt: or(c.Excerpt, ""), Content: or(c.Content, "-"), Image: or(c.Image, "")}.validate()
}

// BlogFilter selects blogs; zero fields select all that the acting account may read.
type BlogFilter struct {
	page.Request
	AuthorID  int64
	Published *bool
}

var blogTable = table{name: "blogs", words: "blog_words", timed: true, size: "octet_length(p.content)", orders: byTimeAndTitle}

// ListBlogs returns a page of blogs; who may not read drafts gets published ones only. It
// returns a validation fault whose details are keyed by q, sort or cursor.
func (s *Service) ListBlogs(ctx context.Context, f BlogFilter) (page.Page[Blog], error) {
	sel := selection{Request: f.Request}
	if !readsDrafts(ctx) {
		sel.ordered = append(sel.ordered, condition{"p.published", nil})
	}
	if f.Published != nil {
		sel.ordered = append(sel.ordered, condition{"p.published = ?", []any{*f.Published}})
	}
	if f.AuthorID != 0 {
		sel.ordered = append(sel.ordered, condition{"p.author_id = ?", []any{f.AuthorID}})
	}
	return list(ctx, s, blogTable, sel, func(ids []int64) ([]Blog, error) {
		return each(fromBlog)(s.queries.BlogsByID(ctx, s.o.DB.Direct(), ids))
	}, func(b Blog) int64 { return b.ID })
}

func readsDrafts(ctx context.Context) bool {
	return identity.FromContext(ctx).Is(identity.Editor, identity.Admin)
}

// CreateBlog stores a blog. Without a slug it makes one from the title, with a number
// behind it while it is taken. It returns ErrSlugTaken for one that is given, or a
// validation fault keyed by field.
func (s *Service) CreateBlog(ctx context.Context, n NewBlog) (Blog, error) {
	n.Title = text.Trim(n.Title)
	if err := n.validate(); err != nil {
		return Blog{}, err
	}
	return write(ctx, s, fromBlog, func(ctx context.Context, tx pgx.Tx) (dbsqlc.Blog, error) {
		row, err := s.insertBlog(ctx, tx, n)
		if err != nil {
			return row, err
		}
		return row, s.queries.IndexBlog(ctx, tx, row.ID, searchable(row.Title, row.Content))
	})
}

// slugTries is how often CreateBlog looks for a slug that is free; each time, somebody
// else has taken the one that was.
const slugTries = 50

func (s *Service) insertBlog(ctx context.Context, tx pgx.Tx, n NewBlog) (dbsqlc.Blog, error) {
	base := slug.Of(n.Title, "blog")
	params := dbsqlc.InsertBlogParams{
		AuthorID: n.AuthorID, Title: n.Title, Slug: or(n.Slug, base), Excerpt: n.Excerpt, Content: n.Content, Image: n.Image,
		Published: n.Published, Now: s.o.Now(),
	}
	for range slugTries {
		row, err := s.queries.InsertBlog(ctx, tx, params)
		switch {
		case !errors.Is(err, pgx.ErrNoRows):
			return row, err
		case n.Slug != nil:
			return row, ErrSlugTaken
		}
		if params.Slug, err = s.freeSlug(ctx, tx, base); err != nil {
			return row, err
		}
	}
	return dbsqlc.Blog{}, fmt.Errorf("content: no slug like %q stayed free %d times", base, slugTries)
}

// freeSlug is the first slug like base that nobody has at this moment. Only an INSERT
// takes it.
func (s *Service) freeSlug(ctx context.Context, tx pgx.Tx, base string) (string, error) {
	taken := map[string]bool{base: true}
	like := base + "-%"
	if len(base) > slug.Max-10 { // it loses a part to its number, less than half
		like = base[:slug.Max/2-10] + "%"
	}
	list, err := s.queries.TakenSlugs(ctx, tx, like)
	if err != nil {
		return "", err
	}
	for _, one := range list {
		taken[one] = true
	}
	n := 2
	for taken[slug.Numbered(base, n)] {
		n++
	}
	return slug.Numbered(base, n), nil
}

// named reads what names a blog in a path: an id or a slug. Neither is set for what can
// be none.
func named(name string) (id *int64, byslug *string) {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil {
		return &n, nil
	}
	if slug.Valid(name) {
		return nil, &name
	}
	return nil, nil
}

// FindBlog returns a blog by its id or slug, and ErrNoBlog where there is none or it is a
// draft that the acting account may not read.
func (s *Service) FindBlog(ctx context.Context, name string) (Blog, error) {
	id, byslug := named(name)
	row, err := s.queries.FindBlog(ctx, s.o.DB.Direct(), id, byslug, readsDrafts(ctx))
	if err != nil {
		return Blog{}, db.NotFound(err, ErrNoBlog)
	}
	return fromBlog(row), nil
}

// UpdateBlog changes a blog, which it finds by id or slug. It returns ErrNoBlog,
// ErrSlugTaken, or a validation fault keyed by field.
func (s *Service) UpdateBlog(ctx context.Context, name string, c BlogChange) (Blog, error) {
	c.Title = trimmed(c.Title)
	if err := c.validate(); err != nil {
		return Blog{}, err
	}
	id, byslug := named(name)
	params := dbsqlc.UpdateBlogParams{
		ID: id, Slug: byslug, NewSlug: c.Slug, Title: c.Title, Excerpt: c.Excerpt, Content: c.Content, Image: c.Image,
		Published: c.Published, Now: s.o.Now(),
	}
	b, err := write(ctx, s, fromBlog, func(ctx context.Context, tx pgx.Tx) (dbsqlc.Blog, error) {
		row, err := s.queries.UpdateBlog(ctx, tx, params)
		if err != nil || c.Title == nil && c.Content == nil {
			return row, err
		}
		return row, s.queries.IndexBlog(ctx, tx, row.ID, searchable(row.Title, row.Content))
	})
	if db.Violates(err, "blogs_slug") {
		return Blog{}, ErrSlugTaken.Because(err)
	}
	return b, db.NotFound(err, ErrNoBlog)
}

// DeleteBlog deletes a blog, which it finds by id or slug. It returns ErrNoBlog.
func (s *Service) DeleteBlog(ctx context.Context, name string) error {
	id, byslug := named(name)
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.DeleteBlog(ctx, tx, id, byslug)
		if err == nil && n == 0 {
			return ErrNoBlog
		}
		return err
	})
}
