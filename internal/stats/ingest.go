package stats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/session"
	"github.com/waypost/waypost/internal/stats/visitor"
)

// Sites are what an Ingester asks about sites.
type Sites interface {
	drop.PublicKeys
}

// IngesterOptions configure NewIngester.
type IngesterOptions struct {
	DB    *db.DB // mandatory
	Sites Sites  // mandatory
	// Keys seals salts and import secrets; mandatory. seal.New makes it for SealPurpose.
	Keys *seal.Keyring
	// Logger is told of salts that no key opens; nil for nobody.
	Logger *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Random gives the salts; default crypto/rand.
	Random io.Reader
	// SessionGap is the longest time between two events of one session; default
	// 30 minutes, as documented. Other values only serve to show that tests notice them.
	SessionGap time.Duration
	// Country returns the ISO 3166-1 alpha-2 code of an address's country, "" where it
	// is unknown. With nil, all countries are unknown.
	Country func(netip.Addr) string
	// MaxQueued is how many hits may wait to be stored; default 4096.
	MaxQueued int
	// RefusedEvery is how often the counts of refused hits are stored; default 10 s.
	RefusedEvery time.Duration
	// Metrics takes what is counted about hits; nil for nobody.
	Metrics prometheus.Registerer
}

func (o IngesterOptions) validate() error {
	if o.DB == nil || o.Sites == nil || o.Keys == nil {
		return errors.New("stats: IngesterOptions need DB, Sites and Keys")
	}
	return nil
}

func (o IngesterOptions) withDefaults() IngesterOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	o.SessionGap = cmp.Or(o.SessionGap, session.DefaultGap)
	if o.Country == nil {
		o.Country = func(netip.Addr) string { return "" }
	}
	o.MaxQueued = cmp.Or(o.MaxQueued, 4096)
	o.RefusedEvery = cmp.Or(o.RefusedEvery, 10*time.Second)
	return o
}

const (
	// collectBatch is the most hits that share one transaction of Collect.
	collectBatch = 512
	// collectGap is the least time between two transactions of few hits.
	collectGap = 8 * time.Millisecond
	// maxQueueWait refuses hits while an earlier one has waited for longer to be stored.
	maxQueueWait = time.Second
	// closeTimeout is how long Close waits for hits already accepted.
	closeTimeout = 10 * time.Second
)

// Ingester counts hits. What it was told is durable when it returns.
type Ingester struct {
	o        IngesterOptions
	queries  *dbsqlc.Queries
	clients  *client.Parser
	days     *visitor.Book
	sessions session.Store
	collect  *groupcommit.Group[session.Event, struct{}]
	batches  *groupcommit.Group[reportedBatch, int]
	drops    *groupcommit.Group[drop.Key, struct{}]
	refused  *drop.Refusals
	metrics  *collected
}

// NewIngester makes an Ingester and starts its flushers. Close stops them.
func NewIngester(o IngesterOptions) (*Ingester, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	clients, err := client.NewParser()
	if err != nil {
		return nil, err
	}
	queries := dbsqlc.New()
	i := &Ingester{
		o: o, queries: queries, clients: clients, sessions: session.NewStore(queries, o.SessionGap),
		days: visitor.NewBook(visitor.Options{DB: o.DB, Keys: o.Keys, Logger: o.Logger, Now: o.Now, Random: o.Random}),
	}
	i.collect = groupcommit.New(groupcommit.Options[session.Event]{MaxBatch: collectBatch, MaxQueued: i.o.MaxQueued, MaxWait: maxQueueWait, Gap: collectGap, Size: eventSize, Key: func(e session.Event) any { return i.shardOf(e.Key.Site) }}, i.flush)
	// One more flusher than there is by default: a batch is large, and another can be
	// sent while one waits for the visitors that it shares with a third.
	i.batches = groupcommit.New(groupcommit.Options[reportedBatch]{
		Flushers: 3, MaxBatch: batchesTogether, MaxQueued: batchesQueued, MaxWait: maxQueueWait, Size: reportedSize, Key: func(b reportedBatch) any { return i.shardOf(b.site) },
	}, i.flushBatches)
	if i.metrics, err = newCollected(i.o.Metrics, i.collect.Waiting); err != nil {
		return nil, err
	}
	i.drops = drop.NewGroup(i.o.DB, i.queries)
	i.refused = drop.NewRefusals(i.o.DB, i.queries, i.o.Sites, i.o.RefusedEvery)
	return i, nil
}

// Collect counts a hit that happened now, and returns after COMMIT. Hits that
// must not be counted (bots, hosts that are not the site's, DoNotTrack) return
// nil as well, after the COMMIT of their count by reason. A hit that breaks a
// rule is a fault of kind Invalid; a full queue or an absent database one of kind
// Unavailable.
func (i *Ingester) Collect(ctx context.Context, s site.Site, h hit.Hit) error {
	dropped, err := i.collectHit(ctx, s, h)
	i.metrics.count(dropped, err)
	return err
}

func (i *Ingester) collectHit(ctx context.Context, s site.Site, h hit.Hit) (drop.Reason, error) {
	h.At = i.o.Now()
	v, dropped, err := hit.Read(s, i.located(h), i.clients.Parse(h.UserAgent))
	if fault.KindOf(err) == fault.Invalid {
		dropped = drop.Invalid
	}
	if dropped != drop.None {
		if _, notCounted := i.drops.Submit(ctx, i.dropKey(s, dropped)); notCounted != nil {
			return dropped, notCounted
		}
	}
	if err != nil || dropped != drop.None {
		return dropped, err
	}
	events, err := i.days.Place(ctx, s, []hit.Visit{v})
	if err != nil {
		return drop.None, orGone(err, site.ErrSiteKey)
	}
	_, err = i.collect.Submit(ctx, events[0])
	return drop.None, orGone(err, site.ErrSiteKey)
}

// orGone is err, or gone when the site was deleted while the caller remembered it.
func orGone(err, gone error) error {
	if errors.Is(err, site.ErrNoSite) {
		return gone
	}
	return err
}

// located adds the country of the hit's address.
func (i *Ingester) located(h hit.Hit) hit.Hit {
	if h.Country == "" && h.Address.IsValid() {
		h.Country = i.o.Country(h.Address)
	}
	return h
}

// DestroySalts erases the salts of days that ended more than 48 hours ago, in
// the database and in memory, and returns how many days had one there. From then
// on nobody can tell who that day's visitors were.
func (i *Ingester) DestroySalts(ctx context.Context) (int, error) {
	return i.days.DestroySalts(ctx)
}

// SealSecrets seals the salts and import secrets that a program of before left plain, or
// that are sealed under the previous secret key, and returns how many. What no key opens
// it leaves alone.
func (i *Ingester) SealSecrets(ctx context.Context) (int, error) {
	return i.days.SealSecrets(ctx)
}

// DestroyImportSecrets destroys the import secrets that nobody used for as many days, and
// returns how many. 0 days keeps them.
func (i *Ingester) DestroyImportSecrets(ctx context.Context, days int) (int, error) {
	return i.days.DestroyImportSecrets(ctx, days)
}

// Close stores the hits already accepted and refuses new ones.
func (i *Ingester) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(i.collect.Close(ctx), i.batches.Close(ctx), i.drops.Close(ctx), i.refused.Close(ctx))
}

func (i *Ingester) dropKey(s site.Site, reason drop.Reason) drop.Key {
	return drop.Key{Site: s.ID, Day: calendar.DateOf(i.o.Now().In(s.Zone)), Reason: reason}
}

// CountRefused counts a hit that was refused before its site was asked, because there were
// too many or because it could not be read, in the memory of this process until the next
// flush. Keys of no site count nowhere.
func (i *Ingester) CountRefused(siteKey string, reason drop.Reason) {
	i.refused.Count(siteKey, i.o.Now(), reason)
}

// flush is one shared transaction of hits: of any sites, or of one where tables are sharded.
func (i *Ingester) flush(ctx context.Context, batch []session.Event) ([]struct{}, error) {
	err := i.store(ctx, func(ctx context.Context, tx pgx.Tx) (session.Receipt, error) {
		return i.sessions.Write(ctx, tx, batch)
	})
	return make([]struct{}, len(batch)), err
}

// shardOf is what tells the batches of a site apart where tables are sharded by site; nil
// on one PostgreSQL, where a transaction takes all sites alike.
func (i *Ingester) shardOf(siteID uuid.UUID) any {
	if i.o.DB.Sharded() {
		return siteID
	}
	return nil
}

// store runs fn in a transaction. Where COMMIT doesn't tell what became of it, the event
// of fn's receipt does.
func (i *Ingester) store(ctx context.Context, fn func(context.Context, pgx.Tx) (session.Receipt, error)) error {
	var receipt session.Receipt
	err := i.o.DB.InIndexTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		receipt, err = fn(ctx, tx)
		return err
	})
	if db.IsUnknownOutcome(err) {
		return i.sessions.Settle(ctx, i.o.DB, receipt, err)
	}
	return err
}

func eventSize(e session.Event) int {
	const fixed = 512
	return fixed + len(e.Path) + len(e.Hostname) + len(e.Name) + len(e.Props) + len(e.Origin.Source)
}
