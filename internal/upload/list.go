package upload

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/db/where"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Filter selects files; zero fields select all, but never others' than OwnerID's unless
// Everyones is set.
type Filter struct {
	// OwnerID is whose files are listed; 0 for the acting account's.
	OwnerID int64
	// Everyones lists everybody's files, whatever OwnerID is.
	Everyones bool
	// Status is "" for any.
	Status Status
	// Query is looked for in the names, without regard to case.
	Query string
	// ContentType is a media type, or one with * for all of a kind, as in image/*.
	ContentType string
	// Sort is created_at, size or filename, with a minus before it for the other
	// direction; "" for -created_at. The id breaks ties.
	Sort string
	// After is where the previous page ended; nil for the first page.
	After *Position
	// Limit is the number of rows wanted at most.
	Limit int
	// Count also counts all rows that match, whatever the page.
	Count bool
}

// Position is a file's place in every order.
type Position struct {
	CreatedAt time.Time
	Size      int64
	Filename  string
	ID        int64
}

// Position returns where u stands in a list.
func (u Upload) Position() Position {
	return Position{CreatedAt: u.CreatedAt, Size: u.Size, Filename: u.Filename, ID: u.ID}
}

// List returns a page of files and, when asked, how many match. For another account
// than the acting one it returns ErrNotAdmin or ErrTokenScope to who may not list its
// files. It returns validation faults keyed by q, content_type, status, sort or cursor.
func (s *Service) List(ctx context.Context, f Filter) ([]Upload, *int64, error) {
	p := identity.FromContext(ctx)
	if f.OwnerID == 0 {
		f.OwnerID = p.UserID
	}
	if f.Everyones || f.OwnerID != p.UserID {
		if err := admitToAll(p); err != nil {
			return nil, nil, err
		}
	}
	matching, err := f.matching()
	if err != nil {
		return nil, nil, err
	}
	var total *int64
	if f.Count {
		total = new(int64)
		if err := s.o.DB.Direct().QueryRow(ctx, `select count(*) from uploads`+matching.SQL(), matching.Args()...).Scan(total); err != nil {
			return nil, nil, db.Translate(err)
		}
	}
	order, err := f.order(matching)
	if err != nil {
		return nil, nil, err
	}
	query := `select * from uploads` + matching.SQL() + ` order by ` + order + ` limit ` + matching.Arg(f.Limit)
	rows, err := s.o.DB.Direct().Query(ctx, query, matching.Args()...)
	if err != nil {
		return nil, nil, db.Translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Upload, error) {
		r, err := pgx.RowToStructByName[dbsqlc.Upload](row)
		return fromRow(r), err
	})
	return list, total, db.Translate(err)
}

func (f Filter) matching() (*where.Clause, error) {
	details := map[string]string{}
	for field, value := range map[string]string{"q": f.Query, "content_type": f.ContentType} {
		if !text.Storable(value) {
			details[field] = "Must be text without U+0000."
		}
	}
	if f.Status != "" && f.Status != Pending && f.Status != Ready {
		details["status"] = "Must be pending or ready."
	}
	if len(details) > 0 {
		return nil, fault.Validation(details)
	}
	c := where.New()
	if !f.Everyones {
		c.Add(`owner_id = ?`, f.OwnerID)
	}
	if f.Status != "" {
		c.Add(`status = ?`, string(f.Status))
	}
	if f.Query != "" {
		c.Add(`filename ilike ?`, where.Containing(f.Query))
	}
	if kind, all := strings.CutSuffix(f.ContentType, "/*"); all {
		c.Add(`content_type like ?`, where.Literal(strings.ToLower(kind))+"/%")
	} else if f.ContentType != "" {
		c.Add(`content_type = ?`, strings.ToLower(f.ContentType))
	}
	return c, nil
}

// order returns the ORDER BY list, and adds to c the condition that skips what earlier
// pages held.
func (f Filter) order(c *where.Clause) (string, error) {
	column, descending := strings.CutPrefix(f.Sort, "-")
	var after any
	if f.After == nil {
		f.After = &Position{}
	}
	switch column {
	case "":
		column, descending, after = "created_at", true, f.After.CreatedAt
	case "created_at":
		after = f.After.CreatedAt
	case "size":
		after = f.After.Size
	case "filename":
		after = f.After.Filename
	default:
		return "", fault.Validation(map[string]string{"sort": "Must be created_at, size or filename, or one of them after a minus."})
	}
	if !text.Storable(f.After.Filename) {
		return "", fault.Validation(map[string]string{"cursor": "This is not a cursor of this list."})
	}
	if f.Everyones && column == "created_at" {
		column, after = "id", f.After.ID // in the same order but for files that came at once; the primary key has it
	}
	direction, compare := "", " > "
	if descending {
		direction, compare = " desc", " < "
	}
	if f.After.ID != 0 {
		c.Add("("+column+", id)"+compare+"(?, ?)", after, f.After.ID)
	}
	return column + direction + ", id" + direction, nil
}
