package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// shard is where one site's rows are, of tables that are sharded by site. Its statements
// name the site as a scalar (queries/statistics_sharded.sql says what for). Those here
// are no queries of sqlc for the same reasons as their models of one PostgreSQL.
type shard struct {
	Store
	site uuid.UUID
	held time.Time // a day of the batch, whose row is there while the transaction shares it
}

// ErrSeveralSites says that a batch is not of one site, as a shard's has to be. The same
// events can be written by themselves.
var ErrSeveralSites = errors.New("stats: a batch for a shard has events of several sites")

func newShard(s Store, batch []Event) (shard, error) {
	first := batch[0].Key
	if slices.ContainsFunc(batch, func(e Event) bool { return e.Key.Site != first.Site }) {
		return shard{}, ErrSeveralSites
	}
	return shard{Store: s, site: first.Site, held: first.Day}, nil
}

// Share keeps the days of events from being sealed until tx ends, as Write does: for who
// writes something else before.
func (s Store) Share(ctx context.Context, tx pgx.Tx, batch []Event) error {
	if len(batch) == 0 {
		return nil
	}
	t, err := s.tablesOf(tx, batch)
	if err != nil {
		return err
	}
	return shareDays(ctx, tx, t, batch, false)
}

func (s shard) lockDays(ctx context.Context, tx pgx.Tx, _ []uuid.UUID, days []time.Time) ([]dbsqlc.ShareSiteDaysRow, error) {
	rows, err := s.queries.ShareShardDays(ctx, tx, s.site, days)
	of := make([]dbsqlc.ShareSiteDaysRow, len(rows))
	for i, r := range rows {
		of[i] = dbsqlc.ShareSiteDaysRow(r)
	}
	return of, err
}

func (s shard) markDirty(ctx context.Context, tx pgx.Tx, _ []uuid.UUID, days []time.Time) error {
	return s.queries.MarkShardDaysDirty(ctx, tx, s.site, days)
}

// touchShardHeads is touchHeads for the site $1, which starts from its day $2. Citus takes
// no parameter behind "on conflict", so that the gap is part of the statement.
func touchShardHeads(gap time.Duration) string {
	return intoHeads + `
select d.site_id, n.day, n.visitor, n.session_id, n.last_at, nullif(n.if_continued, 0), n.first_at
from site_days d
cross join (
    select unnest($3::date[]) as day, unnest($4::bigint[]) as visitor,
           unnest($5::bigint[]) as session_id, unnest($6::timestamptz[]) as last_at,
           unnest($7::bigint[]) as if_continued, unnest($8::timestamptz[]) as first_at
) n
where d.site_id = $1 and d.day = $2
order by n.day, n.visitor
` + onKnownHead + fmt.Sprintf(`interval '%d microseconds'`, gap.Microseconds()) + moveHead
}

func (s shard) touchHeads(ctx context.Context, tx pgx.Tx, k keys, sessions []int64, lasts []time.Time, continued []int64, firsts []time.Time) (pgx.Rows, error) {
	return tx.Query(ctx, touchShardHeads(s.gap), s.site, s.held, k.days, k.visitors, sessions, lasts, continued, firsts)
}

// listOfShard is listOfVisitors for the site $1. It names the keys twice, for the planner
// of a worker, which has no statistics of a fresh site.
var listOfShard = "select " + storedColumns("s") + ` from sessions s
join (select unnest($2::date[]) as day, unnest($3::bigint[]) as visitor) k on k.day = s.day and k.visitor = s.visitor
where s.site_id = $1 and s.day = any ($2::date[]) and s.visitor = any ($3::bigint[])
order by s.day, s.visitor, s.started_at`

func (s shard) listSessions(ctx context.Context, tx pgx.Tx, k keys) ([]Stored, error) {
	return list(ctx, tx, listOfShard, s.site, k.days, k.visitors)
}

// saveShardSessions is saveSessions for the site $1, which starts from its day $2. The
// arrays of the other columns are the parameters behind these.
var saveShardSessions = func() string {
	names, arrays, values := saveColumns(1) // of which the site's is none
	for i := range arrays {
		arrays[i] = "unnest(" + arrays[i] + ") as " + names[i]
	}
	return "insert into sessions (" + strings.Join(names, ", ") + ") select d.site_id, " + strings.Join(values[1:], ", ") +
		" from site_days d cross join (select " + strings.Join(arrays[1:], ", ") + ") n where d.site_id = $1 and d.day = $2" + replaceKnown(names)
}()

func (s shard) store(ctx context.Context, w *writer) (Receipt, error) {
	// Under the locks of the heads, so that those of one visitor count in order of arrival.
	ids, err := s.queries.DrawEventIDs(ctx, w.tx, int32(len(w.batch)))
	if err != nil {
		return Receipt{}, err
	}
	var p db.Pipeline
	if len(w.saves.ids) > 0 {
		if _, err := p.Exec(ctx, saveShardSessions, append([]any{s.site, s.held}, w.saves.arguments()[1:]...)...); err != nil {
			return Receipt{}, err
		}
	}
	if err := s.move(ctx, &p, w); err != nil {
		return Receipt{}, err
	}
	if err := s.queries.InsertShardEvents(ctx, &p, s.columns(w, ids)); err != nil {
		return Receipt{}, err
	}
	return Receipt{Key: w.batch[0].Key, At: w.batch[0].At, ID: ids[0]}, p.Send(ctx, w.tx)
}

// move queues what becomes of sessions and heads that are there already.
func (s shard) move(ctx context.Context, p *db.Pipeline, w *writer) error {
	if x := w.extends; len(x.Ids) > 0 {
		err := s.queries.ExtendShardSessions(ctx, p, dbsqlc.ExtendShardSessionsParams{
			SiteID: s.site, Days: x.Days, Ids: x.Ids, Visitors: x.Visitors, LastAts: x.LastAts, Pageviews: x.Pageviews, Events: x.Events,
			EntryAts: x.EntryAts, EntryPaths: x.EntryPaths, ExitAts: x.ExitAts, ExitPaths: x.ExitPaths,
		})
		if err != nil {
			return err
		}
	}
	if h := w.heads; len(h.Visitors) > 0 {
		err := s.queries.UpdateShardHeads(ctx, p, dbsqlc.UpdateShardHeadsParams{
			SiteID: s.site, Days: h.Days, Visitors: h.Visitors, SessionIds: h.SessionIds, LastAts: h.LastAts,
		})
		if err != nil {
			return err
		}
	}
	gone, ids, err := w.handOver(ctx, p)
	if err != nil || len(ids) == 0 {
		return err
	}
	return s.queries.DeleteShardSessions(ctx, p, s.site, gone.days, ids)
}

// columns are the batch's events with their ids.
func (s shard) columns(w *writer, ids []int64) dbsqlc.InsertShardEventsParams {
	c := w.columns()
	return dbsqlc.InsertShardEventsParams{
		SiteID: s.site, HeldDay: s.held, Ids: ids, OccurredAts: c.OccurredAts, Days: c.Days, Visitors: c.Visitors, SessionIds: c.SessionIds,
		Paths: c.Paths, Hostnames: c.Hostnames, Names: c.Names, Props: c.Props, ImportRuns: c.ImportRuns, Origins: c.Origins,
	}
}
