// Package audit is the log of every change of a business table. The database's
// triggers write its entries in the change's own transaction; Seal gives them their
// places in a chain of hashes afterwards. Checkpoints are signed over a Merkle tree of
// the chain, so that whoever keeps one can tell later that nothing before it changed.
// docs/audit.md has the layout of the bytes, and says what is proven against whom.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/seal"
)

// Faults of the package.
var (
	// ErrEntry says that there is no such entry.
	ErrEntry = fault.Missing("audit entry")
	// ErrNothing says that nothing is kept of a row.
	ErrNothing = fault.New(fault.NotFound, fault.CodeNotFound, "The audit log has no data of that row to erase.")
	// ErrNoKey says that no key signs checkpoints yet, and that there is no secret key
	// to make one.
	ErrNoKey = fault.New(fault.Conflict, "no_audit_key", "No key signs checkpoints yet; the server makes one when it starts.")
)

// Options configure New. DB is mandatory.
type Options struct {
	// DB answers lists, proofs and verifications that clients ask for.
	DB *db.DB
	// BackgroundDB verifies periodically and signs; DB by default.
	BackgroundDB *db.DB
	// SealDB seals, and waits for nothing else; BackgroundDB by default.
	SealDB *db.DB
	// SecretKey encrypts the key that signs checkpoints. Without it nothing is signed,
	// but all else works. What PreviousSecretKey encrypted is encrypted anew.
	SecretKey, PreviousSecretKey []byte
	// CheckpointFile is a file that each checkpoint is appended to; "" for none.
	CheckpointFile string
	// Retention is the age at which entries are emptied; 0 for never.
	Retention time.Duration
	// Alarm is told of a break in the chain, once for each; nil for nobody. When it
	// returns an error, it is told again at the next verification.
	Alarm  func(ctx context.Context, kind string, bad Bad) error
	Logger *slog.Logger
	Now    func() time.Time
	Random io.Reader
}

func (o Options) validate() error {
	if o.DB == nil {
		return errors.New("audit: no database")
	}
	if o.Retention < 0 {
		return errors.New("audit: the retention is negative")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.BackgroundDB = cmp.Or(o.BackgroundDB, o.DB)
	o.SealDB = cmp.Or(o.SealDB, o.BackgroundDB)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// Service reads, seals and verifies the log. It is safe for concurrent use.
type Service struct {
	o       Options
	queries dbsqlc.Queries
	sealer  *seal.Keyring // nil without a secret key

	// asked is the one place of verifications that clients ask for.
	asked chan struct{}

	keys sync.Mutex
	key  *signingKey // nil until it is needed
}

// New returns the service. It reads nothing.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Service{o: o.withDefaults(), asked: make(chan struct{}, 1)}
	if len(o.SecretKey) == 0 {
		return s, nil
	}
	var err error
	s.sealer, err = seal.New(SealPurpose, o.SecretKey, o.PreviousSecretKey)
	return s, err
}

// sealedAtOnce is how many entries one transaction gives their places.
const sealedAtOnce = 1000

// Seal gives every committed entry its place in the chain, whoever wrote it, and
// returns how many those were. Any number of processes may seal at once.
func (s *Service) Seal(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := s.queries.SealAudit(ctx, s.o.SealDB.Direct(), sealedAtOnce)
		if err != nil {
			return total, fmt.Errorf("audit: seal: %w", db.Translate(err))
		}
		total += int(n)
		if n < sealedAtOnce {
			return total, nil
		}
	}
}

// Note writes an entry about something that is no row, in tx, whose actor acts. The
// table and the row's id may be "". what becomes a JSON object.
func Note(ctx context.Context, tx pgx.Tx, table, rowID string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("audit: note: %w", err)
	}
	if err := dbsqlc.New().WriteAuditNote(ctx, tx, orNull(table), orNull(rowID), text); err != nil {
		return fmt.Errorf("audit: note: %w", err)
	}
	return nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
