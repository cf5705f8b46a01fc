package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/visitor"
)

// SiteFinder finds a site by its id, or returns a fault of kind NotFound.
type SiteFinder interface {
	Find(ctx context.Context, id uuid.UUID) (site.Site, error)
}

// SealJob asks for a site day to be sealed.
type SealJob struct {
	SiteID uuid.UUID `json:"site_id"`
	Day    string    `json:"day"` // as 2024-05-31
}

// Kind implements queue.Job.
func (SealJob) Kind() string { return "statistics.seal_day" }

// KindAliases has the job's former name: rows of an older version may have it.
func (SealJob) KindAliases() []string { return []string{"stats.seal"} }

// UniqueJobs inserts jobs of which one for the same arguments is enough.
type UniqueJobs interface {
	InsertUnique(ctx context.Context, tx pgx.Tx, lane string, jobs []queue.Job) error
}

// Boundary is a point between two steps of work on rollups.
type Boundary string

// The boundaries, in the order in which a fold, a seal and a trim of labels pass them.
const (
	BeforeFoldRead     Boundary = "fold: read"
	BeforeFoldPortions Boundary = "fold: portions"
	BeforeFoldRollups  Boundary = "fold: rollups"
	BeforeFoldStale    Boundary = "fold: stale"
	BeforeFoldCommit   Boundary = "fold: commit"
	BeforeSealClear    Boundary = "seal: clear"
	BeforeSealCount    Boundary = "seal: count"
	BeforeSealColumns  Boundary = "seal: columns"
	BeforeSealState    Boundary = "seal: state"
	BeforeSealBlocks   Boundary = "seal: blocks"
	BeforeSealCommit   Boundary = "seal: commit"
	BeforeLabelsGo     Boundary = "labels: go"
)

// RollupsOptions configure NewRollups.
type RollupsOptions struct {
	DB    *db.DB     // mandatory
	Sites SiteFinder // mandatory
	// Jobs is needed by QueueDue alone.
	Jobs UniqueJobs
	// Now is the clock; default time.Now.
	Now func() time.Time
	// LabelCap is that of ServiceOptions, with the same default, and must equal it.
	LabelCap int
	// EventCaps are those of ServiceOptions, and must equal them.
	EventCaps EventCaps
	// FoldFrom is how many visitors of a day that goes on must have done something
	// before they are folded into its rollups; default 64. A reader adds the others
	// one by one.
	FoldFrom int
	// BlockEvents is how many events of a sealed day are packed together at least, but for
	// its last; default 32,768.
	BlockEvents int
	// Interrupt, when set, is called at every boundary; with an error the transaction
	// ends there as if the process had died. For tests.
	Interrupt func(Boundary) error
}

func (o RollupsOptions) validate() error {
	if o.DB == nil || o.Sites == nil || o.LabelCap < 0 || o.FoldFrom < 0 || o.BlockEvents < 0 {
		return errors.New("stats: RollupsOptions need DB and Sites, and nothing negative")
	}
	return nil
}

func (o RollupsOptions) withDefaults() RollupsOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.LabelCap = cmp.Or(o.LabelCap, defaultLabelCap)
	o.EventCaps = o.EventCaps.withDefaults()
	o.FoldFrom = cmp.Or(o.FoldFrom, 64)
	o.BlockEvents = cmp.Or(o.BlockEvents, defaultBlockEvents)
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary) error { return nil }
	}
	return o
}

// Rollups keeps the rollups of site days. A day is open while events may be
// added to it in the ordinary way, until 48 hours after its end: its rollups then
// hold the visitors folded so far, and a reader puts right those who did
// something since. Sealing counts a day anew from its events, after which it is
// read without looking at them. An event that comes still later makes the day
// dirty: it is read from its events until it is sealed again.
//
// All methods may be called at any time, by any number of processes, and be
// broken off anywhere: each step is one transaction under the lock of the site's
// row in rollup_sites, and answers are exact before and after each.
type Rollups struct {
	o       RollupsOptions
	queries *dbsqlc.Queries

	folding  sync.Mutex
	foldedTo map[siteDate]int64 // the last visitor, where a pass left off; guarded by folding
}

type siteDate struct {
	site uuid.UUID
	day  time.Time
}

// NewRollups makes a Rollups, or says what its options lack.
func NewRollups(o RollupsOptions) (*Rollups, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Rollups{o: o.withDefaults(), queries: dbsqlc.New(), foldedTo: make(map[siteDate]int64)}, nil
}

const (
	// daysPerSweep is how many days one call of QueueDue or FoldBusy takes on.
	daysPerSweep = 1000
	// foldVisitors is how many visitors are folded in one transaction.
	foldVisitors = 1000
	// foldPass is how many visitors one call of FoldBusy takes on.
	foldPass = 4000
)

// QueueDue queues a job for each day that ended more than 48 hours ago and is not
// sealed, or has no columns, in a lane of their own, and returns how many these are.
func (r *Rollups) QueueDue(ctx context.Context) (int, error) {
	due, err := r.queries.ListUnsealedDays(ctx, r.o.DB.Direct(), r.o.Now().Add(-visitor.SaltLife), daysPerSweep)
	if err != nil {
		return 0, db.Translate(err)
	}
	// Days that were sealed before there were columns.
	unpacked, err := r.queries.ListUnpackedDays(ctx, r.o.DB.Direct(), daysPerSweep)
	if err != nil || len(due)+len(unpacked) == 0 {
		return 0, db.Translate(err)
	}
	jobs := make([]queue.Job, 0, len(due)+len(unpacked))
	for _, d := range due {
		jobs = append(jobs, SealJob{SiteID: d.SiteID, Day: d.Day.UTC().Format(time.DateOnly)})
	}
	for _, d := range unpacked {
		jobs = append(jobs, SealJob{SiteID: d.SiteID, Day: d.Day.UTC().Format(time.DateOnly)})
	}
	return len(jobs), r.o.DB.InTx(ctx, identity.System("rollups"), func(ctx context.Context, tx pgx.Tx) error {
		return r.o.Jobs.InsertUnique(ctx, tx, queue.Rollups, jobs)
	})
}

// Seal seals the day of a job, unless it is sealed.
func (r *Rollups) Seal(ctx context.Context, job SealJob) error {
	day, err := time.Parse(time.DateOnly, job.Day)
	if err != nil {
		return fmt.Errorf("stats: seal: %w", err)
	}
	return r.seal(ctx, job.SiteID, day, false)
}

// FoldBusy folds visitors of open days, where enough of them wait for it and
// wherever the day has ended, and returns how many: at most foldPass, so that what
// it takes from collecting is bounded. The next pass goes on behind the last. While
// another pass of this process goes on, it does nothing. Sites whose server of a cluster
// is away don't keep others from being folded; the error tells of them.
func (r *Rollups) FoldBusy(ctx context.Context) (int, error) {
	if !r.folding.TryLock() {
		return 0, nil
	}
	defer r.folding.Unlock()
	days, away := r.daysToFold(ctx)
	if away != nil && !r.o.DB.IsPartlyAway(away) {
		return 0, away
	}
	total := 0
	for _, key := range days {
		last, resumed := r.foldedTo[key]
		if !resumed {
			last = math.MinInt64
		}
		for n := foldVisitors; n == foldVisitors; total += n {
			if total >= foldPass {
				r.foldedTo[key] = last
				return total, away
			}
			var err error
			if last, n, err = r.fold(ctx, key.site, key.day, last); err == nil {
				continue
			}
			if !r.o.DB.IsPartlyAway(err) || ctx.Err() != nil {
				return total, err
			}
			away = cmp.Or(away, err)
		}
		delete(r.foldedTo, key)
	}
	return total, away
}

// daysToFold returns the days that are to be folded. With an error that IsPartlyAway,
// these are the days of the sites that could be asked.
func (r *Rollups) daysToFold(ctx context.Context) ([]siteDate, error) {
	now := r.o.Now()
	p := dbsqlc.ListDaysToFoldParams{EndedAfter: now.Add(-visitor.SaltLife), Now: now, Least: int32(r.o.FoldFrom), MaxRows: daysPerSweep}
	rows, err := r.queries.ListDaysToFold(ctx, r.o.DB.Direct(), p)
	var days []siteDate
	for _, d := range rows {
		days = append(days, siteDate{d.SiteID, d.Day.UTC()})
	}
	if !r.o.DB.IsPartlyAway(err) {
		return days, db.Translate(err)
	}
	return days, visitor.EachSite(ctx, r.o.DB, r.queries, func(id uuid.UUID) error {
		rows, err := r.queries.ListShardDaysToFold(ctx, r.o.DB.Direct(), dbsqlc.ListShardDaysToFoldParams{SiteID: id, EndedAfter: p.EndedAfter, Now: p.Now, Least: p.Least, MaxRows: p.MaxRows})
		for _, d := range rows {
			days = append(days, siteDate{d.SiteID, d.Day.UTC()})
		}
		return err
	})
}

// planAnew is for a transaction of few statements over many rows: a plan made while
// a table was small would go on scanning it when it is large.
const planAnew = "set local plan_cache_mode = force_custom_plan"

// lockedSite is a site whose rollups nobody else writes.
type lockedSite struct {
	site.Site
	generation int64 // how often the lock was taken
}

// locked runs f in a transaction under the site's lock. A site that is gone has
// nothing to do.
func (r *Rollups) locked(ctx context.Context, siteID uuid.UUID, f func(ctx context.Context, tx pgx.Tx, s lockedSite) error) error {
	s, err := r.o.Sites.Find(ctx, siteID)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return r.o.DB.InTx(ctx, identity.System("rollups"), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planAnew); err != nil {
			return err
		}
		generation, err := r.queries.LockRollupSite(ctx, tx, siteID)
		if err != nil {
			return err
		}
		return f(ctx, tx, lockedSite{Site: s, generation: generation})
	})
}

// siteDayOf is a day as its row has it.
func siteDayOf(s site.Site, d calendar.Day) siteDay {
	return siteDay{Day: calendar.Day{Date: d.Date.UTC(), Start: d.Start.UTC(), End: d.End.UTC()}, zone: s.ZoneAt(d.Start)}
}
