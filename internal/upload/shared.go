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

// gap is between two batches, unless many wait: a lone file waits for nobody.
const gap = 2 * time.Millisecond

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
		begins:   groupcommit.New(groupcommit.Options[beginShared]{MaxWait: placeWithin, Gap: gap}, s.beginAll),
		finishes: groupcommit.New(groupcommit.Options[finishShared]{Gap: gap}, s.finishAll), // refuses nothing whose bytes are there
		reads:    groupcommit.New(groupcommit.Options[readShared]{MaxWait: placeWithin, Gap: gap}, s.readAll),
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
	order := inOrder(items, func(i beginShared) int64 { return i.params.OwnerID })
	answers := make([]answered, len(items))
	err := s.o.DB.InTx(ctx, items[0].p, func(ctx context.Context, tx pgx.Tx) error {
		return db.Each(ctx, tx, len(items), func(n int) (identity.Principal, db.Statement) {
			i := order[n]
			return items[i].p, func(ctx context.Context, on db.Row) error {
				var err error
				answers[i].row, err = s.queries.BeginUpload(ctx, on, items[i].params)
				return err
			}
		}, func(n int, err error) error { return answers[order[n]].end(err, ErrQuota) })
	})
	return answers, err
}

// finishAll makes pending rows ready, and inserts the jobs of their thumbnails.
func (s *Service) finishAll(ctx context.Context, items []finishShared) ([]answered, error) {
	order := inOrder(items, func(i finishShared) int64 { return i.params.ID })
	answers := make([]answered, len(items))
	err := s.o.DB.InTx(ctx, items[0].p, func(ctx context.Context, tx pgx.Tx) error {
		var thumbnails []queue.Entry
		err := db.Each(ctx, tx, len(items), func(n int) (identity.Principal, db.Statement) {
			i := order[n]
			return items[i].p, func(ctx context.Context, on db.Row) error {
				var err error
				answers[i].row, err = s.queries.FinishUpload(ctx, on, items[i].params)
				return err
			}
		}, func(n int, err error) error {
			a := &answers[order[n]]
			if err == nil && IsRaster(a.row.ContentType) {
				thumbnails = append(thumbnails, queue.Entry{Job: ThumbnailJob{ID: a.row.ID}, Lane: queue.Thumbnails})
			}
			return a.end(err, ErrLost)
		})
		if err != nil || len(thumbnails) == 0 {
			return err
		}
		_, err = s.o.Jobs.InsertMany(ctx, tx, thumbnails)
		return err
	})
	return answers, err
}

// finishShared is finishAll together with others.
func (s *Service) finishShared(ctx context.Context, item finishShared) (dbsqlc.Upload, error) {
	return submit(ctx, s.shared.finishes, item)
}

// finishAlone is finishAll in a transaction of ctx.
func (s *Service) finishAlone(ctx context.Context, item finishShared) (dbsqlc.Upload, error) {
	answers, err := s.finishAll(ctx, []finishShared{item})
	if err != nil {
		return dbsqlc.Upload{}, err
	}
	return answers[0].row, answers[0].err
}

// end takes what became of an item's statement. That it found no row concerns the item
// alone, and is none for its transaction.
func (a *answered) end(err, none error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		a.err, err = none, nil
	}
	return err
}

// inOrder are the places of items, by a number of each.
func inOrder[T any](items []T, number func(T) int64) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(number(items[a]), number(items[b])) })
	return order
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
