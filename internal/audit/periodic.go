package audit

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

// Kinds of periodic verification.
const (
	KindRecent = "recent"
	KindWhole  = "whole"
)

// Verification is what the last verification of a kind found.
type Verification struct {
	Kind     string // recent or whole
	At       time.Time
	ToSeq    int64 // the last entry that was good
	FirstBad *Bad  // nil when all was
}

// Verifications returns what the last verification of each kind found, of those that
// there were, over d.
func Verifications(ctx context.Context, d *db.DB) ([]Verification, error) {
	rows, err := dbsqlc.New().ListVerifications(ctx, d.Direct())
	if err != nil {
		return nil, fmt.Errorf("audit: read the verifications: %w", db.Translate(err))
	}
	list := make([]Verification, 0, len(rows))
	for _, row := range rows {
		v := Verification{Kind: row.Kind, At: row.At.UTC(), ToSeq: row.ToSeq}
		if !row.Ok {
			v.FirstBad = &Bad{Seq: row.BadSeq, Reason: row.BadReason}
		}
		list = append(list, v)
	}
	return list, nil
}

// Verifications returns what the last verification of each kind found, of those that
// there were.
func (s *Service) Verifications(ctx context.Context) ([]Verification, error) {
	return Verifications(ctx, s.o.DB)
}

// VerifyRecent verifies what was written since its last call, and that the log is
// still a continuation of what it saw then. It keeps what it finds, raises the alarm
// when the chain is broken, and returns how many entries it verified.
func (s *Service) VerifyRecent(ctx context.Context) (int, error) {
	last, err := s.queries.FindVerification(ctx, s.o.BackgroundDB.Direct(), KindRecent)
	if errors.Is(err, pgx.ErrNoRows) {
		v, err := s.verify(ctx, s.o.BackgroundDB, span{}, outside{})
		return s.keep(ctx, KindRecent, v, 0, last, err)
	}
	if err != nil {
		return 0, fmt.Errorf("audit: read the last verification: %w", db.Translate(err))
	}
	v, err := s.verifySince(ctx, last)
	return s.keep(ctx, KindRecent, v, last.ToSeq, last, err)
}

// verifySince verifies what is behind the last entry that was good.
func (s *Service) verifySince(ctx context.Context, last dbsqlc.AuditVerification) (Verdict, error) {
	if _, err := s.Seal(ctx); err != nil {
		return Verdict{}, err
	}
	head, err := s.queries.FindAuditHead(ctx, s.o.BackgroundDB.Direct())
	if err != nil {
		return Verdict{}, fmt.Errorf("audit: read the head: %w", db.Translate(err))
	}
	v := Verdict{Head: Head{Seq: head.Seq, Hash: hex.EncodeToString(head.Hash)}}
	if head.Seq < last.ToSeq {
		v.FirstBad = bad(head.Seq+1, ReasonTruncated)
		return v, nil
	}
	if last.ToSeq > 0 {
		// What was verified may have been written anew since, hashes and all.
		entry, err := s.queries.FindAuditEntry(ctx, s.o.BackgroundDB.Direct(), last.ToSeq)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return Verdict{}, fmt.Errorf("audit: read entry %d: %w", last.ToSeq, db.Translate(err))
		}
		if err != nil {
			v.FirstBad = bad(last.ToSeq, ReasonGap)
			return v, nil
		}
		if !bytes.Equal(entry.Hash, last.ToHash) {
			v.FirstBad = bad(last.ToSeq, ReasonLink)
			return v, nil
		}
	}
	if head.Seq == last.ToSeq {
		v.OK = true
		return v, nil
	}
	return s.verify(ctx, s.o.BackgroundDB, span{from: last.ToSeq + 1}, outside{})
}

// daily is how old the last verification of the whole log must be for the next.
const daily = 23*time.Hour + 30*time.Minute

// VerifyDaily is VerifyWhole, unless that was called by any process within a day.
func (s *Service) VerifyDaily(ctx context.Context) (int, error) {
	last, err := s.queries.FindVerification(ctx, s.o.BackgroundDB.Direct(), KindWhole)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("audit: read the last verification: %w", db.Translate(err))
	}
	if err == nil && s.o.Now().Sub(last.At) < daily {
		return 0, nil
	}
	return s.VerifyWhole(ctx)
}

// VerifyWhole verifies the whole log, keeps what it finds, raises the alarm when the
// chain is broken, and returns how many entries it verified.
func (s *Service) VerifyWhole(ctx context.Context) (int, error) {
	v, err := s.verify(ctx, s.o.BackgroundDB, span{}, outside{})
	return s.keep(ctx, KindWhole, v, 0, dbsqlc.AuditVerification{}, err)
}

// keep stores a verdict on the entries behind from. Of a chain that is broken, the
// next verification of what is recent begins where last did.
func (s *Service) keep(ctx context.Context, kind string, v Verdict, from int64, last dbsqlc.AuditVerification, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	p := dbsqlc.KeepVerificationParams{Kind: kind, At: s.o.Now(), ToSeq: v.Head.Seq, Ok: v.OK}
	if p.ToHash, err = hex.DecodeString(v.Head.Hash); err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	if b := v.FirstBad; b != nil {
		p.ToSeq, p.ToHash, p.BadSeq, p.BadReason = from, append([]byte{}, last.ToHash...), b.Seq, b.Reason
	}
	if err := s.queries.KeepVerification(ctx, s.o.BackgroundDB.Direct(), p); err != nil {
		return 0, fmt.Errorf("audit: keep the verification: %w", db.Translate(err))
	}
	if v.FirstBad == nil {
		return int(v.Checked), nil
	}
	return int(v.Checked), s.alarm(ctx, kind, *v.FirstBad)
}

// alarm logs a break each time that it is found, and tells the alarm once.
func (s *Service) alarm(ctx context.Context, kind string, b Bad) error {
	seq := "none"
	if b.Seq != nil {
		seq = fmt.Sprint(*b.Seq)
	}
	s.o.Logger.ErrorContext(ctx, "the audit log is broken", "verification", kind, "first_bad", seq, "reason", b.Reason)
	if s.o.Alarm == nil {
		return nil
	}
	return s.o.BackgroundDB.InTx(ctx, identity.System("audit-verification"), func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.queries.MarkAlerted(ctx, tx, kind)
		if err != nil || n == 0 {
			return err
		}
		return s.o.Alarm(ctx, kind, b)
	})
}
