package upload

import (
	"context"
	"math"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
)

// Owner is an account that has files, as administrators see it.
type Owner struct {
	ID   int64
	Name string
	// Service says that it is a service account.
	Service bool
	// Bytes is what its files take of its quota: those on their way too.
	Bytes int64
}

// OwnerTotal is an owner with the number of its files.
type OwnerTotal struct {
	Owner
	Files int64
}

// Usage is what all files take together.
type Usage struct {
	Owners int64 // that have any
	Bytes  int64
	Quota  int64 // of each owner, in bytes
}

// Owners returns up to limit accounts that have files, those whose files take most
// first, from behind the owner after; nil starts at the first. It returns ErrNotAdmin or
// ErrTokenScope to who may not see everybody's files.
func (s *Service) Owners(ctx context.Context, after *Owner, limit int) ([]OwnerTotal, error) {
	if err := admitToAll(identity.FromContext(ctx)); err != nil {
		return nil, err
	}
	if after == nil {
		after = &Owner{Bytes: math.MaxInt64, ID: math.MaxInt64}
	}
	rows, err := s.queries.ListUploadOwners(ctx, s.o.DB.Direct(), after.Bytes, after.ID, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]OwnerTotal, len(rows))
	for i, r := range rows {
		list[i] = OwnerTotal{Owner: Owner{ID: r.OwnerID, Name: r.Name, Service: r.Service, Bytes: r.Bytes}, Files: r.Files}
	}
	return list, nil
}

// OwnersOf returns the accounts with those ids that there are, by id, with or without
// files. It returns the errors of Owners.
func (s *Service) OwnersOf(ctx context.Context, ids ...int64) (map[int64]Owner, error) {
	if err := admitToAll(identity.FromContext(ctx)); err != nil {
		return nil, err
	}
	rows, err := s.queries.FindUploadOwners(ctx, s.o.DB.Direct(), ids)
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make(map[int64]Owner, len(rows))
	for _, r := range rows {
		list[r.OwnerID] = Owner{ID: r.OwnerID, Name: r.Name, Service: r.Service, Bytes: r.Bytes}
	}
	return list, nil
}

// Usage returns what all files take together. It returns the errors of Owners.
func (s *Service) Usage(ctx context.Context) (Usage, error) {
	if err := admitToAll(identity.FromContext(ctx)); err != nil {
		return Usage{}, err
	}
	row, err := s.queries.SumUploadUsage(ctx, s.o.DB.Direct())
	if err != nil {
		return Usage{}, db.Translate(err)
	}
	return Usage{Owners: row.Owners, Bytes: row.Bytes, Quota: s.o.Quota}, nil
}

// admitToAll refuses who may not see everybody's files.
func admitToAll(p identity.Principal) error {
	switch {
	case mayAll(p):
		return nil
	case p.Is(identity.Admin):
		return ErrTokenScope
	}
	return ErrNotAdmin
}
