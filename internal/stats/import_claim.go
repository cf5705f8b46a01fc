package stats

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db/dbsqlc"
)

// claim returns the events of lines that are new. Of n lines of a hash that are
// stored, some were met by this run already and lie behind; the others stand for
// its next lines of that hash, which are duplicates and are marked as met.
func (run *importRun) claim(ctx context.Context, tx pgx.Tx, hashes [][sha256.Size]byte, events []event) ([]event, error) {
	queries := run.write.sessions.queries
	if _, err := queries.LockSiteImport(ctx, tx, run.site.ID, run.number); errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrSuperseded
	} else if err != nil {
		return nil, err
	}
	lines := make([][]byte, len(hashes))
	for i := range hashes {
		lines[i] = hashes[i][:]
	}
	rows, err := queries.ListImportedLines(ctx, tx, lines, run.site.ID)
	if err != nil {
		return nil, err
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
	var fresh []event
	for i, hash := range hashes {
		if known := unmet[hash]; len(known) > 0 {
			met.Lines, met.Ordinals = append(met.Lines, lines[i]), append(met.Ordinals, known[0])
			unmet[hash] = known[1:]
			continue
		}
		added.Lines, added.Ordinals = append(added.Lines, lines[i]), append(added.Ordinals, next[hash])
		next[hash]++
		fresh = append(fresh, events[i])
	}
	if len(met.Lines) > 0 {
		if err := queries.TouchImportedLines(ctx, tx, met); err != nil {
			return nil, err
		}
	}
	if len(added.Lines) > 0 {
		if err := queries.InsertImportedLines(ctx, tx, added); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}
