// Package queue inserts jobs. It is the insert-only half of River: services hold
// it, while internal/jobs holds the client that works the jobs, which opens the
// construction cycle between the two.
package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Job is what a worker gets: a River argument struct with a stable Kind.
type Job = river.JobArgs

// Queue inserts jobs into River's tables.
type Queue struct {
	client *river.Client[pgx.Tx]
}

// New makes an insert-only queue. It holds no connection: every insert uses the
// caller's transaction.
func New(logger *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return &Queue{client: client}, nil
}

// Insert adds job to tx: it exists if and only if tx commits.
func (q *Queue) Insert(ctx context.Context, tx pgx.Tx, job Job) error {
	if _, err := q.client.InsertTx(ctx, tx, job, nil); err != nil {
		return fmt.Errorf("queue: insert %s: %w", job.Kind(), err)
	}
	return nil
}
