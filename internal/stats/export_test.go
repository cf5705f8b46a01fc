package stats

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/stats/visitor"
)

// Keys seals the secrets of tests.
func Keys(t testing.TB) *seal.Keyring {
	t.Helper()
	return keysOf(t, "a secret key for tests, longer than 32 bytes", "")
}

func keysOf(t testing.TB, current, previous string) *seal.Keyring {
	t.Helper()
	keys, err := seal.New(visitor.SealPurpose, []byte(current), []byte(previous))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// SealDue does at once what QueueDue leaves to jobs, and returns how many days it
// sealed.
func (r *Rollups) SealDue(ctx context.Context) (int, error) {
	var due listedJobs
	listing := Rollups{o: r.o, queries: r.queries}
	listing.o.Jobs = &due
	if _, err := listing.QueueDue(ctx); err != nil {
		return 0, err
	}
	for n, job := range due {
		if err := r.Seal(ctx, job.(SealJob)); err != nil {
			return n, err
		}
	}
	return len(due), nil
}

type listedJobs []queue.Job

func (l *listedJobs) InsertUnique(_ context.Context, _ pgx.Tx, _ string, jobs []queue.Job) error {
	*l = append(*l, jobs...)
	return nil
}

// SealAgain counts a day anew and seals it. One that is sealed is made dirty before,
// as by an event that came late.
func (r *Rollups) SealAgain(ctx context.Context, siteID uuid.UUID, day time.Time) error {
	err := r.o.DB.InTx(ctx, identity.System("test"), func(ctx context.Context, tx pgx.Tx) error {
		if db.Sharded(tx) {
			return r.queries.MarkShardDaysDirty(ctx, tx, siteID, []time.Time{day})
		}
		return r.queries.MarkSiteDaysDirty(ctx, tx, []uuid.UUID{siteID}, []time.Time{day})
	})
	if err != nil {
		return err
	}
	return r.seal(ctx, siteID, day, false)
}
