package upload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// leastTime and leastRate (bytes per second) say how long a transfer may take.
	leastTime = time.Hour
	leastRate = 64 << 10
	// margin is what a pending row outlives its transfer by.
	margin = 10 * time.Minute
)

// transferTime is how long a file of that size may take to come.
func transferTime(size int64) time.Duration {
	return max(leastTime, time.Duration(size/leastRate)*time.Second)
}

// File is what a sender says of a file.
type File struct {
	Filename    string // cleaned by CleanFilename
	ContentType string // "" for nothing
	// Expected is how many bytes come, as far as the request says; -1 when it doesn't.
	// It is what is reserved of the quota, and nothing else depends on it.
	Expected int64
	// Settle is called when the bytes are durable, with their SHA-256, before the file
	// is: it is made under the context that Settle returns, alone, or not at all if that
	// returns an error. Nil for nothing.
	Settle func(ctx context.Context, sum []byte) (context.Context, error)
}

// Create stores what r gives as a file of the acting account, and returns it once it
// is durable. No connection to the database is held while the bytes come. Errors of r
// are returned as they are; Create's own are ErrTooLarge, ErrType, ErrQuota, ErrSlow,
// ErrLost, blob.ErrUnavailable and fairqueue.ErrBusy. After an error nothing is left,
// unless the process or the database dies, when Sweep finds it.
func (s *Service) Create(ctx context.Context, f File, r io.Reader) (Upload, error) {
	owner := identity.FromContext(ctx).UserID
	leave, err := s.places.take(owner)
	if err != nil {
		return Upload{}, err
	}
	defer leave()
	if f.Expected > s.o.Limit {
		return Upload{}, ErrTooLarge
	}
	most := transferTime(s.o.Limit)
	transfer, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	in := newIntake(transfer, r, s.o.Limit)
	if err := in.peek(); err != nil {
		return Upload{}, err
	}
	peeked := in.head
	contentType, err := s.types.resolve(f.ContentType, peeked)
	if err != nil {
		return Upload{}, err
	}
	row, err := s.begin(ctx, beginning{
		owner: owner, filename: CleanFilename(f.Filename), contentType: contentType, held: s.held(f.Expected), lives: most + margin,
	})
	if err != nil {
		return Upload{}, err
	}
	if IsRaster(contentType) {
		in.head = append(make([]byte, 0, dimensionsWithin), peeked...)
	}
	u, err := s.fill(ctx, in, row, io.MultiReader(bytes.NewReader(peeked), in), f.Settle)
	if err != nil {
		s.abandon(ctx, row, err)
	}
	return u, err
}

// held is what is reserved for a file of which so many bytes are expected.
func (s *Service) held(expected int64) int64 {
	if expected < 0 {
		return min(s.o.Limit, s.o.Quota)
	}
	return min(expected, s.o.Limit)
}

// beginning is what a pending row begins with.
type beginning struct {
	owner                 int64
	filename, contentType string
	held                  int64
	lives                 time.Duration
	staged                bool // its bytes come by a signed address
	sha256                []byte
}

// begin writes a pending row and reserves a part of the quota, in one statement. It
// doesn't wait for the commit to be durable unless the bytes come by a signed address:
// if the database loses the row, the bytes have none, and Finish refuses to make it
// ready.
func (s *Service) begin(ctx context.Context, b beginning) (dbsqlc.Upload, error) {
	params := dbsqlc.BeginUploadParams{
		OwnerID: b.owner, Filename: b.filename, ContentType: b.contentType, Held: b.held, Quota: s.o.Quota, Sha256: b.sha256,
		Backend: s.o.Store.Name(), Now: s.o.Now(), ExpiresAt: new(s.o.Now().Add(b.lives)), Durable: b.staged,
	}
	var err error
	if params.Key, err = s.newKey(areaFiles); err != nil {
		return dbsqlc.Upload{}, err
	}
	if b.staged {
		staging, err := s.newKey(areaStaged)
		if err != nil {
			return dbsqlc.Upload{}, err
		}
		params.StagingKey, params.Size = &staging, b.held
	}
	var row dbsqlc.Upload
	if b.staged { // alone, for its commit is waited for
		alone, cancel := briefly(ctx)
		defer cancel()
		row, err = s.queries.BeginUpload(alone, s.o.DB.Single(identity.FromContext(ctx)), params)
		err = db.NotFound(err, ErrQuota)
	} else {
		row, err = submit(ctx, s.shared.begins, beginShared{identity.FromContext(ctx), params})
	}
	if err != nil {
		return dbsqlc.Upload{}, err
	}
	return row, s.interrupted(Begun)
}

// interrupted is the crash that a test wants at b.
func (s *Service) interrupted(b Boundary) error {
	if err := s.o.Interrupt(b); err != nil {
		return &crash{err}
	}
	return nil
}

// crash is an error after which nothing is put right, as if the process were gone.
type crash struct{ err error }

func (c *crash) Error() string { return c.err.Error() }
func (c *crash) Unwrap() error { return c.err }

// fill stores the bytes and makes the row ready.
func (s *Service) fill(ctx context.Context, in *intake, row dbsqlc.Upload, r io.Reader, settle func(context.Context, []byte) (context.Context, error)) (Upload, error) {
	size, err := s.o.Store.Put(in.ctx, row.Key, row.ContentType, r)
	if in.failed != nil { // whatever the store makes of it
		return Upload{}, in.failed
	}
	if err != nil {
		return Upload{}, err
	}
	if size != in.size {
		return Upload{}, errors.New("upload: the store has another number of bytes than were sent")
	}
	if err := s.interrupted(Stored); err != nil {
		return Upload{}, err
	}
	facts := facts{contentType: row.ContentType, size: size, sha256: in.sum.Sum(nil)}
	if IsRaster(row.ContentType) {
		facts.width, facts.height = dimensions(ctx, s.o.Store, row.Key, size, in.head)
	}
	if settle == nil {
		return s.finish(ctx, row, facts, s.finishShared)
	}
	if ctx, err = settle(ctx, facts.sha256); err != nil {
		return Upload{}, err
	}
	return s.finish(ctx, row, facts, s.finishAlone)
}

// facts are what is known of bytes that are durable.
type facts struct {
	contentType   string
	size          int64
	sha256        []byte
	width, height int // 0 for none
}

// finish makes a pending row ready by write. It returns ErrLost when the row is gone.
func (s *Service) finish(ctx context.Context, row dbsqlc.Upload, f facts, write func(context.Context, finishShared) (dbsqlc.Upload, error)) (Upload, error) {
	ctx, cancel := briefly(ctx)
	defer cancel()
	p := identity.FromContext(ctx)
	if f.size != row.Held {
		n, err := s.queries.SettleUpload(ctx, s.o.DB.Single(p), dbsqlc.SettleUploadParams{ID: row.ID, Key: row.Key, Size: f.size, Quota: s.o.Quota})
		if err != nil {
			return Upload{}, db.Translate(err)
		}
		if n == 0 && f.size > row.Held {
			return Upload{}, ErrQuota
		}
	}
	params := dbsqlc.FinishUploadParams{ID: row.ID, Key: row.Key, ContentType: f.contentType, Size: f.size, Sha256: f.sha256, Now: s.o.Now()}
	if f.width > 0 && f.height > 0 {
		params.Width, params.Height = new(int32(f.width)), new(int32(f.height))
	}
	ready, err := write(ctx, finishShared{p, params})
	if err != nil {
		return Upload{}, err
	}
	return fromRow(ready), s.interrupted(Finished)
}

// abandon removes what is left of a transfer that failed with err, unless nobody can
// say whether its row is ready. What it can't remove now, Sweep does.
func (s *Service) abandon(ctx context.Context, row dbsqlc.Upload, err error) {
	if _, gone := errors.AsType[*crash](err); gone || db.IsUnknownOutcome(err) {
		return
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	// The row first: once it is gone, nothing makes it ready.
	n, failed := s.queries.AbandonUpload(ctx, s.o.DB.Single(identity.FromContext(ctx)), row.ID, row.Key)
	lost := errors.Is(err, ErrLost)
	if failed == nil && (n > 0 || lost) && !errors.Is(err, blob.ErrUnavailable) { // the store removed what it could
		failed = s.o.Store.Delete(ctx, row.Key)
	}
	if failed != nil {
		s.o.Logger.WarnContext(ctx, "what a failed upload left stays until the sweep", "upload", row.ID, "error", failed)
	}
}
