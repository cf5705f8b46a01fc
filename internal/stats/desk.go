package stats

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fairqueue"
	"github.com/waypost/waypost/internal/fault"
)

// CodeTooExpensive is the code of ErrTooExpensive.
const CodeTooExpensive = "query_too_expensive"

// ErrTooExpensive says that an answer was begun and took too long; kind Invalid,
// since the same question would take as long again.
var ErrTooExpensive = fault.New(fault.Invalid, CodeTooExpensive,
	"Answering this reads too many events. Ask for a shorter range, or with fewer filters.")

// maxAsking is how many questions wait at a desk.
const maxAsking = 256

// errManyEvents says that an answer would read more events than its desk allows.
var errManyEvents = errors.New("stats: an answer of many events")

// desk makes a bounded number of answers at once. Sites share it fairly, so that
// one whose answers take long waits for itself.
type desk struct {
	db     *db.DB
	places *fairqueue.Queue
	// maxEvents is how many events an answer may read, by estimate.
	maxEvents int64
}

func newDesk(d *db.DB, places int, maxEvents int64) (desk, error) {
	q, err := fairqueue.New(fairqueue.Options{Places: places, PerKey: max(1, places-1), MaxWaiting: maxAsking})
	return desk{db: d, places: q, maxEvents: maxEvents}, err
}

// serve runs fn in one snapshot when a place is free, for up to timeout.
func (d desk) serve(ctx context.Context, siteID uuid.UUID, timeout time.Duration, fn func(context.Context, pgx.Tx) error) error {
	waited := d.db.Queue()
	leave, err := d.places.Enter(ctx, siteID.String())
	waited(errors.Is(err, fairqueue.ErrBusy))
	if err != nil {
		return err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, timeout, ErrTooExpensive)
	defer cancel()
	err = d.db.InLimitedSnapshot(limited, timeout, fn)
	if err != nil && ctx.Err() == nil && context.Cause(limited) == ErrTooExpensive {
		return ErrTooExpensive.Because(err)
	}
	return err
}
