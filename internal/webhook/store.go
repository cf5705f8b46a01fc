package webhook

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// store keeps events. Leases are measured by the database's clock, which all
// instances share.
type store struct {
	db       *db.DB
	logger   *slog.Logger
	jobs     JobQueue
	registry *Registry
	bound    bound // the registry's bindings
	lease    time.Duration
	now      func() time.Time
	newLease func() (uuid.UUID, error)
	queries  dbsqlc.Queries
}

// row is an event about to be stored.
type row struct {
	event    Event
	headers  string // JSON
	sealed   []byte // the delivery's own headers, where they are passed on
	sha256   [32]byte
	dispatch bool      // a handler will run, so it is stored as pending
	targets  []*poster // that it goes to, in the place of a handler
	by       identity.Principal
	trace    queue.Trace // in which it was delivered
}

// senders are who stores rows.
func senders(rows []row) identity.Principal {
	list := make([]identity.Principal, len(rows))
	for i, r := range rows {
		list[i] = r.by
	}
	return identity.Together(list, "webhooks")
}

// size is the row's memory in bytes, about.
func (r row) size() int { return len(r.event.Body) + 2*len(r.headers) + len(r.sealed) + 512 }

// arrival is what storing a row came to.
type arrival struct {
	id        uuid.UUID // of the stored event
	duplicate bool      // stored earlier, by another delivery of the same key
	differs   bool      // that one had another body
	lease     uuid.UUID // under which a handler may run
	err       error     // nothing is known but that it was not stored now
}

type dedupeKey struct{ externalID, provider string }

// insert stores rows in one transaction, one arrival for each; it is a
// groupcommit.Flush.
func (s *store) insert(ctx context.Context, rows []row) ([]arrival, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	ids, err := s.queries.InsertWebhookEvents(ctx, s.db.Single(senders(rows)), s.insertParams(rows, lease))
	if err != nil {
		return nil, db.Translate(err)
	}
	return s.arrivals(ctx, rows, ids, lease), nil
}

// insertForJobs is insert for rows that are left to jobs: each new one gets its
// first in the same transaction.
func (s *store) insertForJobs(ctx context.Context, rows []row) ([]arrival, error) {
	lease, err := s.newLease()
	if err != nil {
		return nil, fmt.Errorf("webhook: new lease: %w", err)
	}
	var ids []uuid.UUID
	err = s.db.InTx(ctx, senders(rows), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		ids, err = s.queries.InsertWebhookEvents(ctx, tx, s.insertParams(rows, lease))
		if err != nil || len(ids) == 0 {
			return err
		}
		traces := make(map[uuid.UUID]queue.Trace, len(rows))
		for _, r := range rows {
			traces[r.event.ID] = r.trace
		}
		left := make([]outcome, len(ids))
		for i, id := range ids {
			left[i] = outcome{id: id, lease: lease, status: Pending, at: s.now(), deferred: true, trace: traces[id]}
		}
		jobs, err := s.insertJobs(ctx, tx, left)
		if err != nil {
			return err
		}
		_, err = s.queries.RecordWebhookOutcomes(ctx, tx, recordParams(left, jobs))
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.arrivals(ctx, rows, ids, lease), nil
}

// arrivals are what rows came to of which the new ones, now durable, are given.
func (s *store) arrivals(ctx context.Context, rows []row, ids []uuid.UUID, lease uuid.UUID) []arrival {
	isNew := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		isNew[id] = true
	}
	// What fails from here on concerns duplicates alone.
	earlier, err := s.earlier(ctx, rows, isNew)
	arrivals := make([]arrival, len(rows))
	for i, r := range rows {
		arrivals[i] = arrival{id: r.event.ID, lease: lease}
		if isNew[r.event.ID] {
			continue
		}
		first, ok := earlier[dedupeKey{r.event.ExternalID, r.event.Provider}]
		unknown := err
		if unknown == nil && !ok {
			unknown = fmt.Errorf("webhook: event %s was neither stored nor there before", r.event.ID)
		}
		arrivals[i] = arrival{id: first.ID, duplicate: true, differs: !bytes.Equal(first.RawSha256, r.sha256[:]), err: unknown}
	}
	return arrivals
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
		p.SealedHeaders = append(p.SealedHeaders, r.sealed)
	}
	return p
}

// earlier finds the stored events that the rows which are not new are duplicates of.
func (s *store) earlier(ctx context.Context, rows []row, isNew map[uuid.UUID]bool) (map[dedupeKey]dbsqlc.FindWebhookEventsByKeyRow, error) {
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
	found, err := s.queries.FindWebhookEventsByKey(ctx, s.db.Direct(), externalIDs, providers)
	if err != nil {
		return nil, db.Translate(err)
	}
	first := make(map[dedupeKey]dbsqlc.FindWebhookEventsByKeyRow, len(found))
	for _, f := range found {
		first[dedupeKey{f.ExternalID, f.Provider}] = f
	}
	return first, nil
}
