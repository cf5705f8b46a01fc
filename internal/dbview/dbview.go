// Package dbview lets an operator look into the database: at tables and their rows, at
// what is going on in it, and by statements of their own.
//
// What may be seen is in one table, visible_columns, which says it of every column;
// what it doesn't name is hidden. Tables and rows are read by statements made here, of
// names that the catalogue has. The operator's own statements, at the console, run over
// connections of the role waypost_viewer, which has no other rights: see console.go.
// Every use is a note in the audit log, written before anything is read.
package dbview

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Faults of the package.
var (
	// ErrTable says that there is no such table, or none that is shown.
	ErrTable = fault.Missing("table")
	// ErrExpensive says that a statement had to be ended.
	ErrExpensive = fault.New(fault.Invalid, "query_too_expensive", "The database was still at work on this after 5 seconds, so it was stopped. Narrow it, or let it use an index.")
)

// Options configure New. DB is mandatory.
type Options struct {
	// DB reads tables and the catalogue, and writes notes.
	DB *db.DB
	// ViewerURL is the connection string of the console; "" while it is off.
	ViewerURL string
	// Timeout ends a statement; 5 s by default.
	Timeout time.Duration
	// MaxRows and MaxBytes bound the console's answers; 1,000 and 8 MiB by default.
	MaxRows, MaxBytes int
}

func (o Options) validate() error {
	if o.DB == nil {
		return errors.New("dbview: no database")
	}
	if o.ViewerURL != "" {
		if _, err := pgconn.ParseConfig(o.ViewerURL); err != nil {
			return errors.Join(errors.New("WAYPOST_DATABASE_VIEWER_URL can't be read"), err) // pgx masks the password
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.MaxRows = cmp.Or(o.MaxRows, 1000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 8<<20)
	return o
}

// Service looks into the database. It is safe for concurrent use.
type Service struct {
	o Options
	// browsing and console have one place each: an operator's question may cost what it
	// costs for a few seconds, but not twice at once.
	browsing, console place
}

// New returns the service. It connects to nothing.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Service{o: o.withDefaults(), browsing: make(place, 1), console: make(place, 1)}, nil
}

// place is taken by one at a time.
type place chan struct{}

// placeWait is the longest that somebody waits for a place.
const placeWait = time.Second

// take waits for the place and returns how to leave it, or db.ErrBusy.
func (p place) take(ctx context.Context) (func(), error) {
	timer := time.NewTimer(placeWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-timer.C:
		return nil, db.ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look notes what is looked at and reads it, in a transaction that sees one moment. It
// goes on when the client goes away, since the server would too, so that the place is
// taken for as long as the database is at work.
func (s *Service) look(ctx context.Context, what map[string]any, fn func(ctx context.Context, tx pgx.Tx) error) error {
	leave, err := s.browsing.take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.note(ctx, what); err != nil {
		return err
	}
	const untilAnswered = time.Second // the server ends the statement first
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout+untilAnswered)
	defer cancel()
	err = s.o.DB.InLimitedSnapshot(limited, s.o.Timeout-untilAnswered, fn)
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == cancelled {
		return ErrExpensive.Because(err)
	}
	return err
}

// cancelled is the SQLSTATE of a statement that a timeout ended.
const cancelled = "57014"

// note writes down that an operator looks at something.
func (s *Service) note(ctx context.Context, what map[string]any) error {
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Note(ctx, tx, "", "", what)
	})
}
