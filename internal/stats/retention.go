package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/eventid"
)

const (
	// MaxRetentionMonths is the longest retention that ends.
	MaxRetentionMonths = 1200
	// sealedFor is how long a day must have been sealed before its raw data goes: an
	// import that is under way may still come back to it.
	sealedFor = 24 * time.Hour
	// trimBatch is how many rows one transaction deletes.
	trimBatch = 5000
	// monthsOfDrops is for how many months before the current one drops stay at most: they say
	// what goes wrong, and are no part of what was counted.
	monthsOfDrops = 24
)

// CodeBeyondRetention is the code of a question that needs raw data that is gone.
const CodeBeyondRetention = "beyond_retention"

// ErrBeyondRetention says that raw data of a day is gone; kind Invalid. With it comes, in
// Details, the earliest day that is there.
var ErrBeyondRetention = fault.New(fault.Invalid, CodeBeyondRetention,
	"The single visits that this question needs are deleted; of their days only the numbers of whole days and hours without filters are kept.")

func beyondRetention(earliest time.Time) error {
	day := earliest.Format(time.DateOnly)
	f := fault.New(fault.Invalid, CodeBeyondRetention, ErrBeyondRetention.Message+" Ask for a range from "+day+" on.")
	f.Details = map[string]string{"earliest": day}
	return f
}

func (s *Service) beyondRetention(ctx context.Context, tx pgx.Tx, siteID uuid.UUID) error {
	earliest, err := s.queries.FindFirstRawDay(ctx, tx, siteID)
	if err != nil {
		return err
	}
	return beyondRetention(earliest.UTC())
}

// RetentionOptions configure NewRetention.
type RetentionOptions struct {
	DB *db.DB // mandatory
	// Months is for how many months before the current one a site's raw data stays, where
	// the site has no number of its own; 0 for ever.
	Months int
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Retention ends raw data: events and sessions, and what is kept for their sake.
// Rollups stay.
type Retention struct {
	o       RetentionOptions
	queries *dbsqlc.Queries
}

// NewRetention makes a Retention, or says what its options lack.
func NewRetention(o RetentionOptions) (*Retention, error) {
	if o.DB == nil || o.Months < 0 || o.Months > MaxRetentionMonths {
		return nil, errors.New("stats: RetentionOptions need DB and a number of months")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Retention{o: o, queries: dbsqlc.New()}, nil
}

// Trim ends the raw data of all sites whose retention is over, and old counts of drops, and
// returns how many site days have lost their raw data. First the days are marked: from then
// on they are never counted anew, and nothing can be added to them. Then whole months are
// dropped that no site wants, and the rest is deleted by rows. It may be broken off at any
// instant.
func (r *Retention) Trim(ctx context.Context) (int, error) {
	sites, err := r.queries.ListRetentions(ctx, r.o.DB.Direct(), int32(r.o.Months))
	if err != nil {
		return 0, db.Translate(err)
	}
	days, ended := 0, false
	var due []uuid.UUID
	for _, s := range sites {
		if err := r.trimDrops(ctx, s); err != nil {
			return days, fmt.Errorf("stats: drops of site %s: %w", s.ID, err)
		}
		marked := 0
		if s.Months > 0 {
			if marked, err = r.mark(ctx, s); err != nil {
				return days, fmt.Errorf("stats: retention of site %s: %w", s.ID, err)
			}
		}
		days += marked
		ended = ended || marked > 0 || s.RawFrom != nil
		if marked > 0 || s.RawFrom != nil && (s.ClearedTo == nil || s.ClearedTo.Before(*s.RawFrom)) {
			due = append(due, s.ID)
		}
	}
	if ended {
		// Also what the last time left because somebody was reading it.
		if err := r.dropMonths(ctx); err != nil {
			return days, err
		}
	}
	for _, id := range due {
		if err := r.clear(ctx, id); err != nil {
			return days, fmt.Errorf("stats: retention of site %s: %w", id, err)
		}
	}
	return days, nil
}

// mark moves on where a site's raw data begins, by whole months of UTC, to the end of its
// retention or to the first day that is not sealed for long enough.
func (r *Retention) mark(ctx context.Context, s dbsqlc.ListRetentionsRow) (int, error) {
	now := r.o.Now().UTC()
	until := calendar.MonthOf(now).AddDate(0, -int(s.Months), 0)
	if s.RawFrom != nil && !s.RawFrom.Before(until) {
		return 0, nil
	}
	var marked int64
	err := r.o.DB.InTx(ctx, identity.System("retention"), func(ctx context.Context, tx pgx.Tx) error {
		marked = 0
		if err := r.queries.HoldCalendar(ctx, tx); err != nil {
			return err
		}
		days, err := r.queries.LockDaysToTrim(ctx, tx, s.ID, until)
		if err != nil {
			return err
		}
		from := until
		for _, d := range days {
			if d.State != stateSealed || d.SealedAt != nil && d.SealedAt.After(now.Add(-sealedFor)) {
				from = calendar.MonthOf(d.StartsAt.UTC())
				break
			}
		}
		if len(days) == 0 || !from.After(days[0].StartsAt) {
			return nil
		}
		if err := r.queries.SaveRetention(ctx, tx, s.ID, from); err != nil {
			return err
		}
		marked, err = r.queries.TrimSiteDays(ctx, tx, s.ID, from)
		return err
	})
	return int(marked), err
}

// trimDrops deletes a site's old counts of hits that were left out.
func (r *Retention) trimDrops(ctx context.Context, s dbsqlc.ListRetentionsRow) error {
	months := monthsOfDrops
	if s.Months > 0 {
		months = min(months, int(s.Months))
	}
	before := calendar.MonthOf(r.o.Now().UTC()).AddDate(0, -months, 0)
	return r.inBatches(ctx, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return r.queries.TrimSiteDrops(ctx, tx, s.ID, before, trimBatch)
	})
}

// dropMonths drops the months that no site wants any more, as far as nobody is reading
// them for long just now.
func (r *Retention) dropMonths(ctx context.Context) error {
	months, err := r.queries.ListEventsMonths(ctx, r.o.DB.Direct())
	if err != nil {
		return db.Translate(err)
	}
	oldest := calendar.MonthOf(r.o.Now().UTC()).AddDate(0, -1, 0)
	for _, month := range months {
		if !month.Before(oldest) {
			return nil
		}
		err := r.o.DB.InTx(ctx, identity.System("retention"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := r.queries.DropEventsMonth(ctx, tx, month)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clear deletes what is left of a site's raw data from before it begins.
func (r *Retention) clear(ctx context.Context, siteID uuid.UUID) error {
	kept, err := r.queries.FindSiteRetention(ctx, r.o.DB.Direct(), siteID)
	if err != nil {
		return db.Translate(err)
	}
	firstDay, err := r.queries.FindFirstRawDay(ctx, r.o.DB.Direct(), siteID)
	if err != nil {
		return db.Translate(err)
	}
	for _, trim := range []func(ctx context.Context, tx pgx.Tx) (int64, error){
		func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return r.queries.TrimEvents(ctx, tx, siteID, kept.RawFrom, trimBatch)
		},
		func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return r.queries.TrimSessions(ctx, tx, siteID, firstDay, trimBatch)
		},
		func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return r.queries.TrimRollupColumns(ctx, tx, siteID, firstDay, trimBatch/10)
		},
		func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return r.queries.TrimSessionHeads(ctx, tx, siteID, firstDay, trimBatch)
		},
	} {
		if err := r.inBatches(ctx, trim); err != nil {
			return err
		}
	}
	if err := r.clearKnown(ctx, siteID, kept.RawFrom); err != nil {
		return err
	}
	return r.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return r.queries.SaveCleared(ctx, tx, &kept.RawFrom, siteID)
	})
}

// clearKnown deletes what told lines and reported events from new ones: those would come
// too late now. Ids go by when they arrived, since an id holds whatever its event's time.
func (r *Retention) clearKnown(ctx context.Context, siteID uuid.UUID, before time.Time) error {
	err := eventid.EachSlice(func(first, end []byte) error {
		return r.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := r.queries.TrimImportedLines(ctx, tx, dbsqlc.TrimImportedLinesParams{SiteID: siteID, FirstHash: first, EndHash: end, Before: before}); err != nil {
				return err
			}
			_, err := r.queries.TrimEventIDs(ctx, tx, dbsqlc.TrimEventIDsParams{SiteID: siteID, FirstDigest: first, EndDigest: end, Before: before})
			return err
		})
	})
	if err != nil {
		return err
	}
	return r.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// A month of the site's clocks may begin in that of UTC before.
		lastOf := calendar.MonthOf(before.UTC()).AddDate(0, -1, 0)
		if err := r.queries.TrimImportSecrets(ctx, tx, siteID, lastOf); err != nil {
			return err
		}
		return r.queries.TrimImports(ctx, tx, siteID, &before)
	})
}

// inBatches calls trim, each time in a transaction of its own, until it deletes nothing.
func (r *Retention) inBatches(ctx context.Context, trim func(ctx context.Context, tx pgx.Tx) (int64, error)) error {
	for rows := int64(1); rows > 0; {
		err := r.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			rows, err = trim(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Retention) inTx(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return r.o.DB.InIndexTx(ctx, identity.System("retention"), fn)
}

// RawData says from when on a site's single visits are there.
type RawData struct {
	// Months is the site's retention, 0 for ever; FromSite that it is the site's own.
	Months   int
	FromSite bool
	// FirstDay is the first day whose visits are there, as midnight UTC; the zero time when
	// nothing is gone.
	FirstDay time.Time
}

// Of returns what is kept of a site's raw data; own is the site's own retention, nil
// without one.
func (r *Retention) Of(ctx context.Context, siteID uuid.UUID, own *int) (RawData, error) {
	out := RawData{Months: r.o.Months}
	if own != nil {
		out.Months, out.FromSite = *own, true
	}
	day, err := r.queries.FindFirstRawDay(ctx, r.o.DB.Direct(), siteID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return RawData{}, db.Translate(err)
	}
	if err == nil {
		out.FirstDay = day.UTC()
	}
	return out, nil
}
