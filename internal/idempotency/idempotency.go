// Package idempotency makes requests that create something safe to repeat: who sends the
// same request with the same key again, within Life, gets the answer that was given, and
// nothing is done twice. The answer is stored by the very transaction that did the work,
// so that no crash separates them.
//
// The field's name is the header of draft-ietf-httpapi-idempotency-key-header.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
)

// Life is for how long an answer is kept.
const Life = 24 * time.Hour

// SealPurpose names the keys that answers are sealed with.
const SealPurpose = "idempotency"

// Faults of requests with a key.
var (
	ErrReused   = fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key was sent with another request. Send a new key with a new request.")
	ErrInFlight = fault.New(fault.Conflict, "idempotency_key_in_flight", "A request with this Idempotency-Key is still running. Retry shortly.").After(time.Second)
	// ErrNotKept has the code of ErrReused.
	ErrNotKept = fault.New(fault.Conflict, "idempotency_key_reused", "The request with this Idempotency-Key succeeded. Its answer had a secret, which is not stored: find what it created, and rotate the secret if you did not receive it.")
)

// ErrRepeated ends work that was done already, whose answer Repeated returns. Clients get
// that answer, never this.
var ErrRepeated = fault.New(fault.Conflict, "idempotency_key_reused", "This request was carried out before.")

// Options configure New. All are mandatory.
type Options struct {
	// DB is the pool whose transactions do the work.
	DB *db.DB
	// BackgroundDB is the pool of Sweep.
	BackgroundDB *db.DB
	Sealer       *seal.Keyring
	// Random gives the nonces of sealed answers.
	Random io.Reader
	// Now is the clock.
	Now    func() time.Time
	Logger *slog.Logger
}

// Store keeps answers by caller, operation and key.
type Store struct {
	o       Options
	queries dbsqlc.Queries
}

// New makes a store.
func New(o Options) (*Store, error) {
	if o.DB == nil || o.BackgroundDB == nil || o.Sealer == nil || o.Random == nil || o.Now == nil || o.Logger == nil {
		return nil, errors.New("idempotency: an option is missing")
	}
	return &Store{o: o}, nil
}

// Answer is what a client gets.
type Answer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// Attempt is one request with a key. It is for one goroutine; somebody must call Close.
type Attempt struct {
	s         *Store
	p         identity.Principal
	operation string
	key       [sha256.Size]byte
	request   [sha256.Size]byte
	enclosure *db.Enclosure
	repeated  *Answer
	refused   error
}

// Begin prepares a request of p's account for that operation, with a key that was checked.
func (s *Store) Begin(p identity.Principal, operation, key string) *Attempt {
	a := &Attempt{s: s, p: p, operation: operation, key: sha256.Sum256([]byte(key))}
	a.enclosure = s.o.DB.Enclose(p, a.enter)
	return a
}

// Find says what the request is, by the SHA-256 of all that it asks for, and returns its
// answer if there is one: then there is nothing to be done. It returns ErrReused and
// ErrNotKept.
func (a *Attempt) Find(ctx context.Context, request [sha256.Size]byte) (*Answer, error) {
	a.request = request
	found, err := a.find(ctx, a.s.o.DB.Direct())
	if err != nil {
		return nil, err
	}
	a.repeated = found
	return found, nil
}

// Context returns a context under which the work becomes durable together with its
// answer. Find comes first. The first transaction under it may return ErrInFlight, or
// what Found and Refused tell.
func (a *Attempt) Context(ctx context.Context) context.Context { return a.enclosure.Context(ctx) }

// Repeated returns the answer that was found, also if it was found only when the work was
// to begin, because another request with the key was faster. Nil for none.
func (a *Attempt) Repeated() *Answer { return a.repeated }

// Refused returns why the work was not begun: ErrInFlight, ErrReused, ErrNotKept. Nil if it
// was.
func (a *Attempt) Refused() error { return a.refused }

// Keep commits the work with its answer; secret says that the answer is not to be stored,
// only that there was one. After an error nothing was done, unless db.IsUnknownOutcome.
func (a *Attempt) Keep(ctx context.Context, answer Answer, secret bool) error {
	err := a.enclosure.Commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now := a.s.o.Now()
		row := dbsqlc.StoreIdempotencyKeyParams{
			UserID: a.p.UserID, Operation: a.operation, KeyHash: a.key[:], RequestHash: a.request[:], CreatedAt: now, Since: now.Add(-Life),
		}
		if !secret {
			plain, err := json.Marshal(answer)
			if err != nil {
				return fmt.Errorf("idempotency: answer: %w", err)
			}
			sealed, err := a.s.o.Sealer.Seal(plain, a.name(), a.s.o.Random)
			if err != nil {
				return err
			}
			row.Answer, row.SealedBy = sealed.Box, &sealed.KeyID
		}
		n, err := a.s.queries.StoreIdempotencyKey(ctx, tx, row)
		if err == nil && n == 0 {
			return errors.New("idempotency: an answer appeared under the lock of its key")
		}
		return err
	})
	if a.repeated != nil || a.refused != nil { // it began only now, and too late
		return a.refused
	}
	return err
}

// Close undoes what was not kept.
func (a *Attempt) Close() { a.enclosure.Close() }

// enter is the beginning of the transaction. The lock ends with it, however the process
// ends; who waits behind nobody is told to come again.
func (a *Attempt) enter(ctx context.Context, tx pgx.Tx) error {
	locked, err := a.s.queries.TryIdempotencyLock(ctx, tx, lockClass, a.lock())
	if err != nil {
		return err
	}
	if !locked {
		a.refused = ErrInFlight
		return a.refused
	}
	found, err := a.find(ctx, tx) // by a statement that began when the lock was held
	if fault.KindOf(err) == fault.Conflict {
		a.refused = err
	}
	if err == nil && found != nil {
		a.repeated = found
		err = ErrRepeated
	}
	return err
}

// lockClass is the first half of the advisory locks of keys.
const lockClass = 0x1de47

// lock is the second half. Two keys that share one only wait for each other.
func (a *Attempt) lock() int32 {
	sum := sha256.Sum256([]byte(a.name()))
	return int32(binary.BigEndian.Uint32(sum[:4]))
}

// name is what no other request of anybody has, but with the same key.
func (a *Attempt) name() string {
	return strconv.FormatInt(a.p.UserID, 10) + "/" + a.operation + "/" + hex.EncodeToString(a.key[:])
}

// find returns the stored answer, or nil, or ErrReused or ErrNotKept.
func (a *Attempt) find(ctx context.Context, from dbsqlc.DBTX) (*Answer, error) {
	row, err := a.s.queries.FindIdempotencyKey(ctx, from, dbsqlc.FindIdempotencyKeyParams{
		UserID: a.p.UserID, Operation: a.operation, KeyHash: a.key[:], Since: a.s.o.Now().Add(-Life),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, db.Translate(err)
	case [sha256.Size]byte(row.RequestHash) != a.request:
		return nil, ErrReused
	case row.SealedBy == nil:
		return nil, ErrNotKept
	}
	plain, err := a.s.o.Sealer.Open(seal.Sealed{KeyID: *row.SealedBy, Box: row.Answer}, a.name())
	if err != nil {
		a.s.o.Logger.WarnContext(ctx, "an answer kept for an Idempotency-Key can't be decrypted", "operation", a.operation, "error", err)
		return nil, ErrNotKept.Because(err)
	}
	var answer Answer
	if err := json.Unmarshal(plain, &answer); err != nil {
		return nil, fmt.Errorf("idempotency: stored answer: %w", err)
	}
	return &answer, nil
}

// sweptAtOnce bounds one transaction of Sweep.
const sweptAtOnce = 1000

// Sweep deletes the answers that are older than Life, and returns their number.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	var total int
	for {
		n, err := s.queries.DeleteIdempotencyKeys(ctx, s.o.BackgroundDB.Single(identity.Step(ctx, "sweep-idempotency-keys")), s.o.Now().Add(-Life), sweptAtOnce)
		total += int(n)
		if err != nil || n < sweptAtOnce {
			return total, db.Translate(err)
		}
	}
}
