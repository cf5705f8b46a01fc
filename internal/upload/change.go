package upload

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// Find returns a file to its owner or an ADMIN, and ErrNoUpload to others. An ADMIN's
// API token without scope admin gets ErrTokenScope for what isn't its owner's.
func (s *Service) Find(ctx context.Context, id int64) (Upload, error) {
	row, err := s.find(ctx, id)
	if err != nil {
		return Upload{}, err
	}
	return fromRow(row), nil
}

func (s *Service) find(ctx context.Context, id int64) (dbsqlc.Upload, error) {
	p := identity.FromContext(ctx)
	row, err := s.queries.FindUpload(ctx, s.o.DB.Direct(), id, mayAll(p), p.UserID)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, missing(p)
	}
	return row, db.Translate(err)
}

// Change is what Update changes; nil fields stay as they are.
type Change struct{ Filename *string }

// Update gives a file another name, for its owner or an ADMIN. It returns the errors of
// Find and validation faults keyed by field.
func (s *Service) Update(ctx context.Context, id int64, c Change) (Upload, error) {
	if c.Filename != nil {
		name, err := checkFilename(*c.Filename)
		if err != nil {
			return Upload{}, err
		}
		c.Filename = &name
	}
	p := identity.FromContext(ctx)
	var row dbsqlc.Upload
	err := s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		row, err = s.queries.RenameUpload(ctx, tx, dbsqlc.RenameUploadParams{
			ID: id, Filename: c.Filename, Now: s.o.Now(), Anyones: mayAll(p), ActorID: p.UserID,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return missing(p)
		}
		return err
	})
	if err != nil {
		return Upload{}, err
	}
	return fromRow(row), nil
}

// Delete removes a file for its owner or an ADMIN: its row and what it takes of the
// quota at once, its bytes by a job. It returns the errors of Find.
func (s *Service) Delete(ctx context.Context, id int64) error {
	p := identity.FromContext(ctx)
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		gone, err := s.queries.DeleteUpload(ctx, tx, id, mayAll(p), p.UserID)
		if errors.Is(err, pgx.ErrNoRows) {
			return missing(p)
		}
		if err != nil {
			return err
		}
		return s.insertRemovals(ctx, tx, []dbsqlc.DeleteUploadRow{gone})
	})
}

// DeleteAllOf removes all files of an account within the transaction that removes the
// account.
func (s *Service) DeleteAllOf(ctx context.Context, tx pgx.Tx, owner int64) error {
	rows, err := s.queries.DeleteUploadsOf(ctx, tx, owner)
	if err != nil {
		return fmt.Errorf("upload: delete an account's files: %w", err)
	}
	gone := make([]dbsqlc.DeleteUploadRow, len(rows))
	for i, row := range rows {
		gone[i] = dbsqlc.DeleteUploadRow(row)
	}
	return s.insertRemovals(ctx, tx, gone)
}

// removedAtOnce is how many keys one job removes.
const removedAtOnce = 100

func (s *Service) insertRemovals(ctx context.Context, tx pgx.Tx, gone []dbsqlc.DeleteUploadRow) error {
	byBackend := map[string][]string{}
	for _, row := range gone {
		keys := append(byBackend[row.Backend], row.Key)
		for _, other := range []*string{row.StagingKey, row.ThumbnailKey} {
			if other != nil {
				keys = append(keys, *other)
			}
		}
		byBackend[row.Backend] = keys
	}
	var entries []queue.Entry
	for backend, keys := range byBackend {
		for len(keys) > 0 {
			n := min(len(keys), removedAtOnce)
			entries = append(entries, queue.Entry{Job: RemovalJob{Backend: backend, Keys: keys[:n]}})
			keys = keys[n:]
		}
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := s.o.Jobs.InsertMany(ctx, tx, entries)
	return err
}

// RemovalJob removes bytes whose rows are gone.
type RemovalJob struct {
	Backend string   `json:"backend"`
	Keys    []string `json:"keys"`
}

// Kind implements queue.Job.
func (RemovalJob) Kind() string { return "upload_removal" }

// Remove works a RemovalJob. Bytes in a store that this process doesn't have are left to
// the sweep of one that does.
func (s *Service) Remove(ctx context.Context, j RemovalJob) error {
	store, err := s.storeOf(j.Backend)
	if err != nil {
		s.o.Logger.WarnContext(ctx, "deleted files are in a storage that is not configured here; their bytes stay there until it is configured again", "storage", j.Backend, "keys", len(j.Keys))
		return nil
	}
	for _, key := range j.Keys {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
