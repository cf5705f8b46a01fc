package stats

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/eventid"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/session"
	"github.com/waypost/waypost/internal/text"
)

const (
	// MaxReported is how many events CollectBatch takes.
	MaxReported = 1000
	// reportedLate is how old a reported event may be: its day still has its salt.
	reportedLate = 24 * time.Hour
	// batchesQueued is how many batches may wait to be stored, batchesTogether how
	// many share a transaction.
	batchesQueued, batchesTogether = 64, 8
)

// Reported is an event that a server tells of.
type Reported struct {
	// EventID is the server's own; one that is known is a duplicate.
	EventID string
	Hit     hit.Hit
	// Problem, when not empty, is why the event could not even be read.
	Problem string
}

// Refusal is an event of a batch that is not counted.
type Refusal struct {
	Index   int // in the batch
	Code    drop.Reason
	Message string
}

// BatchResult is what became of the events of a batch: the three add up.
type BatchResult struct {
	Accepted, Duplicate int
	Rejected            []Refusal
}

// CollectBatch counts events that a server reports, each once: an event whose id
// the site has reported before, whatever its time, is a duplicate. An event that
// breaks a rule fails none of its neighbours. It returns after COMMIT of all of
// them, or with an error of kind Invalid (more than MaxReported events) or
// Unavailable, and then the same batch can be sent again.
func (i *Ingester) CollectBatch(ctx context.Context, s site.Site, events []Reported) (BatchResult, error) {
	if len(events) > MaxReported {
		return BatchResult{}, fault.Validation(map[string]string{"events": "At most 1,000 events."})
	}
	b := reportedBatch{site: s.ID, drops: make(map[drop.Key]int64)}
	result := BatchResult{Rejected: []Refusal{}}
	var visits []hit.Visit
	known := make(map[eventid.Digest]bool, len(events))
	for n, e := range events {
		v, refusal := i.readReported(s, e)
		if refusal != nil {
			refusal.Index = n
			result.Rejected = append(result.Rejected, *refusal)
			b.drops[i.dropKey(s, refusal.Code)]++
			continue
		}
		digest := eventid.Of(e.EventID)
		if known[digest] {
			result.Duplicate++
			continue
		}
		known[digest] = true
		visits, b.digests = append(visits, v), append(b.digests, digest)
	}
	var err error
	if b.events, err = i.days.Place(ctx, s, visits); err != nil {
		return BatchResult{}, orGone(err, site.ErrAPIKey)
	}
	fresh, err := i.batches.Submit(ctx, b)
	if err != nil {
		return BatchResult{}, orGone(err, site.ErrAPIKey)
	}
	result.Accepted = fresh
	result.Duplicate += len(b.events) - fresh
	return result, nil
}

// readReported returns the event's visit, or why it is refused.
func (i *Ingester) readReported(s site.Site, e Reported) (hit.Visit, *Refusal) {
	now := i.o.Now()
	switch {
	case e.Problem != "":
		return hit.Visit{}, &Refusal{Code: drop.Invalid, Message: e.Problem}
	case !text.Within(e.EventID, 1, eventid.MaxLength):
		return hit.Visit{}, &Refusal{Code: drop.Invalid, Message: "event_id: From 1 to 200 characters, without U+0000."}
	case e.Hit.At.Before(now.Add(-reportedLate)):
		return hit.Visit{}, &Refusal{Code: drop.TooOld, Message: "ts: More than 24 hours ago."}
	case e.Hit.At.After(now.Add(hit.AheadOfClock)):
		return hit.Visit{}, &Refusal{Code: drop.InFuture, Message: "ts: More than 5 minutes ahead of this service's clock."}
	}
	// Servers report what had no browser, too; only a live hit must name one.
	var agent client.Client
	if e.Hit.UserAgent != "" {
		agent = i.clients.Parse(e.Hit.UserAgent)
	}
	v, dropped, err := hit.Read(s, i.located(e.Hit), agent)
	switch {
	case err != nil:
		return hit.Visit{}, &Refusal{Code: drop.Invalid, Message: sentenceOf(err)}
	case dropped == drop.Foreign:
		return hit.Visit{}, &Refusal{Code: dropped, Message: "url: Its host is neither the site's domain nor a subdomain of it."}
	case dropped != drop.None:
		return hit.Visit{}, &Refusal{Code: dropped, Message: "user_agent: An automated client."}
	}
	return v, nil
}

// sentenceOf puts the details of a validation fault into one line.
func sentenceOf(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return "The event can't be stored."
	}
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(f.Details)) {
		parts = append(parts, field+": "+f.Details[field])
	}
	return strings.Join(parts, " ")
}

// reportedBatch is what is stored of one call; digests[n] is that of events[n].
type reportedBatch struct {
	site    uuid.UUID
	digests []eventid.Digest
	events  []session.Event
	drops   map[drop.Key]int64
}

func reportedSize(b reportedBatch) int {
	size := 0
	for _, e := range b.events {
		size += eventSize(e)
	}
	return size
}

// flushBatches is one shared transaction; it returns how many events of each
// batch were new. Sites, digests, visitors and drops are locked in this order
// and each in key order, so that no two transactions wait for each other. Where tables are
// sharded, the batches are of one site, whose days come first.
func (i *Ingester) flushBatches(ctx context.Context, batches []reportedBatch) ([]int, error) {
	fresh := make([]int, len(batches))
	bySite := make(map[uuid.UUID][]int)
	drops := make(map[drop.Key]int64)
	for n, b := range batches {
		bySite[b.site] = append(bySite[b.site], n)
		for k, count := range b.drops {
			drops[k] += count
		}
	}
	sites := slices.SortedFunc(maps.Keys(bySite), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	err := i.store(ctx, func(ctx context.Context, tx pgx.Tx) (session.Receipt, error) {
		var events []session.Event
		for _, id := range sites {
			claimed, err := i.claim(ctx, tx, id, batches, bySite[id])
			if err != nil {
				return session.Receipt{}, err
			}
			for _, n := range bySite[id] {
				fresh[n] = 0
				for k, digest := range batches[n].digests {
					if claimed[digest] {
						delete(claimed, digest) // a later batch's is a duplicate
						events = append(events, batches[n].events[k])
						fresh[n]++
					}
				}
			}
		}
		receipt, err := i.sessions.Write(ctx, tx, events)
		if err != nil {
			return receipt, err
		}
		return receipt, drop.Add(ctx, tx, i.queries, drops)
	})
	return fresh, err
}

// digestsOf returns those of some of the batches, each once.
func digestsOf(batches []reportedBatch, of []int) [][]byte {
	known := make(map[eventid.Digest]bool)
	var digests [][]byte
	for _, n := range of {
		for _, d := range batches[n].digests {
			if !known[d] {
				known[d] = true
				digests = append(digests, bytes.Clone(d[:]))
			}
		}
	}
	return digests
}

// claim notes the ids of a site's batches and returns those that were new.
func (i *Ingester) claim(ctx context.Context, tx pgx.Tx, siteID uuid.UUID, batches []reportedBatch, of []int) (map[eventid.Digest]bool, error) {
	digests := digestsOf(batches, of)
	if len(digests) == 0 {
		return nil, nil
	}
	var held time.Time
	if db.Sharded(tx) { // claims start from a day's row
		var events []session.Event
		for _, n := range of {
			events = append(events, batches[n].events...)
		}
		if err := i.sessions.Share(ctx, tx, events); err != nil {
			return nil, err
		}
		held = events[0].Key.Day
	}
	return eventid.Claim(ctx, tx, i.queries, dbsqlc.ClaimReportedEventsParams{SiteID: siteID, Digests: digests, ClaimedOn: calendar.DateOf(i.o.Now().UTC())}, held)
}
