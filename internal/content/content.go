package content

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
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
	conditions, args, err := f.conditions()
	if err != nil {
		return nil, nil, err
	}
	var total *int64
	if f.Count {
		total = new(int64)
		count := `select count(*) from posts where ` + conditions
		if err := s.o.DB.Direct().QueryRow(ctx, count, args).Scan(total); err != nil {
			return nil, nil, db.Translate(err)
		}
	}
	if f.After != nil {
		conditions += ` and (created_at, id) < (@after_created_at, @after_id)`
		args["after_created_at"], args["after_id"] = f.After.CreatedAt, f.After.ID
	}
	args["limit"] = f.Limit
	query := `select * from posts where ` + conditions + ` order by created_at desc, id desc limit @limit`
	rows, err := s.o.DB.Direct().Query(ctx, query, args)
	if err != nil {
		return nil, nil, db.Translate(err)
	}
	posts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Post, error) {
		r, err := pgx.RowToStructByName[dbsqlc.Post](row)
		return fromRow(r), err
	})
	return posts, total, db.Translate(err)
}

func (f Filter) conditions() (string, pgx.NamedArgs, error) {
	where := []string{"true"}
	args := pgx.NamedArgs{}
	details := map[string]string{}
	for field, text := range map[string]string{"q": f.Query, "tag": f.Tag} {
		if !storable(text) {
			details[field] = "Must be text without U+0000."
		}
	}
	if len(details) > 0 {
		return "", nil, fault.Validation(details)
	}
	if f.Query != "" {
		where = append(where, `(title ilike @q or body ilike @q)`)
		args["q"] = "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Query) + "%"
	}
	if f.Tag != "" {
		where = append(where, `tags @> array[@tag::text]`)
		args["tag"] = f.Tag
	}
	if f.AuthorID != 0 {
		where = append(where, `author_id = @author_id`)
		args["author_id"] = f.AuthorID
	}
	return strings.Join(where, " and "), args, nil
}
