// Package upload keeps files of accounts: their rows in the database, their bytes in
// a blob.Store.
//
// A row is written before the bytes come, and becomes ready only once they are
// durable; only ready rows are served. Everything that a crash can leave behind is
// therefore a pending row or bytes without a row, and Sweep removes both. A deletion
// removes the row first, and the bytes by a job of the same transaction.
package upload

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/queue"
)

// Faults of this domain.
var (
	ErrNoUpload = fault.Missing("file")
	// ErrTokenScope is what an ADMIN's API token without scope admin gets for others' files.
	ErrTokenScope = fault.New(fault.Forbidden, fault.CodeForbidden, "This API token's scopes do not allow this.")
	// ErrNotAdmin is for who asks for another account's list.
	ErrNotAdmin = fault.New(fault.Forbidden, fault.CodeForbidden, "Only an ADMIN may list other people's files.")
	// ErrTooLarge says that the file passed the limit.
	ErrTooLarge = fault.New(fault.TooLarge, "file_too_large", "The file is larger than this service takes.")
	// ErrType says that the file's content is of no type that is allowed.
	ErrType = fault.New(fault.UnsupportedMedia, "unsupported_type", "Files of this type are not accepted; the type is found by looking at the content.")
	// ErrQuota says that the account's files would take more than it may have.
	ErrQuota = fault.New(fault.Invalid, "quota_exceeded", "Your files would take more space than you have; delete some first.")
	// ErrLink says that a link is forged or spent.
	ErrLink = fault.New(fault.Forbidden, "link_invalid", "This link is invalid or has expired.")
	// ErrIncomplete says that nothing was sent to the signed address yet.
	ErrIncomplete = fault.New(fault.Invalid, "upload_incomplete", "No file was sent to the signed URL yet.")
	// ErrMismatch says that what was sent is not what was announced.
	ErrMismatch = fault.New(fault.Invalid, "upload_mismatch", "The file differs from what was announced, in size, type or checksum.")
	// ErrBackend says that the bytes are in a store that this process doesn't have.
	ErrBackend = blob.ErrUnavailable.Because(errors.New("upload: the file is in a storage that is not configured here"))
	// ErrLost says that the row of a file that was being sent is gone: deleted by its
	// owner, or lost by a database that crashed.
	ErrLost = fault.New(fault.Unavailable, fault.CodeUnavailable, "The upload was interrupted. Send the file again.").After(time.Second)
	// ErrSlow says that a file took longer than any may.
	ErrSlow = fault.New(fault.Timeout, fault.CodeRequestTimeout, "The file did not arrive in time.")
)

// Status says whether the bytes are there.
type Status string

// The statuses.
const (
	Pending Status = "pending"
	Ready   Status = "ready"
)

// Boundary is a point of a pipeline at which a test can end the work, as a crash would.
type Boundary string

// The boundaries: of a file that is sent, in their order, then of one that came by a
// signed address.
const (
	Begun    Boundary = "begun"    // there is a pending row
	Stored   Boundary = "stored"   // the bytes are durable
	Finished Boundary = "finished" // the row is ready
	Claimed  Boundary = "claimed"  // nobody else looks at the bytes
	Moved    Boundary = "moved"    // they are where the signed address doesn't reach
)

// Options configure New. DB, Store, Jobs, SecretKey, Limit and Quota are mandatory.
type Options struct {
	// DB answers requests, BackgroundDB does the jobs' work; DB by default.
	DB, BackgroundDB *db.DB
	// Store takes new files. Stores are all that are configured, by their names, so that
	// files in another one stay readable; nil for Store alone.
	Store  blob.Store
	Stores map[string]blob.Store
	Jobs   Jobs
	// Limit is the most bytes that a file has, Quota those that all files of an account
	// have together.
	Limit, Quota int64
	// Types are the media types that are accepted; DefaultTypes when empty. HTML and SVG
	// never are.
	Types []string
	// BaseURL is the service's own, without a trailing slash.
	BaseURL string
	// SecretKey gives the key that links are signed with; those of PreviousSecretKey are
	// still good.
	SecretKey, PreviousSecretKey []byte
	// Places is how many files are received at once, PlacesEach how many of one account;
	// 256 and 64 by default.
	Places, PlacesEach int
	Logger             *slog.Logger
	Now                func() time.Time
	Random             io.Reader
	// Interrupt is called at every Boundary; an error ends the work there. For tests.
	Interrupt func(Boundary) error
}

// Jobs inserts jobs into a transaction, as *queue.Queue does.
type Jobs interface {
	InsertMany(ctx context.Context, tx pgx.Tx, entries []queue.Entry) ([]int64, error)
}

func (o Options) validate() error {
	switch {
	case o.DB == nil, o.Store == nil, o.Jobs == nil:
		return errors.New("upload: Options.DB, Store or Jobs is missing")
	case o.Limit < 1 || o.Quota < 1:
		return errors.New("upload: Options.Limit and Quota must be positive")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.BackgroundDB = cmp.Or(o.BackgroundDB, o.DB)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Places, o.PlacesEach = cmp.Or(o.Places, 256), cmp.Or(o.PlacesEach, 64)
	o.Stores = maps.Clone(o.Stores)
	if o.Stores == nil {
		o.Stores = map[string]blob.Store{o.Store.Name(): o.Store}
	}
	if len(o.Types) == 0 {
		o.Types = DefaultTypes()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary) error { return nil }
	}
	return o
}

// Service keeps files. It is safe for concurrent use.
type Service struct {
	o        Options
	queries  dbsqlc.Queries
	types    types
	signer   signer
	places   *places
	shared   shared
	area     string // the beginning of all keys of this installation
	database string // what tells this database from copies of it
}

// New makes the service. It reads from the database which installation this is.
func New(ctx context.Context, o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Service{o: o, types: newTypes(o.Types), places: newPlaces(o.Places, o.PlacesEach)}
	var err error
	if s.signer, err = newSigner(o.SecretKey, o.PreviousSecretKey); err != nil {
		return nil, err
	}
	own, err := s.queries.FindStorageIdentity(ctx, o.DB.Direct())
	if err != nil {
		return nil, fmt.Errorf("upload: %w", db.Translate(err))
	}
	s.share()
	s.area, s.database = "w"+strings.ReplaceAll(own.InstallID.String(), "-", ""), own.Database
	return s, nil
}

// storeOf returns the store that a row names, or ErrBackend.
func (s *Service) storeOf(backend string) (blob.Store, error) {
	if store, ok := s.o.Stores[backend]; ok {
		return store, nil
	}
	return nil, ErrBackend
}

// Areas of keys below the installation's own.
const (
	areaFiles      = "u" // of rows, ready or about to be
	areaStaged     = "p" // where signed addresses write
	areaThumbnails = "t"
)

// newKey makes a key that nobody can guess, and that says nothing of the file.
func (s *Service) newKey(area string) (string, error) {
	random := make([]byte, 16)
	if _, err := io.ReadFull(s.o.Random, random); err != nil {
		return "", fmt.Errorf("upload: key: %w", err)
	}
	return blob.Key(s.area+"/"+area, hex.EncodeToString(random)), nil
}

// Upload is a file of an account.
type Upload struct {
	ID          int64
	OwnerID     int64
	Filename    string
	ContentType string
	Size        int64  // bytes
	SHA256      []byte // nil while it is pending and nobody said it
	Status      Status
	// Width and Height are an image's, in pixels as they are stored; 0 of what is none,
	// or can't be read.
	Width, Height int
	// ThumbnailType is the thumbnail's media type, "" while there is none.
	ThumbnailType string
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func fromRow(r dbsqlc.Upload) Upload {
	u := Upload{
		ID: r.ID, OwnerID: r.OwnerID, Filename: r.Filename, ContentType: r.ContentType, Size: r.Size, SHA256: r.Sha256, Status: Status(r.Status),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Width != nil && r.Height != nil {
		u.Width, u.Height = int(*r.Width), int(*r.Height)
	}
	if r.ThumbnailType != nil {
		u.ThumbnailType = *r.ThumbnailType
	}
	return u
}

// statementTime bounds one statement of work whose context has no deadline, because
// bytes come and go meanwhile.
const statementTime = 15 * time.Second

// briefly is ctx for one statement.
func briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, statementTime)
}

// afterwards is ctx for what has to be put right although the client is gone.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return briefly(context.WithoutCancel(ctx))
}

// mayAll reports whether p may see and change everybody's files.
func mayAll(p identity.Principal) bool { return p.Operates() || p.Administers() }

// missing is what p is told who has no such file of its own. It says nothing of what
// others have.
func missing(p identity.Principal) error {
	if p.Is(identity.Admin) && !mayAll(p) {
		return ErrTokenScope
	}
	return ErrNoUpload
}
