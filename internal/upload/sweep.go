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
	rows, err := s.sweepRows(ctx)
	if err != nil {
		return rows, err
	}
	before := s.o.Now().Add(-orphanAge)
	halves, err := s.o.Store.SweepIncomplete(ctx, before)
	if err != nil {
		return rows + halves, err
	}
	orphans, err := s.sweepOrphans(ctx, before)
	return rows + halves + orphans, err
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
			if row.Backend != s.o.Store.Name() {
				continue // its bytes have no row now: the sweep of who uses that store finds them
			}
			err := s.o.Store.Delete(ctx, row.Key)
			if row.StagingKey != nil {
				err = errors.Join(err, s.o.Store.Delete(ctx, *row.StagingKey))
			}
			if err != nil {
				return total, err // what is left has no row now either
			}
		}
		if len(gone) < sweptAtOnce {
			return total, nil
		}
	}
}

// sweepOrphans removes this installation's bytes that no row has. Those of other
// installations in the same store begin with other keys.
func (s *Service) sweepOrphans(ctx context.Context, before time.Time) (int, error) {
	own, err := s.ownsArea(ctx)
	if err != nil || !own {
		return 0, err
	}
	total := 0
	batch := make([]string, 0, sweptAtOnce)
	flush := func() error {
		// Rows come before their bytes: what has none by now had one, or lost it.
		unknown, err := s.queries.ListUnknownKeys(ctx, s.o.BackgroundDB.Direct(), batch)
		if err != nil {
			return db.Translate(err)
		}
		for _, key := range unknown {
			if err := s.o.Store.Delete(ctx, key); err != nil {
				return err
			}
			total++
		}
		batch = batch[:0]
		return nil
	}
	for info, err := range s.o.Store.List(ctx, s.area+"/") {
		if err != nil {
			return total, err
		}
		if !info.ModifiedAt.Before(before) || info.Key == s.markerKey() {
			continue
		}
		if batch = append(batch, info.Key); len(batch) == sweptAtOnce {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	if len(batch) == 0 {
		return total, nil
	}
	return total, flush()
}

// markerKey is of an object that says whose files these are.
func (s *Service) markerKey() string { return s.area + "/owner" }

// maxMarker is more than the marker has, in bytes.
const maxMarker = 1 << 10

// ownsArea reports whether the bytes are this database's to judge. A database that was
// restored from a dump has the same installation's id, and lacks the rows of later
// files, so it must not take their bytes for orphans: the marker in the store names the
// database that made it first.
func (s *Service) ownsArea(ctx context.Context) (bool, error) {
	object, err := s.o.Store.Open(ctx, s.markerKey())
	if errors.Is(err, blob.ErrNotFound) {
		if _, err := s.o.Store.Put(ctx, s.markerKey(), "text/plain", bytes.NewReader([]byte(s.database))); err != nil {
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

// Check tells what is wrong with the storage, in a sentence for operators.
func (s *Service) Check(ctx context.Context) error { return s.o.Store.Check(ctx) }
