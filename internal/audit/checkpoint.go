package audit

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// When a checkpoint is due.
const (
	checkpointEntries = 1000             // as many new entries
	checkpointAge     = 30 * time.Second // or so old the oldest of them
	checkpointPause   = time.Second      // but never sooner after the last one
)

// Checkpoint is a signed statement about the log's first Size entries. Bytes are in
// hex.
type Checkpoint struct {
	Size int64
	// Root is that of the Merkle tree, HeadHash the hash of the last entry.
	Root, HeadHash string
	At             time.Time
	// Note is what was signed, with its signature, in the form of
	// golang.org/x/mod/sumdb/note.
	Note string
}

func checkpointOf(row dbsqlc.AuditCheckpoint) Checkpoint {
	return Checkpoint{Size: row.Size, Root: hex.EncodeToString(row.Root), HeadHash: hex.EncodeToString(row.HeadHash), At: row.At.UTC(), Note: row.Note}
}

// statement is the text of a checkpoint.
type statement struct {
	origin     string
	size       int64
	root, head tlog.Hash
	at         time.Time
}

func (c statement) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%x\n%s\n", c.origin, c.size, base64.StdEncoding.EncodeToString(c.root[:]), c.head[:], c.at.UTC().Format(timeLayout))
}

var errStatement = errors.New("audit: not the text of a checkpoint")

// parseStatement reads the text of a checkpoint, of which there is one form only.
func parseStatement(text string) (statement, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 6 {
		return statement{}, errStatement
	}
	c := statement{origin: lines[0]}
	var errs [4]error
	c.size, errs[0] = strconv.ParseInt(lines[1], 10, 64)
	root, err := base64.StdEncoding.DecodeString(lines[2])
	errs[1] = err
	head, err := hex.DecodeString(lines[3])
	errs[2] = err
	c.at, errs[3] = time.Parse(timeLayout, lines[4])
	if errors.Join(errs[:]...) != nil || len(root) != tlog.HashSize || len(head) != tlog.HashSize || c.size < 1 {
		return statement{}, errStatement
	}
	c.root, c.head = tlog.Hash(root), tlog.Hash(head)
	if c.text() != text {
		return statement{}, errStatement
	}
	return c, nil
}

// openNote returns what verifier's key signed. It returns an error for a note that is
// not signed by it or that is no checkpoint of its installation.
func openNote(text string, verifier note.Verifier) (statement, error) {
	signed, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return statement{}, err
	}
	c, err := parseStatement(signed.Text)
	if err == nil && c.origin != verifier.Name() {
		err = errStatement
	}
	return c, err
}

// SignCheckpoint signs the log as it is now when a checkpoint is due, or, when it is
// the process's final one, when anything is new, and reports whether it did. Of
// several instances one signs. The checkpoint is kept, logged, and appended to the
// file. SignCheckpoint returns ErrNoKey without a secret key, and an error without
// signing anything when the log does not continue the one that was signed last.
func (s *Service) SignCheckpoint(ctx context.Context, final bool) (bool, error) {
	due, err := s.checkpointDue(ctx, final)
	if err != nil || !due {
		return false, err
	}
	key, err := s.signer(ctx)
	if err != nil {
		return false, err
	}
	var signed *Checkpoint
	err = s.o.BackgroundDB.InTx(ctx, identity.System("audit-checkpoint"), func(ctx context.Context, tx pgx.Tx) error {
		alone, err := s.queries.LockAuditCheckpoints(ctx, tx)
		if err != nil || !alone {
			return err
		}
		signed, err = s.signNext(ctx, tx, key, final)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("audit: sign a checkpoint: %w", err)
	}
	if signed == nil {
		return false, nil
	}
	s.o.Logger.InfoContext(ctx, "audit checkpoint", "size", signed.Size, "root", signed.Root, "head_hash", signed.HeadHash, "at", signed.At.Format(timeLayout), "note", signed.Note)
	if s.o.CheckpointFile == "" {
		return true, nil
	}
	if err := appendNote(s.o.CheckpointFile, signed.Note); err != nil {
		return true, fmt.Errorf("audit: WAYPOST_AUDIT_CHECKPOINT_FILE: %w", err)
	}
	return true, nil
}

// checkpointDue waits for the end of the pause before a final one.
func (s *Service) checkpointDue(ctx context.Context, final bool) (bool, error) {
	due, wait, err := s.due(ctx, s.o.BackgroundDB.Direct(), final)
	if err != nil || wait == 0 || !final {
		return due && wait == 0, err
	}
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-time.After(wait):
		return true, nil
	}
}

// due reports whether there is anything to sign, and how long not before that.
func (s *Service) due(ctx context.Context, q dbsqlc.DBTX, final bool) (bool, time.Duration, error) {
	head, err := s.queries.FindAuditHead(ctx, q)
	if err != nil {
		return false, 0, fmt.Errorf("audit: read the head: %w", db.Translate(err))
	}
	last, err := s.newest(ctx, q)
	if err != nil || head.Seq == last.Size {
		return false, 0, err
	}
	if head.Seq < last.Size {
		return true, 0, nil // signNext says what that means
	}
	wait := min(max(checkpointPause-s.o.Now().Sub(last.At), 0), checkpointPause)
	if final || head.Seq-last.Size >= checkpointEntries {
		return true, wait, nil
	}
	oldest, err := s.queries.FindAuditEntry(ctx, q, last.Size+1)
	if err != nil {
		return false, 0, fmt.Errorf("audit: read entry %d: %w", last.Size+1, db.Translate(err))
	}
	return s.o.Now().Sub(oldest.At) >= checkpointAge, wait, nil
}

// newest is the newest checkpoint, or the zero value.
func (s *Service) newest(ctx context.Context, q dbsqlc.DBTX) (dbsqlc.AuditCheckpoint, error) {
	last, err := s.queries.FindNewestCheckpoint(ctx, q)
	if errors.Is(err, pgx.ErrNoRows) {
		return dbsqlc.AuditCheckpoint{}, nil
	}
	if err != nil {
		return last, fmt.Errorf("audit: read the newest checkpoint: %w", db.Translate(err))
	}
	return last, nil
}

// signNext signs and keeps the next checkpoint in tx, which no other process does at
// the same time. It returns nil when another was just before.
func (s *Service) signNext(ctx context.Context, tx pgx.Tx, key *signingKey, final bool) (*Checkpoint, error) {
	due, wait, err := s.due(ctx, tx, final)
	if err != nil || !due || wait > 0 && !final {
		return nil, err
	}
	last, err := s.newest(ctx, tx)
	if err != nil {
		return nil, err
	}
	head, err := s.queries.FindAuditHead(ctx, tx)
	if err != nil {
		return nil, err
	}
	c := statement{origin: key.origin, size: head.Seq, head: tlog.Hash(head.Hash), at: s.o.Now().Truncate(time.Microsecond)}
	if c.root, err = continued(ctx, tx, last, head.Seq, key.verifier); err != nil {
		return nil, err
	}
	text, err := note.Sign(&note.Note{Text: c.text()}, key.signer)
	if err != nil {
		return nil, err
	}
	row := dbsqlc.AuditCheckpoint{Size: c.size, Root: c.root[:], HeadHash: c.head[:], At: c.at, Note: string(text)}
	n, err := s.queries.InsertCheckpoint(ctx, tx, dbsqlc.InsertCheckpointParams(row))
	if err != nil || n == 0 {
		return nil, err
	}
	kept := checkpointOf(row)
	return &kept, nil
}

// continued returns the root of the tree of the first size entries, or an error when
// that tree does not continue the one that last is of.
func continued(ctx context.Context, tx pgx.Tx, last dbsqlc.AuditCheckpoint, size int64, verifier note.Verifier) (tlog.Hash, error) {
	root, err := tlog.TreeHash(size, nodes(ctx, tx))
	if err != nil || last.Size == 0 {
		return root, err
	}
	before, err := openNote(last.Note, verifier)
	if err != nil {
		return root, fmt.Errorf("the newest checkpoint is not ours: %w", err)
	}
	if before.size > size {
		return root, fmt.Errorf("the log has %d entries, but %d were signed", size, before.size)
	}
	proof, err := tlog.ProveTree(size, before.size, nodes(ctx, tx))
	if err == nil {
		err = tlog.CheckTree(proof, size, root, before.size, before.root)
	}
	if err != nil {
		return root, fmt.Errorf("the log does not continue the %d entries that were signed: %w", before.size, err)
	}
	return root, nil
}
