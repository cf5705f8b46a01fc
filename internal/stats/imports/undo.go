package imports

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/eventid"
	"github.com/waypost/waypost/internal/stats/session"
)

// ErrUndone says that an import was undone before.
var ErrUndone = fault.New(fault.Conflict, "import_undone", "This import was undone before.")

// undoVisitors is how many visitors of a day are put right in one transaction.
const undoVisitors = 500

// Undoing is how far the undoing of an import is.
type Undoing struct {
	Days, DaysDone int
	// Events were taken away.
	Events int64
	// Kept is the number of days whose raw data is gone: what was counted in them stays.
	Kept int
}

// Undo takes away the events of an import, puts right the sessions that they were part
// of, and makes the import's lines unknown, so that the file can be imported again. Days
// are answered from their events until they are sealed anew. Another import of the site
// that is running stops. It may be broken off at any instant and called again. progress
// may be nil.
//
// Errors: ErrNoImport, ErrUndone, ErrSuperseded when another import begins meanwhile.
func (m *Importer) Undo(ctx context.Context, id uuid.UUID, progress func(Undoing)) (Undoing, error) {
	of, err := m.FindImport(ctx, id)
	if err != nil {
		return Undoing{}, err
	}
	u := undo{Importer: m, of: of}
	if err := u.claim(ctx); err != nil {
		return Undoing{}, err
	}
	if u.of.FirstAt != nil {
		if err := u.days(ctx, progress); err != nil {
			return u.done, err
		}
	}
	if err := u.forgetLines(ctx); err != nil {
		return u.done, err
	}
	now := m.o.Now()
	return u.done, u.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return m.queries.EndImport(ctx, tx, dbsqlc.EndImportParams{
			State: importUndone, EndedAt: &now, SiteID: of.SiteID, Run: of.run, FormerState: "undoing",
		})
	})
}

// undo is one import that is being undone.
type undo struct {
	*Importer
	of   Imported
	run  int64 // of the undoing itself, among the site's imports
	done Undoing
}

func (u *undo) inTx(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
	return u.o.DB.InIndexTx(ctx, identity.FromContext(ctx), fn)
}

// claim takes the site over from an import that may be running, this one above all.
func (u *undo) claim(ctx context.Context) error {
	queries := u.queries
	return u.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if u.run, err = queries.BeginSiteImport(ctx, tx, u.of.SiteID); err != nil {
			return err
		}
		if err := queries.InterruptImports(ctx, tx, u.of.SiteID); err != nil {
			return err
		}
		row, err := queries.ClaimImportUndo(ctx, tx, u.of.SiteID, u.of.run)
		if err != nil {
			return db.NotFound(err, ErrUndone)
		}
		u.of = importedOf(row)
		return nil
	})
}

func (u *undo) days(ctx context.Context, progress func(Undoing)) error {
	days, err := u.queries.ListDaysBetween(ctx, u.o.DB.Direct(), u.of.SiteID, *u.of.FirstAt, *u.of.LastAt)
	if err != nil {
		return db.Translate(err)
	}
	u.done.Days = len(days)
	for _, d := range days {
		if d.Trimmed {
			u.done.Kept++
		} else if err := u.day(ctx, calendar.Day{Date: d.Day.UTC(), Start: d.StartsAt.UTC(), End: d.EndsAt.UTC()}); err != nil {
			return err
		}
		if u.done.DaysDone++; progress != nil {
			progress(u.done)
		}
	}
	return nil
}

// day takes the import's events out of a day, visitors by visitors.
func (u *undo) day(ctx context.Context, d calendar.Day) error {
	for {
		var visitors []int64
		var gone int64
		err := u.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			queries := u.queries
			if _, err := queries.LockSiteImport(ctx, tx, u.of.SiteID, u.run); errors.Is(err, pgx.ErrNoRows) {
				return ErrSuperseded
			} else if err != nil {
				return err
			}
			there, err := u.shareDay(ctx, tx, d.Date)
			if err != nil || !there {
				return err
			}
			visitors, err = queries.ListImportedVisitors(ctx, tx, dbsqlc.ListImportedVisitorsParams{
				SiteID: u.of.SiteID, StartsAt: d.Start, EndsAt: d.End, ImportRun: &u.of.run, MaxRows: undoVisitors,
			})
			if err != nil || len(visitors) == 0 {
				return err
			}
			if err := queries.MarkSiteDayDirty(ctx, tx, u.of.SiteID, d.Date); err != nil {
				return err
			}
			gone, err = u.visitors(ctx, tx, d, visitors)
			return err
		})
		if err != nil || len(visitors) == 0 {
			return err
		}
		u.done.Events += gone
	}
}

// shareDay keeps a day from being sealed until tx ends, and returns whether its raw data
// are there.
func (u *undo) shareDay(ctx context.Context, tx pgx.Tx, day time.Time) (bool, error) {
	if db.Sharded(tx) {
		rows, err := u.queries.ShareShardDays(ctx, tx, u.of.SiteID, []time.Time{day})
		return len(rows) > 0 && !rows[0].Trimmed, err
	}
	rows, err := u.queries.ShareSiteDays(ctx, tx, []uuid.UUID{u.of.SiteID}, []time.Time{day})
	return len(rows) > 0 && !rows[0].Trimmed, err
}

// visitors deletes all events and sessions of some visitors of a day, and writes those
// again that are not the import's: an event has no identity but its place among those of
// its visitor. It returns how many events were the import's.
func (u *undo) visitors(ctx context.Context, tx pgx.Tx, d calendar.Day, visitors []int64) (int64, error) {
	queries, siteID := u.queries, u.of.SiteID
	if err := queries.LockVisitors(ctx, tx, siteID, d.Date, visitors); err != nil {
		return 0, err
	}
	p := dbsqlc.ListVisitorEventsParams{SiteID: siteID, StartsAt: d.Start, EndsAt: d.End, Day: d.Date, Visitors: visitors}
	rows, err := queries.ListVisitorEvents(ctx, tx, p)
	if err != nil {
		return 0, err
	}
	sessions, err := session.ListOfDay(ctx, tx, siteID, d.Date, visitors)
	if err != nil {
		return 0, err
	}
	rest, err := u.without(rows, sessions, d.Date)
	if err != nil {
		return 0, err
	}
	if err := queries.DeleteVisitorEvents(ctx, tx, dbsqlc.DeleteVisitorEventsParams(p)); err != nil {
		return 0, err
	}
	for _, remove := range []func(context.Context, dbsqlc.DBTX, uuid.UUID, time.Time, []int64) error{queries.DeleteVisitorSessions, queries.DeleteVisitorHeads} {
		if err := remove(ctx, tx, siteID, d.Date, visitors); err != nil {
			return 0, err
		}
	}
	_, err = u.sessions.Write(ctx, tx, rest)
	return int64(len(rows) - len(rest)), err
}

// without returns the events that are not the import's. What a session would have of one
// comes from the event itself, where that began one when it came, and else from the
// session that it was part of.
func (u *undo) without(rows []dbsqlc.ListVisitorEventsRow, sessions []session.Stored, day time.Time) ([]session.Event, error) {
	origins := make(map[int64]session.Origin, len(sessions))
	for _, s := range sessions {
		origins[s.ID] = s.Origin
	}
	var rest []session.Event
	for _, row := range rows {
		if row.ImportRun == u.of.run {
			continue
		}
		e := session.Event{
			Key: session.Visitor{Site: u.of.SiteID, Day: day, Number: row.Visitor}, At: row.OccurredAt.UTC(), Path: row.Path, Hostname: textOf(row.Hostname), Name: textOf(row.Name),
			Props: row.Props, Origin: origins[row.SessionID], ImportRun: row.ImportRun, PackedOrigin: row.Origin,
		}
		if e.PackedOrigin != nil {
			var err error
			if e.Origin, err = session.UnpackOrigin(e.PackedOrigin); err != nil {
				return nil, err
			}
		}
		rest = append(rest, e)
	}
	return rest, nil
}

// forgetLines makes the import's lines and ids unknown, in slices of their hashes.
func (u *undo) forgetLines(ctx context.Context) error {
	queries := u.queries
	return eventid.EachSlice(func(first, end []byte) error {
		return u.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			err := queries.DeleteImportLines(ctx, tx, dbsqlc.DeleteImportLinesParams{SiteID: u.of.SiteID, FirstHash: first, EndHash: end, ImportRun: u.of.run})
			if err != nil {
				return err
			}
			return queries.DeleteImportEventIDs(ctx, tx, dbsqlc.DeleteImportEventIDsParams{SiteID: u.of.SiteID, FirstDigest: first, EndDigest: end, ImportRun: u.of.run})
		})
	})
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
