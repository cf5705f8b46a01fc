package content

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Options configure New. DB is mandatory.
type Options struct {
	DB *db.DB
	// Now is the clock; nil for the system's.
	Now func() time.Time
}

// Service is the posts.
type Service struct {
	o       Options
	queries dbsqlc.Queries
}

// New makes the service.
func New(o Options) (*Service, error) {
	if o.DB == nil {
		return nil, errors.New("content: Options.DB is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o}, nil
}

// CreatePost stores a post; a tag that is given twice is kept once. It returns a
// validation fault whose details are keyed by field.
func (s *Service) CreatePost(ctx context.Context, n NewPost) (Post, error) {
	if err := n.validate(); err != nil {
		return Post{}, err
	}
	var row dbsqlc.Post
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.InsertPost(ctx, tx, dbsqlc.InsertPostParams{
			AuthorID: n.AuthorID, Title: n.Title, Body: n.Body, Tags: distinct(n.Tags), Now: s.o.Now(),
		})
		return err
	})
	if err != nil {
		return Post{}, err
	}
	return fromRow(row), nil
}

// distinct drops repetitions and keeps the order; its result is never nil.
func distinct(tags []string) []string {
	out := make([]string, 0, len(tags))
	for _, tag := range tags {
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}

// Filter selects posts; zero fields select all.
type Filter struct {
	// Query is looked for in title and body, without regard to case.
	Query    string
	Tag      string // exactly
	AuthorID int64
	// After is where the previous page ended; nil for the first page.
	After *Position
	// Limit is the number of rows wanted at most.
	Limit int
	// Count also counts all rows that match, whatever the page.
	Count bool
}

// Position is a post's place in the order of the list.
type Position struct {
	CreatedAt time.Time
	ID        int64
}

// Position returns where p stands in a list.
func (p Post) Position() Position { return Position{CreatedAt: p.CreatedAt, ID: p.ID} }

// ListPosts returns a page of posts, newest first, and, when asked, how many
// match. It returns a validation fault whose details are keyed by q or tag.
func (s *Service) ListPosts(ctx context.Context, f Filter) ([]Post, *int64, error) {
	matching, err := f.matching()
	if err != nil {
		return nil, nil, err
	}
	var total *int64
	if f.Count {
		total = new(int64)
		if err := s.o.DB.Direct().QueryRow(ctx, `select count(*) from posts`+matching.SQL(), matching.Args()...).Scan(total); err != nil {
			return nil, nil, db.Translate(err)
		}
	}
	if f.After != nil {
		matching.Add(`(created_at, id) < (?, ?)`, f.After.CreatedAt, f.After.ID)
	}
	query := `select * from posts` + matching.SQL() + ` order by created_at desc, id desc limit ` + matching.Arg(f.Limit)
	rows, err := s.o.DB.Direct().Query(ctx, query, matching.Args()...)
	if err != nil {
		return nil, nil, db.Translate(err)
	}
	posts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Post, error) {
		r, err := pgx.RowToStructByName[dbsqlc.Post](row)
		return fromRow(r), err
	})
	return posts, total, db.Translate(err)
}

func (f Filter) matching() (*where.Clause, error) {
	details := map[string]string{}
	for field, value := range map[string]string{"q": f.Query, "tag": f.Tag} {
		if !text.Storable(value) {
			details[field] = "Must be text without U+0000."
		}
	}
	if len(details) > 0 {
		return nil, fault.Validation(details)
	}
	c := where.New()
	if f.Query != "" {
		pattern := where.Containing(f.Query)
		c.Add(`(title ilike ? or body ilike ?)`, pattern, pattern)
	}
	if f.Tag != "" {
		c.Add(`tags @> array[?::text]`, f.Tag)
	}
	if f.AuthorID != 0 {
		c.Add(`author_id = ?`, f.AuthorID)
	}
	return c, nil
}
