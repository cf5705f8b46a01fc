// Package eventid keeps the ids that servers and files give their events, so that each of
// them counts once.
package eventid

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// MaxLength is the length of the longest id, in characters.
const MaxLength = 200

// Digest stands for an event's id: 128 bits of its SHA-256, so that a
// thousand million ids share none with probability 1 - 2e-21.
type Digest [16]byte

// Of is the digest of an id.
func Of(id string) Digest {
	sum := sha256.Sum256([]byte(id))
	return Digest(sum[:])
}

// Claim returns those of p.Digests that were new. Where tables are sharded, tx shares the
// site's day held.
func Claim(ctx context.Context, tx pgx.Tx, queries *dbsqlc.Queries, p dbsqlc.ClaimReportedEventsParams, held time.Time) (map[Digest]bool, error) {
	var rows [][]byte
	var err error
	if db.Sharded(tx) {
		rows, err = queries.ClaimShardReportedEvents(ctx, tx, dbsqlc.ClaimShardReportedEventsParams{
			SiteID: p.SiteID, HeldDay: held, ImportRun: p.ImportRun, ClaimedOn: p.ClaimedOn, Digests: p.Digests,
		})
	} else {
		rows, err = queries.ClaimReportedEvents(ctx, tx, p)
	}
	claimed := make(map[Digest]bool, len(rows))
	for _, r := range rows {
		claimed[Digest(r)] = true
	}
	return claimed, err
}

// EachSlice divides all hashes into 256 parts of about the same size: from first on, and
// before end.
func EachSlice(f func(first, end []byte) error) error {
	for b := range 256 {
		end := []byte{byte(b + 1)}
		if b == 255 {
			end = bytes.Repeat([]byte{0xff}, 64) // behind all of them
		}
		if err := f([]byte{byte(b)}, end); err != nil {
			return err
		}
	}
	return nil
}
