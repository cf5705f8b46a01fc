package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/identity"
)

// checkAudited refuses to work on a database whose changes would not all be in the
// audit log, and warns when the log can be switched off by who runs the service.
func checkAudited(ctx context.Context, d *db.DB, logger *slog.Logger) error {
	if err := d.CheckAudited(ctx); err != nil {
		return err
	}
	owns, err := d.OwnsSchema(ctx)
	if err == nil && owns {
		logger.WarnContext(ctx, "the service signs in as the owner of its tables, who can switch off the audit log: let DATABASE_URL sign in as "+db.AppRole+", and put the owner into WAYPOST_DATABASE_OWNER_URL for migrations")
	}
	return err
}

// sealTimeout bounds the sealing when the services close.
const sealTimeout = 10 * time.Second

// openAudit comes first, so that it closes last: what the others write when they close
// is sealed too. What a command without a secret key can't do is sign.
func (s *Services) openAudit(areas db.Areas, c config.Config, logger *slog.Logger) error {
	var err error
	s.Audit, err = audit.New(audit.Options{
		DB: areas.Requests, BackgroundDB: areas.Background, SealDB: areas.Audit, Logger: logger,
		SecretKey: []byte(c.SecretKey), PreviousSecretKey: []byte(c.SecretKeyPrevious),
		CheckpointFile: c.Audit.CheckpointFile, Retention: time.Duration(c.Audit.RetentionDays) * 24 * time.Hour,
		Alarm: s.tellBreak,
	})
	if err != nil {
		return err
	}
	s.closers.add("audit log", within(sealTimeout, func(ctx context.Context) error {
		_, err := s.Audit.Seal(ctx)
		if errors.Is(err, db.ErrUnavailable) {
			logger.WarnContext(ctx, "the last audit entries wait for another process to seal them", "error", err)
			return nil
		}
		return err
	}))
	return nil
}

// auditBreak is the data of the alert about a chain that is broken.
type auditBreak struct {
	Verification string `json:"verification"`
	Seq          *int64 `json:"seq"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
}

// tellBreak mails the alert about a break to the administrators, and posts it to the
// URL of alerts, of a server that has one.
func (s *Services) tellBreak(ctx context.Context, kind string, b audit.Bad) error {
	if s.Alerts == nil {
		return nil
	}
	entry := "an entry without a place"
	if b.Seq != nil {
		entry = fmt.Sprintf("entry %d", *b.Seq)
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "waypost audit %s %s %s", kind, entry, b.Reason))
	message := fmt.Sprintf("The audit log is broken at %s (%s). docs/audit.md says what to do.", entry, b.Reason)
	// In a transaction of its own, so that a receiver of alerts that is away, whose
	// alert is tried again, keeps no mail from leaving. Its cause keeps it from leaving
	// twice.
	err := s.DB.InTx(ctx, identity.Step(ctx, "audit-verification"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.Mails.Alert(ctx, tx, "audit "+id.String(), "The audit log is broken",
			fmt.Sprintf("The audit log is broken at %s (%s). The documentation of the audit log says what to do.", entry, b.Reason))
		return err
	})
	if err != nil {
		return err
	}
	return s.Alerts.Post(ctx, id, "waypost.audit.broken", time.Now().UTC(), auditBreak{
		Verification: kind, Seq: b.Seq, Reason: b.Reason,
		Message: message,
	})
}

// auditState is what readiness tells about the audit log.
func (a *App) auditState(ctx context.Context) string {
	list, err := audit.Verifications(ctx, a.options.Areas.Readiness)
	if err != nil {
		return "unknown"
	}
	for _, v := range list {
		if v.FirstBad != nil {
			return "broken"
		}
	}
	return "ok"
}
