package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// store keeps events. Leases are measured by the database's clock, which all
// instances share.
type store struct {
	db       *db.DB
	lease    time.Duration
	newLease func() (uuid.UUID, error)
	queries  dbsqlc.Queries
}

// row is an event about to be stored.
type row struct {
	event    Event
	headers  string // JSON
	sha256   [32]byte
	dispatch bool // a handler will run, so it is stored as pending
}

// size is the row's memory in bytes, about.
func (r row) size() int { return len(r.event.Body) + 2*len(r.headers) + 512 }

// arrival is what storing a row came to.
type arrival struct {
	id        uuid.UUID // of the stored event
	duplicate bool      // stored earlier, by another delivery of the same key
	lease     uuid.UUID // under which a handler may run
}

type dedupeKey struct{ externalID, provider string }

// insert stores rows in one transaction, one arrival for each; it is a
// groupcommit.Flush.
func (s *store) insert(ctx context.Context, rows []row) ([]arrival, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	params := s.insertParams(rows, lease)
	arrivals := make([]arrival, len(rows))
	err = s.db.InTx(ctx, identity.System("webhooks"), func(ctx context.Context, tx pgx.Tx) error {
		ids, err := s.queries.InsertWebhookEvents(ctx, tx, params)
		if err != nil {
			return err
		}
		isNew := make(map[uuid.UUID]bool, len(ids))
		for _, id := range ids {
			isNew[id] = true
		}
		earlier, err := s.earlier(ctx, tx, rows, isNew)
		if err != nil {
			return err
		}
		for i, r := range rows {
			arrivals[i] = arrival{id: r.event.ID, lease: lease}
			if !isNew[r.event.ID] {
				id, ok := earlier[dedupeKey{r.event.ExternalID, r.event.Provider}]
				if !ok {
					return fmt.Errorf("webhook: event %s was neither stored nor there before", r.event.ID)
				}
				arrivals[i] = arrival{id: id, duplicate: true}
			}
		}
		return nil
	})
	return arrivals, err
}

// insertParams sorts the rows by key: two batches that share keys take their
// locks in one order.
func (s *store) insertParams(rows []row, lease uuid.UUID) dbsqlc.InsertWebhookEventsParams {
	sorted := slices.SortedFunc(slices.Values(rows), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.event.ExternalID, b.event.ExternalID), cmp.Compare(a.event.Provider, b.event.Provider))
	})
	p := dbsqlc.InsertWebhookEventsParams{LeaseID: lease, LeaseSeconds: s.lease.Seconds()}
	for _, r := range sorted {
		p.Ids = append(p.Ids, r.event.ID)
		p.Providers = append(p.Providers, r.event.Provider)
		p.EventTypes = append(p.EventTypes, r.event.Type)
		p.ExternalIds = append(p.ExternalIds, r.event.ExternalID)
		p.Dispatch = append(p.Dispatch, r.dispatch)
		p.CreatedAts = append(p.CreatedAts, r.event.CreatedAt)
		p.Raws = append(p.Raws, r.event.Body)
		p.RawSha256s = append(p.RawSha256s, r.sha256[:])
		p.Headers = append(p.Headers, r.headers)
	}
	return p
}

// earlier finds the stored events that the rows which are not new are duplicates of.
func (s *store) earlier(ctx context.Context, tx pgx.Tx, rows []row, isNew map[uuid.UUID]bool) (map[dedupeKey]uuid.UUID, error) {
	var externalIDs, providers []string
	for _, r := range rows {
		if !isNew[r.event.ID] {
			externalIDs = append(externalIDs, r.event.ExternalID)
			providers = append(providers, r.event.Provider)
		}
	}
	if len(externalIDs) == 0 {
		return nil, nil
	}
	found, err := s.queries.FindWebhookEventsByKey(ctx, tx, externalIDs, providers)
	if err != nil {
		return nil, err
	}
	ids := make(map[dedupeKey]uuid.UUID, len(found))
	for _, f := range found {
		ids[dedupeKey{f.ExternalID, f.Provider}] = f.ID
	}
	return ids, nil
}

// outcome is how the handling of a claimed event ended.
type outcome struct {
	id, lease uuid.UUID
	status    Status // Processed or Failed
	text      string // of a failure
	at        time.Time
}

// record stores outcomes in one transaction and reports for each whether its
// lease still held; it is a groupcommit.Flush.
func (s *store) record(ctx context.Context, outcomes []outcome) ([]bool, error) {
	var p dbsqlc.RecordWebhookOutcomesParams
	for _, o := range outcomes {
		p.Ids = append(p.Ids, o.id)
		p.LeaseIds = append(p.LeaseIds, o.lease)
		p.Statuses = append(p.Statuses, string(o.status))
		p.HandlerErrors = append(p.HandlerErrors, o.text)
		p.Ats = append(p.Ats, o.at)
	}
	held := make([]bool, len(outcomes))
	err := s.db.InTx(ctx, identity.System("webhooks"), func(ctx context.Context, tx pgx.Tx) error {
		ids, err := s.queries.RecordWebhookOutcomes(ctx, tx, p)
		for i, o := range outcomes {
			held[i] = slices.Contains(ids, o.id)
		}
		return err
	})
	return held, err
}

// complete makes the event processed inside the handler's own transaction, and
// reports whether the lease still held.
func (s *store) complete(ctx context.Context, tx pgx.Tx, c claim, at time.Time) (bool, error) {
	n, err := s.queries.CompleteWebhookEvent(ctx, tx, at, c.event.ID, c.lease)
	return n == 1, err
}

// claim is the right to handle an event until its lease ends.
type claim struct {
	event Event
	lease uuid.UUID
}

// claimStale takes up to limit pending events whose lease ran out.
func (s *store) claimStale(ctx context.Context, p identity.Principal, limit int) ([]claim, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	var claims []claim
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.queries.ClaimStaleWebhookEvents(ctx, tx, lease, s.lease.Seconds(), int32(limit))
		if err != nil {
			return err
		}
		for _, r := range rows {
			c, err := newClaim(dbsqlc.ClaimWebhookReplayRow(r), lease)
			if err != nil {
				return err
			}
			claims = append(claims, c)
		}
		return nil
	})
	return claims, err
}

// claimReplay takes one event for a replay and counts it. It returns
// pgx.ErrNoRows when the event is not to be had.
func (s *store) claimReplay(ctx context.Context, p identity.Principal, id uuid.UUID, force bool) (claim, error) {
	lease, err := s.newLease()
	if err != nil {
		return claim{}, fmt.Errorf("webhook: new lease: %w", err)
	}
	var c claim
	err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		r, err := s.queries.ClaimWebhookReplay(ctx, tx, dbsqlc.ClaimWebhookReplayParams{
			LeaseID: lease, LeaseSeconds: s.lease.Seconds(), ID: id, Force: force,
		})
		if err != nil {
			return err
		}
		c, err = newClaim(r, lease)
		return err
	})
	return c, err
}

func newClaim(r dbsqlc.ClaimWebhookReplayRow, lease uuid.UUID) (claim, error) {
	var h http.Header
	if err := json.Unmarshal(r.Headers, &h); err != nil {
		return claim{}, fmt.Errorf("webhook: headers of event %s: %w", r.ID, err)
	}
	return claim{lease: lease, event: Event{
		ID: r.ID, Provider: r.Provider, Type: r.EventType, ExternalID: r.ExternalID,
		Body: r.Raw, Header: h, RetryCount: int(r.RetryCount), CreatedAt: r.CreatedAt,
	}}, nil
}
