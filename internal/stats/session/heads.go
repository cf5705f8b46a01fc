package session

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// touchHeads locks visitor days, makes those that nobody had seen (edition 0), and
// moves the others on to the batch's last session, unless the batch begins before
// what they have: then session_id and last_at are for the caller to put right. It
// works in key order, so that no two batches wait for each other in a circle.
//
// A row comes with the batch's first instant as former_at, and as former_session
// with its last session where that is another than the first, which may go on with
// the visitor's own. sqlc knows no parameter beside "excluded".
const touchHeads = intoHeads + `
select n.site_id, n.day, n.visitor, n.session_id, n.last_at, nullif(n.if_continued, 0), n.first_at
from (
    select unnest($1::uuid[]) as site_id, unnest($2::date[]) as day, unnest($3::bigint[]) as visitor,
           unnest($4::bigint[]) as session_id, unnest($5::timestamptz[]) as last_at,
           unnest($6::bigint[]) as if_continued, unnest($7::timestamptz[]) as first_at
) n
order by n.site_id, n.day, n.visitor
` + onKnownHead + `$8::interval` + moveHead

// The parts of touchHeads that are the same in every layout; between the last two is the
// longest time between two events of one session.
const (
	intoHeads   = `insert into session_heads as h (site_id, day, visitor, session_id, last_at, former_session, former_at)`
	onKnownHead = `on conflict (site_id, day, visitor) do update set
    session_id = case
        when excluded.former_at < h.last_at then h.session_id
        when excluded.former_at - h.last_at <= `
	moveHead = ` then coalesce(excluded.former_session, h.session_id)
        else excluded.session_id
    end,
    last_at = greatest(h.last_at, excluded.last_at),
    former_session = h.session_id, former_at = h.last_at,
    edition = h.edition + 1, stale = true
returning h.site_id, h.day, h.visitor, h.edition, coalesce(h.former_session, 0), h.former_at`
)

// touchedHead is a visitor's newest session as the batch met it.
type touchedHead struct {
	key           Visitor
	isNew         bool // the rest means nothing then
	formerSession int64
	formerAt      time.Time
}

// touch locks the visitors' heads, and gives each visitor as many of ids as it
// would need if all of its sessions were new.
func (w *writer) touch(ctx context.Context, ids []int64) ([]touchedHead, map[Visitor][]int64, error) {
	n := len(w.folded)
	var (
		k            = keys{sites: make([]uuid.UUID, 0, n), days: make([]time.Time, 0, n), visitors: make([]int64, 0, n)}
		sessions     = make([]int64, 0, n)
		continued    = make([]int64, 0, n)
		firsts       = make([]time.Time, 0, n)
		lasts        = make([]time.Time, 0, n)
		numbered     = make(map[Visitor][]int64, n)
		heads        = make([]touchedHead, 0, n)
		head         touchedHead
		edition      int32
		site         uuid.UUID
		day          time.Time
		visitor      int64
		destinations = []any{&site, &day, &visitor, &edition, &head.formerSession, &head.formerAt}
	)
	for key, segments := range w.folded {
		of := len(segments)
		numbered[key], ids = ids[:of:of], ids[of:]
		newest, ifContinued := numbered[key][of-1], int64(0)
		if of > 1 {
			ifContinued = newest
		}
		k.add(key)
		sessions, continued = append(sessions, newest), append(continued, ifContinued)
		firsts, lasts = append(firsts, segments[0].Started), append(lasts, segments[of-1].Last)
	}
	rows, err := w.touchHeads(ctx, w.tx, k, sessions, lasts, continued, firsts)
	if err != nil {
		return nil, nil, err
	}
	_, err = pgx.ForEachRow(rows, destinations, func() error {
		head.key, head.isNew = Visitor{Site: site, Day: day.UTC(), Number: visitor}, edition == 0
		heads = append(heads, head)
		return nil
	})
	return heads, numbered, err
}
