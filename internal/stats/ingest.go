package stats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
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
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/client"
)

// Sites are what an Ingester asks about sites.
type Sites interface {
	ImportSecrets
	PublicKeys
}

// IngesterOptions configure NewIngester.
type IngesterOptions struct {
	DB    *db.DB // mandatory
	Sites Sites  // mandatory
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
	if o.DB == nil || o.Sites == nil {
		return errors.New("stats: IngesterOptions need DB and Sites")
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
	o.SessionGap = cmp.Or(o.SessionGap, defaultSessionGap)
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
	o       IngesterOptions
	write   recorder
	collect *groupcommit.Group[event, struct{}]
	batches *groupcommit.Group[reportedBatch, int]
	drops   *groupcommit.Group[dropKey, struct{}]
	refused *refusals
	metrics *collected
}

// NewIngester makes an Ingester and starts its flushers. Close stops them.
func NewIngester(o IngesterOptions) (*Ingester, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	i := &Ingester{o: o.withDefaults()}
	var err error
	if i.write, err = newRecorder(i.o.DB, i.o.Sites, i.o.Now, i.o.Random, i.o.SessionGap); err != nil {
		return nil, err
	}
	i.collect = groupcommit.New(groupcommit.Options[event]{MaxBatch: collectBatch, MaxQueued: i.o.MaxQueued, MaxWait: maxQueueWait, Gap: collectGap, Size: eventSize}, i.flush)
	// One more flusher than there is by default: a batch is large, and another can be
	// sent while one waits for the visitors that it shares with a third.
	i.batches = groupcommit.New(groupcommit.Options[reportedBatch]{
		Flushers: 3, MaxBatch: batchesTogether, MaxQueued: batchesQueued, MaxWait: maxQueueWait, Size: reportedSize,
	}, i.flushBatches)
	if i.metrics, err = newCollected(i.o.Metrics, i.collect.Waiting); err != nil {
		return nil, err
	}
	i.drops = newDropGroup(i.o.DB, i.write.sessions.queries)
	i.refused = newRefusals(i.o.DB, i.write.sessions.queries, i.o.Sites, i.o.RefusedEvery)
	return i, nil
}

// Collect counts a hit that happened now, and returns after COMMIT. Hits that
// must not be counted (bots, hosts that are not the site's, DoNotTrack) return
// nil as well, after the COMMIT of their count by reason. A hit that breaks a
// rule is a fault of kind Invalid; a full queue or an absent database one of kind
// Unavailable.
func (i *Ingester) Collect(ctx context.Context, s site.Site, h Hit) error {
	dropped, err := i.collectHit(ctx, s, h)
	i.metrics.count(dropped, err)
	return err
}

func (i *Ingester) collectHit(ctx context.Context, s site.Site, h Hit) (Drop, error) {
	h.At = i.o.Now()
	v, dropped, err := visitOf(s, i.located(h), i.write.clients.Parse(h.UserAgent))
	if fault.KindOf(err) == fault.Invalid {
		dropped = DropInvalid
	}
	if dropped != counted {
		if _, notCounted := i.drops.Submit(ctx, i.dropKey(s, dropped)); notCounted != nil {
			return dropped, notCounted
		}
	}
	if err != nil || dropped != counted {
		return dropped, err
	}
	events, err := i.write.place(ctx, s, []visit{v})
	if err != nil {
		return counted, orGone(err, site.ErrSiteKey)
	}
	_, err = i.collect.Submit(ctx, events[0])
	return counted, orGone(err, site.ErrSiteKey)
}

// orGone is err, or gone when the site was deleted while the caller remembered it.
func orGone(err, gone error) error {
	if errors.Is(err, site.ErrNoSite) {
		return gone
	}
	return err
}

// located adds the country of the hit's address.
func (i *Ingester) located(h Hit) Hit {
	if h.Country == "" && h.Address.IsValid() {
		h.Country = i.o.Country(h.Address)
	}
	return h
}

// DestroySalts erases the salts of days that ended more than 48 hours ago, in
// the database and in memory, and returns how many days had one there. From then
// on nobody can tell who that day's visitors were.
func (i *Ingester) DestroySalts(ctx context.Context) (int, error) {
	return i.write.days.destroySalts(ctx)
}

// Close stores the hits already accepted and refuses new ones.
func (i *Ingester) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(i.collect.Close(ctx), i.batches.Close(ctx), i.drops.Close(ctx), i.refused.close(ctx))
}

// flush is one shared transaction of hits of any sites.
func (i *Ingester) flush(ctx context.Context, batch []event) ([]struct{}, error) {
	err := i.o.DB.InIndexTx(ctx, identity.System("collect"), func(ctx context.Context, tx pgx.Tx) error {
		return i.write.sessions.write(ctx, tx, batch)
	})
	return make([]struct{}, len(batch)), err
}

func eventSize(e event) int {
	const fixed = 512
	return fixed + len(e.path) + len(e.name) + len(e.props) + len(e.origin.source)
}

// recorder turns visits into stored events.
type recorder struct {
	db       *db.DB
	clients  *client.Parser
	days     *dayBook
	sessions sessionStore
}

func newRecorder(d *db.DB, secrets ImportSecrets, now func() time.Time, random io.Reader, gap time.Duration) (recorder, error) {
	clients, err := client.NewParser()
	if err != nil {
		return recorder{}, err
	}
	queries := dbsqlc.New()
	days := &dayBook{
		db: d, queries: queries, secrets: secrets, now: now, random: random,
		recent: make(map[uuid.UUID][]saltedDay), months: make(map[time.Time]bool),
	}
	return recorder{db: d, clients: clients, days: days, sessions: sessionStore{queries: queries, ids: new(sessionIDs), gap: gap}}, nil
}

// place gives visits their site days and visitors. Addresses and user agents end here.
func (r recorder) place(ctx context.Context, s site.Site, visits []visit) ([]event, error) {
	if len(visits) == 0 {
		return nil, nil
	}
	instants := make([]time.Time, len(visits))
	for i, v := range visits {
		instants[i] = v.at
	}
	days, err := r.days.find(ctx, s, instants)
	if err != nil {
		return nil, err
	}
	events := make([]event, len(visits))
	for i, v := range visits {
		events[i] = event{
			key: visitorDay{site: s.ID, day: days[i].day, visitor: visitorNumber(days[i].salt, v.from, v.userAgent)},
			at:  v.at, path: v.path, name: v.name, props: v.props, origin: v.origin,
		}
	}
	return events, nil
}
