package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// parcel is an event on its way to a target, claimed until its lease ends.
type parcel struct {
	event    Event // with a nil Body when that is large and must be fetched
	size     int64 // of the body, in bytes
	target   targetKey
	lease    uuid.UUID
	until    time.Time // when the lease ends, on this process's clock or earlier
	wasDue   time.Time // until it was claimed, on the database's clock
	attempts int       // at this target, this one included
	tries    int       // those since the arrival or the latest replay
	// interrupted counts those in a row that ended without an outcome.
	interrupted int
	forced      int // how often the event was replayed with force
	probe       bool
	failures    int         // of the target in a row, when this was claimed
	alone       bool        // the event has no other target
	sealed      []byte      // the provider's own headers, encrypted; nil when they are gone
	original    http.Header // those
	trace       string
}

// id is what targets tell repetitions by: another one after each replay with force.
func (p *parcel) id() string {
	if p.forced == 0 {
		return p.event.ID.String()
	}
	return p.event.ID.String() + "_r" + strconv.Itoa(p.forced)
}

// insertForwarded is insert for rows that targets get: each new one is stored with a
// forward to each.
func (s *store) insertForwarded(ctx context.Context, rows []row) ([]arrival, error) {
	p := s.insertParams(rows, uuid.UUID{})
	params := dbsqlc.InsertWebhookForwardedEventsParams{
		Ids: p.Ids, Providers: p.Providers, EventTypes: p.EventTypes, ExternalIds: p.ExternalIds, CreatedAts: p.CreatedAts,
		Raws: p.Raws, RawSha256s: p.RawSha256s, Headers: p.Headers, SealedHeaders: p.SealedHeaders,
	}
	for _, r := range rows {
		for _, t := range r.targets {
			params.EventIds = append(params.EventIds, r.event.ID)
			params.Targets = append(params.Targets, t.target.Name)
			params.Traces = append(params.Traces, r.trace.Text())
		}
	}
	ids, err := s.queries.InsertWebhookForwardedEvents(ctx, s.db.Single(senders(rows)), params)
	if err != nil {
		return nil, db.Translate(err)
	}
	return s.arrivals(ctx, rows, ids, uuid.UUID{}), nil
}

// wanted is what a lane has room for.
type wanted struct {
	target targetKey
	places int
	lease  time.Duration
	since  time.Time // what was due before is left out
}

// claimedBody bounds in bytes the bodies that come with a claim.
const claimedBody = smallBody

// claimForwards takes what is due of each target.
func (s *store) claimForwards(ctx context.Context, p identity.Principal, list []wanted) ([]*parcel, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	params := dbsqlc.ClaimWebhookForwardsParams{LeaseID: lease, SmallBody: claimedBody}
	leases := make(map[targetKey]time.Duration, len(list))
	for _, w := range list {
		params.Providers = append(params.Providers, w.target.provider)
		params.Targets = append(params.Targets, w.target.name)
		params.Places = append(params.Places, int64(w.places))
		params.LeaseSeconds = append(params.LeaseSeconds, w.lease.Seconds())
		params.Sinces = append(params.Sinces, w.since)
		leases[w.target] = w.lease
	}
	asked := time.Now()
	rows, err := s.queries.ClaimWebhookForwards(ctx, s.db.Single(p), params)
	if err != nil {
		return nil, db.Translate(err)
	}
	parcels := make([]*parcel, len(rows))
	for i, r := range rows {
		key := targetKey{r.Provider, r.Target}
		parcels[i] = &parcel{
			target: key, lease: lease, until: asked.Add(leases[key]), wasDue: r.WasDueAt, size: r.Size,
			attempts: int(r.Attempts), tries: int(r.Tries), interrupted: int(r.Interrupted), forced: int(r.ForcedReplays),
			probe: r.Probe, failures: int(r.Failures), alone: r.Alone, trace: r.Trace, sealed: r.SealedHeaders,
			event: Event{
				ID: r.EventID, Provider: r.Provider, Type: r.EventType, ExternalID: r.ExternalID,
				Body: r.Raw, RetryCount: int(r.RetryCount), CreatedAt: r.CreatedAt,
			},
		}
	}
	return parcels, nil
}

// sent is how an attempt at a target ended.
type sent struct {
	parcel      *parcel
	status      Status // Processed, Failed, or Pending: tried again after wait
	text        string // of a failure
	at          time.Time
	took, wait  time.Duration
	unspent     bool // it is none of the attempts that the target has
	returned    bool // it was not begun
	headersGone bool
}

// recordForwards stores how attempts ended, in one transaction, and reports for each
// whether its lease still held; it is a groupcommit.Flush.
func (s *store) recordForwards(ctx context.Context, list []sent) ([]bool, error) {
	params := recordForwardsParams(list)
	var shared []uuid.UUID
	for _, o := range list {
		if !o.parcel.alone {
			shared = append(shared, o.parcel.event.ID)
		}
	}
	slices.SortFunc(shared, compareIDs)
	shared = slices.Compact(shared)
	noted := notedTargets(list)
	p := identity.System("webhooks.forward")
	var rows []dbsqlc.RecordWebhookForwardsRow
	var changed []dbsqlc.NoteWebhookTargetsRow
	var err error
	if len(shared) == 0 && len(noted.Providers) == 0 {
		rows, err = s.queries.RecordWebhookForwards(ctx, s.db.Single(p), params)
		err = db.Translate(err)
	} else {
		err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			// The targets of one event settle it one after the other: the last sees all.
			if err = s.queries.LockWebhookEvents(ctx, tx, params.EventIds); err != nil {
				return err
			}
			if rows, err = s.queries.RecordWebhookForwards(ctx, tx, params); err != nil {
				return err
			}
			if len(shared) > 0 {
				if _, err = s.queries.SettleWebhookEvents(ctx, tx, s.now(), shared); err != nil {
					return err
				}
			}
			changed, err = s.queries.NoteWebhookTargets(ctx, tx, noted)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	for _, c := range changed {
		s.reportBreaker(ctx, c)
	}
	type key struct {
		event  uuid.UUID
		target string
	}
	recorded := make(map[key]bool, len(rows))
	for _, r := range rows {
		recorded[key{r.EventID, r.Target}] = true
	}
	held := make([]bool, len(list))
	for i, o := range list {
		held[i] = recorded[key{o.parcel.event.ID, o.parcel.target.name}]
	}
	return held, nil
}

// reportBreaker logs that a target is left alone from now on, or no more.
func (s *store) reportBreaker(ctx context.Context, c dbsqlc.NoteWebhookTargetsRow) {
	switch {
	case c.IsOpen && !c.WasOpen:
		s.logger.WarnContext(ctx, "webhook target keeps failing; it is only probed until it answers", "provider", c.Provider, "target", c.Name, "failures", c.Failures)
	case c.WasOpen && !c.IsOpen:
		s.logger.InfoContext(ctx, "webhook target answers again", "provider", c.Provider, "target", c.Name)
	}
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func recordForwardsParams(list []sent) dbsqlc.RecordWebhookForwardsParams {
	var p dbsqlc.RecordWebhookForwardsParams
	for _, o := range list {
		p.EventIds = append(p.EventIds, o.parcel.event.ID)
		p.Targets = append(p.Targets, o.parcel.target.name)
		p.LeaseIds = append(p.LeaseIds, o.parcel.lease)
		p.Statuses = append(p.Statuses, string(o.status))
		p.Errors = append(p.Errors, o.text)
		p.Ats = append(p.Ats, o.at)
		p.TookMs = append(p.TookMs, milliseconds(o.took))
		p.WaitSeconds = append(p.WaitSeconds, o.wait.Seconds())
		p.Unspent = append(p.Unspent, o.unspent)
		p.Returned = append(p.Returned, o.returned)
		p.HeadersGone = append(p.HeadersGone, o.headersGone)
		p.Alone = append(p.Alone, o.parcel.alone)
	}
	return p
}

// notedTargets is what attempts say of their targets, in the order in which they ended.
// A success says nothing new of one that has not failed.
func notedTargets(list []sent) dbsqlc.NoteWebhookTargetsParams {
	type note struct {
		succeeded, probed, troubled bool
		failed                      int32
	}
	notes := map[targetKey]note{}
	ordered := slices.SortedStableFunc(slices.Values(list), func(a, b sent) int { return a.at.Compare(b.at) })
	for _, o := range ordered {
		if o.returned {
			continue
		}
		n := notes[o.parcel.target]
		if o.status == Processed {
			n.succeeded, n.failed = true, 0
			n.troubled = n.troubled || o.parcel.probe || o.parcel.failures > 0
		} else {
			n.failed++
			n.troubled = true
		}
		n.probed = n.probed || o.parcel.probe
		notes[o.parcel.target] = n
	}
	p := dbsqlc.NoteWebhookTargetsParams{MostFailures: breakerFailures}
	keys := make([]targetKey, 0, len(notes))
	for k := range notes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, targetKey.compare)
	for _, k := range keys {
		if n := notes[k]; n.troubled {
			p.Providers = append(p.Providers, k.provider)
			p.Targets = append(p.Targets, k.name)
			p.Succeeded = append(p.Succeeded, n.succeeded)
			p.Failed = append(p.Failed, n.failed)
			p.Probed = append(p.Probed, n.probed && !n.succeeded)
		}
	}
	return p
}

// fetchBody reads the body of an event that came without.
func (s *store) fetchBody(ctx context.Context, id uuid.UUID) ([]byte, error) {
	raw, err := s.queries.ReadWebhookBody(ctx, s.db.Direct(), id)
	return raw, db.Translate(err)
}

// handOver leaves claimed events to their targets, in the transaction that claimed them,
// and returns the other claims: those that are a handler's in code, or nobody's here. With
// force also what a target has already goes there again. held are those of which an
// attempt is on, so that nothing is left to do.
func (s *store) handOver(ctx context.Context, tx pgx.Tx, claims []claim, force bool) (rest []claim, held []uuid.UUID, err error) {
	if len(claims) == 0 {
		return nil, nil, nil
	}
	ids := make([]uuid.UUID, len(claims))
	for i, c := range claims {
		ids[i] = c.event.ID
	}
	rows, err := s.queries.LockWebhookForwards(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	of := make(map[uuid.UUID][]dbsqlc.LockWebhookForwardsRow, len(rows))
	for _, r := range rows {
		of[r.EventID] = append(of[r.EventID], r)
	}
	var change forwardChange
	var given []uuid.UUID
	for _, c := range claims {
		b, bound := s.registry.binding(c.event.Provider, c.event.Type)
		forwards := of[c.event.ID]
		switch {
		case bound && !b.forwards():
			change.forget(forwards)
			rest = append(rest, c)
			continue
		case !bound && len(forwards) == 0:
			rest = append(rest, c)
			continue
		}
		if !change.replay(c.event.ID, b, forwards, force) {
			held = append(held, c.event.ID)
		}
		given = append(given, c.event.ID)
	}
	if len(given) > 0 {
		forced := int32(0)
		if force {
			forced = 1
		}
		if err := s.queries.HandOverWebhookEvents(ctx, tx, forced, given, claims[0].lease); err != nil {
			return nil, nil, err
		}
	}
	return rest, held, change.apply(ctx, tx, s.queries)
}

// forwardChange is what a replay does to forwards.
type forwardChange struct{ reset, added, gone forwardNames }

// forwardNames are names of forwards side by side, as statements take them.
type forwardNames struct {
	events  []uuid.UUID
	targets []string
}

func (n *forwardNames) add(event uuid.UUID, target string) {
	n.events, n.targets = append(n.events, event), append(n.targets, target)
}

func (f *forwardChange) forget(forwards []dbsqlc.LockWebhookForwardsRow) {
	for _, r := range forwards {
		f.gone.add(r.EventID, r.Target)
	}
}

// replay makes an event's forwards due now: those that have not succeeded, or with force
// those that the binding has today, as if the event had just arrived. It reports whether
// there was anything to do.
func (f *forwardChange) replay(event uuid.UUID, b Binding, forwards []dbsqlc.LockWebhookForwardsRow, force bool) bool {
	known := make(map[string]bool, len(forwards))
	did := false
	for _, r := range forwards {
		known[r.Target] = true
		mine := slices.ContainsFunc(b.targets, func(p *poster) bool { return p.target.Name == r.Target })
		switch {
		case r.InFlight:
		case force && b.forwards() && !mine:
			if r.Status != string(Processed) {
				f.gone.add(event, r.Target)
			}
		case force && !r.New || !force && r.Status != string(Processed):
			f.reset.add(event, r.Target)
			did = true
		}
	}
	if len(forwards) == 0 || force {
		for _, p := range b.targets {
			if !known[p.target.Name] {
				f.added.add(event, p.target.Name)
				did = true
			}
		}
	}
	return did
}

func (f *forwardChange) apply(ctx context.Context, tx pgx.Tx, q dbsqlc.Queries) error {
	for _, step := range []struct {
		names forwardNames
		do    func(context.Context, dbsqlc.DBTX, []uuid.UUID, []string) error
	}{{f.gone, q.DeleteWebhookForwards}, {f.reset, q.ResetWebhookForwards}, {f.added, q.InsertWebhookForwards}} {
		if len(step.names.events) > 0 {
			if err := step.do(ctx, tx, step.names.events, step.names.targets); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortedTargets are the names of targets in the order in which statements lock them.
func (r *Registry) sortedTargets() (providers, names []string) {
	providers, names = []string{}, []string{}
	keys := make([]targetKey, 0, len(r.targets))
	for k := range r.targets {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, targetKey.compare)
	for _, k := range keys {
		providers, names = append(providers, k.provider), append(names, k.name)
	}
	return providers, names
}
