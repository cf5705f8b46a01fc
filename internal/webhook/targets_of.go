package webhook

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const targetsOfEvents = `
select f.event_id, f.target, f.status, f.attempts, case when f.lease_id is null or f.due_at < now() then f.due_at end, f.error, f.headers_gone
from webhook_forwards f where f.event_id = any ($1) order by f.event_id, f.target`

// addTargets adds to events what became of them at their targets.
func addTargets(ctx context.Context, q querier, list []Record) error {
	if len(list) == 0 {
		return nil
	}
	ids, places := make([]uuid.UUID, len(list)), make(map[uuid.UUID]int, len(list))
	for i, rec := range list {
		ids[i], places[rec.ID] = rec.ID, i
	}
	rows, err := q.Query(ctx, targetsOfEvents, ids)
	if err != nil {
		return err
	}
	var id uuid.UUID
	var t TargetOutcome
	_, err = pgx.ForEachRow(rows, []any{&id, &t.Name, &t.Status, &t.Attempts, &t.NextAttemptAt, &t.Error, &t.HeadersGone}, func() error {
		rec := &list[places[id]]
		rec.Targets = append(rec.Targets, t)
		t.NextAttemptAt = nil
		return nil
	})
	return err
}
