// Package blob keeps bytes under keys that the service makes: in a directory
// (Local) or in a bucket of an S3-compatible server (S3). It knows nothing of who
// owns the bytes; package blobtest holds every store to the same promises.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"time"

	"github.com/waypost/waypost/internal/fault"
)

// The errors that callers tell apart.
var (
	// ErrNotFound says that no object has that key.
	ErrNotFound = errors.New("blob: no such object")
	// ErrUnavailable says that the backend is away, slow, full or refuses our
	// credentials: 503 for clients, the cause is for the log.
	ErrUnavailable = fault.New(fault.Unavailable, "storage_unavailable", "File storage is unavailable. Try again later.").After(retryAfter)
	// ErrNotSupported is what PresignPut of a store without signed addresses returns.
	ErrNotSupported = errors.New("blob: the store has no signed addresses")
	// ErrBadKey says that a key breaks the rule of CheckKey: a defect of the caller.
	ErrBadKey = errors.New("blob: bad key")
)

// retryAfter is when clients may ask again while the backend is away.
const retryAfter = 5 * time.Second

// Info is what a listing tells of an object.
type Info struct {
	Key        string
	Size       int64 // bytes
	ModifiedAt time.Time
}

// Object is an object that was opened. It reads lazily, from where the last Seek
// led; Seek itself costs nothing. A Read fails with ErrUnavailable when the backend
// goes away, and never ends early without an error. It lives as long as the context
// of Open, and is for one goroutine.
type Object interface {
	io.ReadSeekCloser
	Size() int64 // bytes
	ModifiedAt() time.Time
}

// Store keeps objects. Every method returns ErrUnavailable when the backend can't do
// its work, ErrBadKey for a key that CheckKey refuses, and ctx's error when ctx ends.
// All methods may be called at once.
type Store interface {
	// Name is "local" or "s3" (or "none"). It is kept in rows, so that a process with
	// another configuration never serves wrong bytes.
	Name() string
	// Put stores everything that r gives under key, in the place of what was there,
	// and returns its length in bytes once it is durable. After an error, r's own
	// included (errors.Is finds it), what was there before is still there, nothing of
	// r is ever visible under key, and nothing is left behind as far as the process
	// lives and reaches the backend. A crash may leave a new key of which nobody was
	// told, so only a key whose Put returned is to be believed. Memory is constant.
	Put(ctx context.Context, key, contentType string, r io.Reader) (int64, error)
	// Open opens an object, or returns ErrNotFound.
	Open(ctx context.Context, key string) (Object, error)
	// Stat tells of an object, or returns ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// Move gives an object another key, durably, in the place of what was there; or it
	// returns ErrNotFound. After a crash in the middle the object may have both keys
	// (S3), but never none.
	Move(ctx context.Context, from, to string) error
	// Delete removes an object. That there is none is no error.
	Delete(ctx context.Context, key string) error
	// List gives the objects whose keys begin with prefix, ordered by key, and ends
	// at the first error. An object that comes or goes meanwhile may be in it or not;
	// half-written ones are never. Memory doesn't grow with the number of objects,
	// if keys are spread as by Key.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// SweepIncomplete removes what processes that died left half-written before that
	// time (temporary files, multipart uploads), and returns how many.
	SweepIncomplete(ctx context.Context, before time.Time) (int, error)
	// PresignPut returns a request that stores an object, and that anybody may send
	// until it expires. Stores without signed addresses return ErrNotSupported.
	PresignPut(ctx context.Context, key string, p PutTerms) (Request, error)
	// Check tells what is wrong with the backend now, in a sentence for operators.
	Check(ctx context.Context) error
}

// PutTerms are what a presigned request must keep to; the backend refuses any other.
type PutTerms struct {
	ContentType string
	Size        int64         // bytes
	SHA256      []byte        // nil when it is not known
	Expires     time.Duration // at most 7 days
}

// Request is an HTTP request for somebody else to send, with every header of Header.
type Request struct {
	Method, URL string
	Header      http.Header
	ExpiresAt   time.Time
}

// maxKey is the longest key in bytes.
const maxKey = 200

var keyForm = regexp.MustCompile(`^[a-z0-9_-]+(/[a-z0-9_-]+)*$`)

// CheckKey returns an error that wraps ErrBadKey unless key is 1 to 200 bytes of
// [a-z0-9_-], in segments between single slashes. No key may be the beginning of
// another one up to a slash: "a" and "a/b" can't both be files.
func CheckKey(key string) error {
	if len(key) > maxKey || !keyForm.MatchString(key) {
		return fmt.Errorf("%w %.220q", ErrBadKey, key)
	}
	return nil
}

// Key is a key below area for a name that begins evenly spread, such as a random
// number in hexadecimal: Key("u", "3f9c...") is "u/3f/3f9c...". Objects are so
// spread over 256 directories. The name has 2 characters or more.
func Key(area, name string) string { return area + "/" + name[:2] + "/" + name }
