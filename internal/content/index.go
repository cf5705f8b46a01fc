package content

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/content/words"
	"github.com/waypost/waypost/internal/identity"
)

// indexBatch is how many texts one transaction indexes: at their largest, some 100 MB.
const indexBatch = 50

// searchable is the text of a row as it is indexed.
func searchable(title, body string) []string { return words.Of(title + "\n" + body) }

// due is a row whose words are not known: it was there before words were, or an older
// program or psql has written it.
type due struct {
	ID          int64
	Title, Text string
}

// indexing is how the words of one table become known.
type indexing struct {
	due   func(context.Context, dbsqlc.DBTX, int32) ([]due, error)
	index func(context.Context, dbsqlc.DBTX, int64, []string) error
}

func (s *Service) indexings() []indexing {
	return []indexing{
		{func(ctx context.Context, tx dbsqlc.DBTX, n int32) ([]due, error) {
			return each(func(r dbsqlc.DuePostsRow) due { return due(r) })(s.queries.DuePosts(ctx, tx, n))
		}, s.queries.IndexPost},
		{func(ctx context.Context, tx dbsqlc.DBTX, n int32) ([]due, error) {
			return each(func(r dbsqlc.DueBlogsRow) due { return due(r) })(s.queries.DueBlogs(ctx, tx, n))
		}, s.queries.IndexBlog},
	}
}

// Index makes the words of texts known that are not, until there are no more, and returns
// how many that were. Until then searches don't find these texts; Unsearchable says how
// many there are.
func (s *Service) Index(ctx context.Context) (int, error) {
	all := 0
	for _, table := range s.indexings() {
		for n := indexBatch; n == indexBatch; {
			var err error
			if n, err = s.indexSome(ctx, table); err != nil {
				return all, err
			}
			all += n
		}
	}
	return all, nil
}

// indexSome indexes one batch and returns how many rows it had.
func (s *Service) indexSome(ctx context.Context, table indexing) (int, error) {
	n := 0
	err := s.o.DB.InTx(ctx, identity.Step(ctx, "index"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := table.due(ctx, tx, indexBatch)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := table.index(ctx, tx, r.ID, searchable(r.Title, r.Text)); err != nil {
				return err
			}
		}
		n = len(rows)
		return nil
	})
	return n, err
}

// Unsearchable returns how many texts searches don't find yet, counting up to 1,000 posts
// and as many blogs. It asks over d.
func (s *Service) Unsearchable(ctx context.Context, d *db.DB) (int64, error) {
	posts, err := s.queries.CountDuePosts(ctx, d.Direct())
	if err != nil {
		return 0, err
	}
	blogs, err := s.queries.CountDueBlogs(ctx, d.Direct())
	return posts + blogs, err
}
