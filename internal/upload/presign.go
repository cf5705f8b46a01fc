package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// presignTime is how long a signed address is good.
const presignTime = time.Hour

// Announced is what a client says of a file that it will send to a signed address.
type Announced struct {
	Filename    string
	ContentType string
	Size        int64  // bytes
	SHA256      []byte // nil when it isn't known
}

// Presigned is a pending file and the request that sends its bytes.
type Presigned struct {
	Upload  Upload
	Request blob.Request
}

// Presign begins a file whose bytes go to a signed address: the store's own, or this
// service's where the store has none. It returns ErrTooLarge, ErrType, ErrQuota,
// blob.ErrUnavailable and validation faults.
func (s *Service) Presign(ctx context.Context, a Announced) (Presigned, error) {
	filename, err := checkFilename(a.Filename)
	if err != nil {
		return Presigned{}, err
	}
	if a.SHA256 != nil && len(a.SHA256) != sha256.Size {
		return Presigned{}, fault.Validation(map[string]string{"sha256": "Must be 64 hexadecimal digits."})
	}
	contentType := bare(a.ContentType)
	switch {
	case a.Size > s.o.Limit:
		return Presigned{}, ErrTooLarge
	case !s.types.allows(contentType):
		return Presigned{}, ErrType
	}
	row, err := s.begin(ctx, beginning{
		owner: identity.FromContext(ctx).UserID, filename: filename, contentType: contentType, held: a.Size, staged: true, sha256: a.SHA256,
		lives: presignTime + transferTime(s.o.Limit) + margin,
	})
	if err != nil {
		return Presigned{}, err
	}
	request, err := s.o.Store.PresignPut(ctx, *row.StagingKey, blob.PutTerms{ContentType: contentType, Size: a.Size, SHA256: a.SHA256, Expires: presignTime})
	if errors.Is(err, blob.ErrNotSupported) {
		request, err = s.ownRequest(row), nil
	}
	if err != nil {
		s.abandon(ctx, row, err)
		return Presigned{}, err
	}
	return Presigned{Upload: fromRow(row), Request: request}, nil
}

// ownRequest is a request to this service, for PutStaged.
func (s *Service) ownRequest(row dbsqlc.Upload) blob.Request {
	expires := s.o.Now().Add(presignTime).Truncate(time.Second).UTC()
	h := http.Header{}
	h.Set("Content-Type", row.ContentType)
	h.Set("Content-Length", strconv.FormatInt(row.Size, 10))
	return blob.Request{
		Method: http.MethodPut, Header: h, ExpiresAt: expires,
		URL: s.contentURL(row.ID) + "?ticket=" + s.signer.sign(ticket{id: row.ID, purpose: forWriting, expires: expires}),
	}
}

// PutStaged stores what r gives where Complete will look for it. contentType and size
// are what the request says of it; -1 for nothing. It returns ErrLink, also once the
// file is complete, ErrMismatch, errors of r, ErrSlow, blob.ErrUnavailable and
// fairqueue.ErrBusy.
func (s *Service) PutStaged(ctx context.Context, id int64, signed, contentType string, size int64, r io.Reader) error {
	if _, err := s.signer.open(signed, forWriting, id, s.o.Now()); err != nil {
		return err
	}
	row, err := s.queries.FindUpload(ctx, s.o.DB.Direct(), id, true, 0)
	if err != nil {
		return db.NotFound(err, ErrLink)
	}
	store, err := s.storeOf(row.Backend)
	switch {
	case row.StagingKey == nil:
		return ErrLink // complete
	case err != nil:
		return err
	case size != row.Size || bare(contentType) != row.ContentType:
		return ErrMismatch
	}
	leave, err := s.places.take(row.OwnerID)
	if err != nil {
		return err
	}
	defer leave()
	transfer, cancel := context.WithTimeout(ctx, transferTime(s.o.Limit))
	defer cancel()
	in := newIntake(transfer, r, row.Size)
	stored, err := store.Put(transfer, *row.StagingKey, row.ContentType, in)
	switch {
	case errors.Is(in.failed, ErrTooLarge):
		return ErrMismatch
	case in.failed != nil:
		return in.failed
	case err == nil && stored != row.Size:
		return ErrMismatch // and Complete says so too
	}
	return err
}

const (
	// claimTime is how long one caller may look at bytes; a dead one's claim ends then.
	claimTime = 10 * time.Minute
	// claimWait is how long another waits for it, claimPoll how often it looks.
	claimWait = 20 * time.Second
	claimPoll = 100 * time.Millisecond
)

var errClaimed = fault.New(fault.Unavailable, fault.CodeUnavailable, "Another request is completing this file. Retry shortly.").After(2 * time.Second)

// Complete takes over what was sent to a signed address, for the file's owner or an
// ADMIN. Bytes are first moved to where the address doesn't reach, so that what is
// looked at is what is kept. A file that is ready is returned as it is. It returns the
// errors of Find, ErrIncomplete, ErrMismatch, ErrLost and blob.ErrUnavailable; after
// these, the file can be sent and completed again until its address expires.
func (s *Service) Complete(ctx context.Context, id int64) (Upload, error) {
	deadline := s.o.Now().Add(claimWait)
	for {
		row, err := s.find(ctx, id)
		switch {
		case err != nil:
			return Upload{}, err
		case Status(row.Status) == Ready:
			return fromRow(row), nil
		case row.StagingKey == nil: // its bytes come in another way
			return Upload{}, ErrIncomplete
		}
		store, err := s.storeOf(row.Backend)
		if err != nil {
			return Upload{}, err
		}
		claimed, former, err := s.claim(ctx, row)
		if err == nil {
			return s.takeOver(ctx, store, claimed, former)
		}
		if !errors.Is(err, errClaimed) || s.o.Now().After(deadline) {
			return Upload{}, err
		}
		select {
		case <-ctx.Done():
			return Upload{}, ctx.Err()
		case <-time.After(claimPoll):
		}
	}
}

// claim makes this caller the only one that looks at a row's bytes, under a key of its
// own: one that was given up and comes to life again can't change them.
func (s *Service) claim(ctx context.Context, row dbsqlc.Upload) (dbsqlc.Upload, string, error) {
	key, err := s.newKey(areaFiles)
	if err != nil {
		return row, "", err
	}
	now := s.o.Now()
	claimed, err := s.queries.ClaimUpload(ctx, s.o.DB.Single(identity.FromContext(ctx)), dbsqlc.ClaimUploadParams{
		ID: row.ID, OwnerID: row.OwnerID, Key: key, Now: &now, ClaimedUntil: new(now.Add(claimTime)),
	})
	if err != nil {
		return row, "", db.NotFound(err, errClaimed)
	}
	return claimed.Upload, claimed.FormerKey, s.interrupted(Claimed)
}

// takeOver moves the bytes, looks at them and makes the row ready. former is where an
// earlier claimant may have left them.
func (s *Service) takeOver(ctx context.Context, store blob.Store, row dbsqlc.Upload, former string) (Upload, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime*9/10)
	defer cancel()
	u, err := s.takeOverIn(ctx, store, row, former)
	if _, gone := errors.AsType[*crash](err); err == nil || gone || db.IsUnknownOutcome(err) {
		return u, err
	}
	ctx, cancel = afterwards(ctx)
	defer cancel()
	if _, failed := s.queries.ReleaseUpload(ctx, s.o.DB.Single(identity.FromContext(ctx)), row.ID, row.Key); failed != nil {
		s.o.Logger.WarnContext(ctx, "a claim on an upload stays until it expires", "upload", row.ID, "error", failed)
	}
	return u, err
}

func (s *Service) takeOverIn(ctx context.Context, store blob.Store, row dbsqlc.Upload, former string) (Upload, error) {
	err := store.Move(ctx, *row.StagingKey, row.Key)
	if errors.Is(err, blob.ErrNotFound) {
		err = store.Move(ctx, former, row.Key)
	}
	if errors.Is(err, blob.ErrNotFound) {
		return Upload{}, ErrIncomplete
	}
	if err != nil {
		return Upload{}, err
	}
	if err := s.interrupted(Moved); err != nil {
		return Upload{}, err
	}
	found, err := s.inspect(ctx, store, row)
	if errors.Is(err, ErrMismatch) || errors.Is(err, ErrType) {
		if failed := store.Delete(ctx, row.Key); failed != nil {
			s.o.Logger.WarnContext(ctx, "bytes that were refused stay until the sweep", "upload", row.ID, "error", failed)
		}
	}
	if err != nil {
		return Upload{}, err
	}
	return s.finish(ctx, row, found, s.finishShared)
}

// inspect reads the bytes of a claimed row and holds them against what was announced.
func (s *Service) inspect(ctx context.Context, store blob.Store, row dbsqlc.Upload) (facts, error) {
	object, err := store.Open(ctx, row.Key)
	if err != nil {
		return facts{}, fmt.Errorf("upload: what was moved for upload %d: %w", row.ID, err)
	}
	defer object.Close()
	if object.Size() != row.Size {
		return facts{}, ErrMismatch
	}
	in := newIntake(ctx, object, row.Size)
	in.head = make([]byte, 0, dimensionsWithin)
	if _, err := io.Copy(io.Discard, in); err != nil {
		return facts{}, err
	}
	sum := in.sum.Sum(nil)
	contentType, err := s.types.resolve(row.ContentType, in.head[:min(len(in.head), sniffed)])
	if err != nil || contentType != row.ContentType || in.size != row.Size || row.Sha256 != nil && !bytes.Equal(sum, row.Sha256) {
		return facts{}, ErrMismatch
	}
	f := facts{contentType: contentType, size: in.size, sha256: sum}
	if IsRaster(contentType) {
		f.width, f.height = dimensions(ctx, store, row.Key, in.size, in.head)
	}
	return f, nil
}

// Headers are a request's, by name, for clients that set them one by one.
func Headers(r blob.Request) map[string]string {
	all := make(map[string]string, len(r.Header))
	for name, values := range r.Header {
		all[name] = strings.Join(slices.Clone(values), ", ")
	}
	return all
}
