package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// outcome is how the handling of a claimed event ended.
type outcome struct {
	id, lease uuid.UUID
	status    Status // Processed, Failed, or Pending: left to a job after wait
	text      string // of a failure
	at        time.Time
	took      time.Duration
	wait      time.Duration
	deferred  bool // left to a job without an attempt
	by        identity.Principal
	trace     queue.Trace // in which it was handled
}

// record stores outcomes in one transaction, with the jobs of what goes on, and
// reports for each whether its lease still held; it is a groupcommit.Flush.
func (s *store) record(ctx context.Context, outcomes []outcome) ([]bool, error) {
	list := make([]identity.Principal, len(outcomes))
	for i, o := range outcomes {
		list[i] = o.by
	}
	p := identity.Together(list, "webhooks")
	var ids []uuid.UUID
	var err error
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.status == Pending }) {
		err = s.db.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
			jobs, err := s.insertJobs(ctx, tx, outcomes)
			if err != nil {
				return err
			}
			ids, err = s.queries.RecordWebhookOutcomes(ctx, tx, recordParams(outcomes, jobs))
			return err
		})
	} else {
		ids, err = s.queries.RecordWebhookOutcomes(ctx, s.db.Single(p), recordParams(outcomes, make([]int64, len(outcomes))))
	}
	if err != nil {
		return nil, db.Translate(err)
	}
	recorded := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		recorded[id] = true
	}
	held := make([]bool, len(outcomes))
	for i, o := range outcomes {
		held[i] = recorded[o.id]
	}
	return held, nil
}

// insertJobs gives each pending outcome a job, and the others 0. A job whose event
// turns out to be somebody else's finds nothing to do.
func (s *store) insertJobs(ctx context.Context, tx pgx.Tx, outcomes []outcome) ([]int64, error) {
	jobs := make([]int64, len(outcomes))
	var entries []queue.Entry
	for _, o := range outcomes {
		if o.status == Pending {
			entry := queue.Entry{Job: AttemptJob{EventID: o.id}, Lane: queue.Webhooks, Trace: &o.trace}
			if o.wait > 0 { // a job with a time waits for the queue's scheduler, even if it has come
				entry.At = s.now().Add(o.wait)
			}
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return jobs, nil
	}
	ids, err := s.jobs.InsertMany(ctx, tx, entries)
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		if o.status == Pending {
			jobs[i], ids = ids[0], ids[1:]
		}
	}
	return jobs, nil
}

func recordParams(outcomes []outcome, jobs []int64) dbsqlc.RecordWebhookOutcomesParams {
	p := dbsqlc.RecordWebhookOutcomesParams{JobIds: jobs}
	for _, o := range outcomes {
		p.Ids = append(p.Ids, o.id)
		p.LeaseIds = append(p.LeaseIds, o.lease)
		p.Statuses = append(p.Statuses, string(o.status))
		p.HandlerErrors = append(p.HandlerErrors, o.text)
		p.Ats = append(p.Ats, o.at)
		p.TookMs = append(p.TookMs, milliseconds(o.took))
		p.Deferred = append(p.Deferred, o.deferred)
		p.WaitSeconds = append(p.WaitSeconds, o.wait.Seconds())
	}
	return p
}

// complete makes the event processed inside the handler's own transaction, and
// reports whether the lease still held.
func (s *store) complete(ctx context.Context, tx pgx.Tx, c claim, at time.Time, took time.Duration) (bool, error) {
	n, err := s.queries.CompleteWebhookEvent(ctx, tx, dbsqlc.CompleteWebhookEventParams{
		ProcessedAt: at, TookMs: milliseconds(took), ID: c.event.ID, LeaseID: c.lease,
	})
	return n == 1, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
