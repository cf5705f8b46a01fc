package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// orphanAge is how old bytes without a row are before they are removed.
	orphanAge = 24 * time.Hour
	// sweptAtOnce is how many rows or keys one statement takes.
	sweptAtOnce = 500
)

// Sweep removes what crashes left: pending rows whose time is over, with their bytes
// and their part of the quota; bytes in the store that are a day old and have no row;
// and what the store itself has half-written. It returns how many things it removed.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	total, err := s.sweepRows(ctx)
	if err != nil {
		return total, err
	}
	// What may still be on its way is younger.
	before := s.o.Now().Add(-max(orphanAge, transferTime(s.o.Limit)+margin))
	var errs []error
	for _, store := range s.o.Stores { // one that is away keeps no other from being swept
		halves, err := store.SweepIncomplete(ctx, before)
		errs = append(errs, err)
		orphans, err := s.sweepOrphans(ctx, store, before)
		errs = append(errs, err)
		total += halves + orphans
	}
	return total, errors.Join(errs...)
}

func (s *Service) sweepRows(ctx context.Context) (int, error) {
	total := 0
	for {
		now := s.o.Now()
		gone, err := s.queries.DeleteExpiredUploads(ctx, s.o.BackgroundDB.Single(identity.Step(ctx, "sweep-uploads")), &now, sweptAtOnce)
		if err != nil {
			return total, db.Translate(err)
		}
		total += len(gone)
		for _, row := range gone {
			store, err := s.storeOf(row.Backend)
			if err != nil {
				continue // its bytes have no row now: the sweep of who has that store finds them
			}
			err = store.Delete(ctx, row.Key)
			if row.StagingKey != nil {
				err = errors.Join(err, store.Delete(ctx, *row.StagingKey))
			}
			if err != nil {
				s.o.Logger.WarnContext(ctx, "the bytes of a given-up upload stay for a day", "key", row.Key, "error", err)
			}
		}
		if len(gone) < sweptAtOnce {
			return total, nil
		}
	}
}

// sweepOrphans removes this installation's bytes that no row has. Those of other
// installations in the same store begin with other keys.
func (s *Service) sweepOrphans(ctx context.Context, store blob.Store, before time.Time) (int, error) {
	own, err := s.ownsArea(ctx, store)
	if err != nil || !own {
		return 0, err
	}
	total := 0
	batch := make([]string, 0, sweptAtOnce)
	for info, err := range store.List(ctx, s.area+"/") {
		if err != nil {
			return total, err
		}
		if !info.ModifiedAt.Before(before) || info.Key == s.markerKey() {
			continue
		}
		if batch = append(batch, info.Key); len(batch) < sweptAtOnce {
			continue
		}
		n, err := s.deleteUnknown(ctx, store, batch)
		if total += n; err != nil {
			return total, err
		}
		batch = batch[:0]
	}
	n, err := s.deleteUnknown(ctx, store, batch)
	return total + n, err
}

// deleteUnknown deletes those of the keys that no row has. Rows come before their
// bytes, so what has none by now had one, or lost it.
func (s *Service) deleteUnknown(ctx context.Context, store blob.Store, keys []string) (int, error) {
	unknown, err := s.queries.ListUnknownKeys(ctx, s.o.BackgroundDB.Direct(), keys)
	if err != nil {
		return 0, db.Translate(err)
	}
	for i, key := range unknown {
		if err := store.Delete(ctx, key); err != nil {
			return i, err
		}
	}
	return len(unknown), nil
}

// markerKey is of an object that says whose files these are.
func (s *Service) markerKey() string { return s.area + "/owner" }

// maxMarker is more than the marker has, in bytes.
const maxMarker = 1 << 10

// ownsArea reports whether the bytes are this database's to judge. A database that was
// restored from a dump has the same installation's id, and lacks the rows of later
// files, so it must not take their bytes for orphans: the marker in the store names the
// database that made it first.
func (s *Service) ownsArea(ctx context.Context, store blob.Store) (bool, error) {
	object, err := store.Open(ctx, s.markerKey())
	if errors.Is(err, blob.ErrNotFound) {
		if _, err := store.Put(ctx, s.markerKey(), "text/plain", bytes.NewReader([]byte(s.database))); err != nil {
			return false, fmt.Errorf("upload: mark the storage: %w", err)
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer object.Close()
	marked, err := io.ReadAll(io.LimitReader(object, maxMarker))
	if err != nil {
		return false, err
	}
	if string(marked) == s.database {
		return true, nil
	}
	s.o.Logger.WarnContext(ctx, "the storage belongs to another database, of which this one is a copy, so bytes without a row stay; "+
		"if that database is gone for good, delete the object that names it", "object", s.markerKey())
	return false, nil
}

// Stores is how many stores are configured.
func (s *Service) Stores() int { return len(s.o.Stores) }

// Check tells what is wrong with the stores, in sentences for operators.
func (s *Service) Check(ctx context.Context) error {
	var errs []error
	for _, store := range s.o.Stores {
		errs = append(errs, store.Check(ctx))
	}
	return errors.Join(errs...)
}
