package imports

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/eventid"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/session"
)

// lineKey is what a line is known by: the id of its event, or else its hash.
type lineKey struct {
	named bool
	id    eventid.Digest    // when named
	hash  [sha256.Size]byte // otherwise
}

func keyOfLine(line []byte, v hit.Visit) lineKey {
	if v.EventID != "" {
		return lineKey{named: true, id: eventid.Of(v.EventID)}
	}
	return lineKey{hash: sha256.Sum256(line)}
}

// claim returns the events of lines that are new, in their order.
func (run *run) claim(ctx context.Context, tx pgx.Tx, keys []lineKey, events []session.Event) ([]session.Event, error) {
	queries := run.queries
	if _, err := queries.LockSiteImport(ctx, tx, run.site.ID, run.number); errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrSuperseded
	} else if err != nil {
		return nil, err
	}
	if db.Sharded(tx) { // whose claims start from a day's row
		if err := run.sessions.Share(ctx, tx, events); err != nil {
			return nil, err
		}
	}
	fresh := make([]bool, len(keys))
	if err := run.claimNamed(ctx, tx, keys, events, fresh); err != nil {
		return nil, err
	}
	if err := run.claimHashes(ctx, tx, keys, events, fresh); err != nil {
		return nil, err
	}
	var out []session.Event
	for i := range events {
		if fresh[i] {
			out = append(out, events[i])
		}
	}
	return out, nil
}

// claimNamed marks the lines whose event's id nobody had, of several equal ones the first.
func (run *run) claimNamed(ctx context.Context, tx pgx.Tx, keys []lineKey, events []session.Event, fresh []bool) error {
	p := dbsqlc.ClaimReportedEventsParams{SiteID: run.site.ID, ImportRun: run.number, ClaimedOn: calendar.DateOf(run.o.Now().UTC())}
	asked := make(map[eventid.Digest]bool)
	for _, k := range keys {
		if k.named && !asked[k.id] {
			asked[k.id] = true
			p.Digests = append(p.Digests, append([]byte(nil), k.id[:]...))
		}
	}
	if len(p.Digests) == 0 {
		return nil
	}
	claimed, err := eventid.Claim(ctx, tx, run.queries, p, events[0].Key.Day)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if k.named && claimed[k.id] {
			fresh[i] = true
			delete(claimed, k.id)
		}
	}
	return nil
}

// claimHashes marks the other lines that are new. Of n lines of a hash that are
// stored, some were met by this run already and lie behind; the others stand for
// its next lines of that hash, which are duplicates and are marked as met.
func (run *run) claimHashes(ctx context.Context, tx pgx.Tx, keys []lineKey, events []session.Event, fresh []bool) error {
	queries := run.queries
	var lines [][]byte
	for i := range keys {
		if !keys[i].named {
			lines = append(lines, keys[i].hash[:])
		}
	}
	if len(lines) == 0 {
		return nil
	}
	rows, err := queries.ListImportedLines(ctx, tx, lines, run.site.ID)
	if err != nil {
		return err
	}
	unmet := make(map[[sha256.Size]byte][]int32)
	next := make(map[[sha256.Size]byte]int32)
	for _, row := range rows {
		hash := [sha256.Size]byte(row.LineSha256)
		next[hash] = row.Ordinal + 1
		if row.Run != run.number {
			unmet[hash] = append(unmet[hash], row.Ordinal)
		}
	}
	met := dbsqlc.TouchImportedLinesParams{SiteID: run.site.ID, Run: run.number}
	added := dbsqlc.InsertImportedLinesParams{SiteID: run.site.ID, Run: run.number}
	for i := range keys {
		if keys[i].named {
			continue
		}
		hash := keys[i].hash
		if known := unmet[hash]; len(known) > 0 {
			met.Lines, met.Ordinals = append(met.Lines, keys[i].hash[:]), append(met.Ordinals, known[0])
			unmet[hash] = known[1:]
			continue
		}
		added.Lines, added.Ordinals = append(added.Lines, keys[i].hash[:]), append(added.Ordinals, next[hash])
		added.Dates = append(added.Dates, calendar.DateOf(events[i].At))
		next[hash]++
		fresh[i] = true
	}
	return run.noteLines(ctx, tx, met, added)
}

// noteLines stores which lines were met again, and which were added.
func (run *run) noteLines(ctx context.Context, tx pgx.Tx, met dbsqlc.TouchImportedLinesParams, added dbsqlc.InsertImportedLinesParams) error {
	touch, insert := run.queries.TouchImportedLines, run.queries.InsertImportedLines
	if db.Sharded(tx) {
		touch = func(ctx context.Context, tx dbsqlc.DBTX, p dbsqlc.TouchImportedLinesParams) error {
			return run.queries.TouchShardImportedLines(ctx, tx, dbsqlc.TouchShardImportedLinesParams(p))
		}
		insert = func(ctx context.Context, tx dbsqlc.DBTX, p dbsqlc.InsertImportedLinesParams) error {
			return run.queries.InsertShardImportedLines(ctx, tx, dbsqlc.InsertShardImportedLinesParams{
				SiteID: p.SiteID, Run: p.Run, Lines: p.Lines, Ordinals: p.Ordinals, Dates: p.Dates,
			})
		}
	}
	if len(met.Lines) > 0 {
		if err := touch(ctx, tx, met); err != nil {
			return err
		}
	}
	if len(added.Lines) > 0 {
		return insert(ctx, tx, added)
	}
	return nil
}
