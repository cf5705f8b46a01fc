package upload

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/groupcommit"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// placeWithin is how long a file waits for its row to be looked up or begun.
const placeWithin = time.Second

// shared are the statements of every file that is sent or read. What waits while one
// transaction is under way shares the next: else each file would pay for two commits,
// and those of one account would wait for each other's.
type shared struct {
	begins   *groupcommit.Group[beginShared, answered]
	finishes *groupcommit.Group[finishShared, answered]
	reads    *groupcommit.Group[readShared, answered]
}

type beginShared struct {
	p      identity.Principal
	params dbsqlc.BeginUploadParams
}

type finishShared struct {
	p      identity.Principal
	params dbsqlc.FinishUploadParams
}

// readShared is a file that somebody wants to read: its owner, or anyone who may.
type readShared struct {
	id, owner int64
	anyones   bool
}

// answered is what became of one of them: its row, or why there is none.
type answered struct {
	row dbsqlc.Upload
	err error
}

func (s *Service) share() {
	s.shared = shared{
		begins:   groupcommit.New(groupcommit.Options[beginShared]{MaxWait: placeWithin}, s.beginAll),
		finishes: groupcommit.New(groupcommit.Options[finishShared]{}, s.finishAll), // refuses nothing whose bytes are there
		reads:    groupcommit.New(groupcommit.Options[readShared]{MaxWait: placeWithin}, s.readAll),
	}
}

// Close waits for what is being begun, finished and looked up, at most until ctx ends.
func (s *Service) Close(ctx context.Context) error {
	return errors.Join(s.shared.begins.Close(ctx), s.shared.finishes.Close(ctx), s.shared.reads.Close(ctx))
}

// submit waits for an item's answer even when its client is gone, so that its row is
// known and can be removed.
func submit[T any](ctx context.Context, g *groupcommit.Group[T, answered], item T) (dbsqlc.Upload, error) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	a, err := g.Submit(ctx, item)
	if err != nil {
		return dbsqlc.Upload{}, db.Translate(err)
	}
	return a.row, a.err
}

// beginAll writes pending rows, by owner, so that two transactions lock the owners'
// counters in one order.
func (s *Service) beginAll(ctx context.Context, items []beginShared) ([]answered, error) {
	order := func(a, b int) int { return cmp.Compare(items[a].params.OwnerID, items[b].params.OwnerID) }
	return together(ctx, s.o.DB, items, order, func(i beginShared) identity.Principal { return i.p },
		func(ctx context.Context, tx pgx.Tx, i beginShared) (dbsqlc.Upload, error) {
			row, err := s.queries.BeginUpload(ctx, tx, i.params)
			return row, notFound(err, ErrQuota)
		})
}

// finishAll makes pending rows ready, and inserts the jobs of their thumbnails.
func (s *Service) finishAll(ctx context.Context, items []finishShared) ([]answered, error) {
	order := func(a, b int) int { return cmp.Compare(items[a].params.ID, items[b].params.ID) }
	return together(ctx, s.o.DB, items, order, func(i finishShared) identity.Principal { return i.p },
		func(ctx context.Context, tx pgx.Tx, i finishShared) (dbsqlc.Upload, error) {
			row, err := s.queries.FinishUpload(ctx, tx, i.params)
			if err != nil || !IsRaster(row.ContentType) {
				return row, notFound(err, ErrLost)
			}
			_, err = s.o.Jobs.InsertMany(ctx, tx, []queue.Entry{{Job: ThumbnailJob{ID: row.ID}, Lane: queue.Thumbnails}})
			return row, err
		})
}

// refused is a fault that concerns one item alone: its statement changed nothing, and
// the others' stay.
type refused struct{ error }

func notFound(err, fault error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return refused{fault}
	}
	return err
}

// together does all items in one transaction, in an order of their places, each for who
// acts in it.
func together[T any](ctx context.Context, d *db.DB, items []T, order func(a, b int) int, actor func(T) identity.Principal,
	do func(context.Context, pgx.Tx, T) (dbsqlc.Upload, error),
) ([]answered, error) {
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, order)
	answers := make([]answered, len(items))
	err := d.InTx(ctx, actor(items[places[0]]), func(ctx context.Context, tx pgx.Tx) error {
		for n, i := range places {
			if n > 0 {
				if err := db.Act(ctx, tx, actor(items[i])); err != nil {
					return err
				}
			}
			row, err := do(ctx, tx, items[i])
			if why, ok := errors.AsType[refused](err); ok {
				answers[i].err = why.error
				continue
			}
			if err != nil {
				return err
			}
			answers[i].row = row
		}
		return nil
	})
	return answers, err
}

// readAll looks files up. The statement begins after each item came to wait, so nobody
// is shown what was deleted before they asked.
func (s *Service) readAll(ctx context.Context, items []readShared) ([]answered, error) {
	params := dbsqlc.FindUploadsParams{}
	answers := make([]answered, len(items))
	for i, item := range items {
		params.Ids, params.ActorIds, params.Anyones = append(params.Ids, item.id), append(params.ActorIds, item.owner), append(params.Anyones, item.anyones)
		params.Places = append(params.Places, int32(i))
		answers[i].err = ErrNoUpload
	}
	rows, err := s.queries.FindUploads(ctx, s.o.DB.Direct(), params)
	if err != nil {
		return nil, db.Translate(err)
	}
	for _, r := range rows {
		answers[r.Place] = answered{row: r.Upload}
	}
	return answers, nil
}
