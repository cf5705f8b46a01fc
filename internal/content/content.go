// Package content is what accounts write and publish. Each kind of content is a file: its
// type, its rules, and what can be done with it. What all kinds share is a table's list
// (list.go), its search (search.go) and the transaction of a change (write).
package content

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
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

// Service is the posts and the blogs.
type Service struct {
	o          Options
	queries    dbsqlc.Queries
	sampleRows int
}

// New makes the service.
func New(o Options) (*Service, error) {
	if o.DB == nil {
		return nil, errors.New("content: Options.DB is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o, sampleRows: sampleRows}, nil
}

// write runs fn in one transaction of who acts, and converts the row that it returns.
func write[R, T any](ctx context.Context, s *Service, convert func(R) T, fn func(ctx context.Context, tx pgx.Tx) (R, error)) (T, error) {
	var row R
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = fn(ctx, tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return convert(row), nil
}

// each converts rows that a statement returned.
func each[R, T any](convert func(R) T) func([]R, error) ([]T, error) {
	return func(rows []R, err error) ([]T, error) {
		list := make([]T, len(rows))
		for i, r := range rows {
			list[i] = convert(r)
		}
		return list, err
	}
}

// problems gathers what is wrong with the fields of a row: sentences by field.
type problems map[string]string

// check holds one field to a rule.
func (p problems) check(field string, ok bool, sentence string) {
	if _, said := p[field]; !said && !ok {
		p[field] = sentence
	}
}

// fault is nil without a problem.
func (p problems) fault() error {
	if len(p) == 0 {
		return nil
	}
	return fault.Validation(p)
}

// or returns what a change changes a field to, and otherwise something that keeps every
// rule: what stays is right already.
func or[T any](changed *T, right T) T {
	if changed == nil {
		return right
	}
	return *changed
}

// trimmed is a change of a name or title, without white space around it.
func trimmed(s *string) *string {
	if s == nil {
		return nil
	}
	return new(text.Trim(*s))
}

// distinct drops repetitions and white space around tags, and keeps the order; its result
// is never nil.
func distinct(tags []string) []string {
	out := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = text.Trim(tag); !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}
