package upload

import (
	"context"
	"errors"
	"fmt"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/identity"
)

// Content is the bytes of a file, to be closed. Its reads end with the context that
// opened it.
type Content struct {
	Upload
	blob.Object
}

// Size is the number of bytes.
func (c Content) Size() int64 { return c.Object.Size() }

// Open opens the bytes of a ready file for its owner, for an ADMIN, or for whoever has
// a link to it, "" for none. It returns the errors of Find, ErrLink, and
// blob.ErrUnavailable.
func (s *Service) Open(ctx context.Context, id int64, link string) (Content, error) {
	finding, cancel := briefly(ctx)
	defer cancel()
	row, err := s.findContent(finding, id, link)
	if err != nil {
		return Content{}, err
	}
	object, err := s.open(ctx, row, row.Key)
	if err != nil {
		return Content{}, err
	}
	if object.Size() != row.Size {
		_ = object.Close()
		return Content{}, fmt.Errorf("upload: the storage has %d bytes of upload %d, which has %d", object.Size(), id, row.Size)
	}
	return Content{fromRow(row), object}, nil
}

func (s *Service) findContent(ctx context.Context, id int64, link string) (dbsqlc.Upload, error) {
	if link == "" {
		p := identity.FromContext(ctx)
		row, err := s.read(ctx, readShared{id: id, owner: p.UserID, anyones: mayAll(p)})
		if errors.Is(err, ErrNoUpload) {
			err = missing(p)
		}
		return row, err
	}
	// Before anybody is asked, so that forged links tell nothing of what there is.
	t, err := s.signer.open(link, forReading, id, s.o.Now())
	if err != nil {
		return dbsqlc.Upload{}, err
	}
	row, err := s.read(ctx, readShared{id: id, anyones: true})
	if err == nil && !t.names(row.Sha256) {
		err = ErrLink
	}
	return row, err
}

// read finds a file whose bytes are there.
func (s *Service) read(ctx context.Context, r readShared) (dbsqlc.Upload, error) {
	a, err := s.shared.reads.Submit(ctx, r)
	switch {
	case err != nil:
		return dbsqlc.Upload{}, db.Translate(err)
	case a.err == nil && Status(a.row.Status) != Ready:
		return dbsqlc.Upload{}, ErrNoUpload
	}
	return a.row, a.err
}

// open opens bytes of a row that is ready. That they aren't there is nothing that a
// client could do something about.
func (s *Service) open(ctx context.Context, row dbsqlc.Upload, key string) (blob.Object, error) {
	store, err := s.storeOf(row.Backend)
	if err != nil {
		return nil, err
	}
	object, err := store.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("upload: the bytes of upload %d are missing in the storage: %w", row.ID, err)
	}
	return object, err
}

// OpenThumbnail opens a file's thumbnail, of the type ThumbnailType, for its owner or an
// ADMIN. It returns the errors of Find, ErrNoUpload also while there is none, and
// blob.ErrUnavailable.
func (s *Service) OpenThumbnail(ctx context.Context, id int64) (Content, error) {
	finding, cancel := briefly(ctx)
	defer cancel()
	row, err := s.find(finding, id)
	if err != nil {
		return Content{}, err
	}
	if row.ThumbnailKey == nil {
		return Content{}, ErrNoUpload
	}
	object, err := s.open(ctx, row, *row.ThumbnailKey)
	if err != nil {
		return Content{}, err
	}
	return Content{fromRow(row), object}, nil
}
