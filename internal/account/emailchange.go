package account

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

// EmailUndoTTL is how long whoever reads the mail of an account's former address can
// take the change back, and the address is kept for the account.
const EmailUndoTTL = 7 * 24 * time.Hour

// confirmTTL is the life of the link that confirms another address.
const confirmTTL = 24 * time.Hour

// EmailChanges lets people change their own addresses: asked for by a session,
// confirmed from the new mailbox, taken back from the old one. Each of its changes is
// made under the lock of the account's row, which comes first.
type EmailChanges struct{ *core }

// EmailChangeJob is the job that mails the link of a change that was asked for.
type EmailChangeJob struct {
	ID int64 `json:"id"` // the change's
}

// Kind implements queue.Job.
func (EmailChangeJob) Kind() string { return "accounts.mail_email_change" }

// RequestEmailChange asks for another address of the acting account, which must have
// signed in of late. Who has the address is looked up only later, by the job, so that
// neither the answer nor its time tells. Asking again replaces a change that is
// pending, and asking for the present address cancels it. It returns
// ErrReauthenticate, throttle.ErrLimited, or a validation fault keyed by email.
func (s *EmailChanges) RequestEmailChange(ctx context.Context, email string) error {
	p := identity.FromContext(ctx)
	email = strings.TrimSpace(email)
	if !validEmail(email) {
		return fault.Validation(map[string]string{"email": emailRule})
	}
	if err := s.requireRecent(ctx); err != nil {
		return err
	}
	if err := s.countEmailChange(ctx, p.UserID); err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, p, func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.queries.LockUser(ctx, tx, p.UserID)
		if err != nil {
			return db.NotFound(err, ErrSessionRevoked)
		}
		return s.askForEmail(ctx, tx, row, email)
	})
}

// countEmailChange counts an account's wish for another address, whoever has it, before
// anything else. It returns throttle.ErrLimited.
func (s *core) countEmailChange(ctx context.Context, userID int64) error {
	if err := s.limits.Count(ctx, throttle.Key{Limit: emailChanges, Subject: strconv.FormatInt(userID, 10)}); err != nil {
		return err
	}
	return s.perAddress(ctx, emailChangesFrom)
}

// askForEmail makes the pending change of an account, which is locked, in place of an
// earlier one. It returns ErrReauthenticate to who acts without a session.
func (s *core) askForEmail(ctx context.Context, tx pgx.Tx, row dbsqlc.User, email string) error {
	if s.o.Jobs == nil {
		return errNoJobs
	}
	p, now := identity.FromContext(ctx), s.o.Now()
	session, err := uuid.Parse(p.SessionID)
	if err != nil {
		return ErrReauthenticate
	}
	if err := s.queries.ClosePendingEmailChange(ctx, tx, now, row.ID); err != nil {
		return err
	}
	key := emailKey(email)
	if key == row.EmailKey {
		return nil
	}
	id, err := s.queries.InsertEmailChange(ctx, tx, dbsqlc.InsertEmailChangeParams{
		UserID: row.ID, SessionID: session, SignedInAt: p.SignedInAt, OldEmail: row.Email, OldEmailKey: row.EmailKey,
		NewEmail: email, NewEmailKey: key, Now: now, ExpiresAt: now.Add(confirmTTL),
	})
	if err != nil {
		return err
	}
	return s.o.Jobs.Insert(ctx, tx, EmailChangeJob{ID: id})
}

// MailEmailChange works an EmailChangeJob: it mails the new address a link or, where
// that is taken, word of it, unless the address got too many such mails of late. A
// change is mailed once.
func (s *EmailChanges) MailEmailChange(ctx context.Context, job EmailChangeJob) error {
	return s.o.DB.InTx(ctx, identity.Step(ctx, "mailed-links"), func(ctx context.Context, tx pgx.Tx) error {
		c, err := s.queries.FindEmailChange(ctx, tx, job.ID)
		if err != nil {
			return ifThere(err)
		}
		row, err := s.queries.LockUser(ctx, tx, c.UserID)
		if err != nil {
			return ifThere(err)
		}
		if c, err = s.queries.ClaimEmailChangeMail(ctx, tx, s.o.Now(), c.ID); err != nil {
			return ifThere(err)
		}
		err = s.limits.CountTx(ctx, tx, throttle.Key{Limit: changeMails, Subject: emailSubject(c.NewEmail)})
		if errors.Is(err, throttle.ErrLimited) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.mailNewAddress(ctx, tx, row, c)
	})
}

// ifThere is nil when err says that there is no such row: then nothing is to be done.
func ifThere(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

func (s *EmailChanges) mailNewAddress(ctx context.Context, tx pgx.Tx, row dbsqlc.User, c dbsqlc.EmailChange) error {
	holder, err := s.queries.FindEmailHolder(ctx, tx, c.NewEmailKey, row.ID, s.o.Now())
	if err == nil {
		holder.Email = c.NewEmail
		return s.send(ctx, tx, holder, mail.Message{Kind: mail.EmailInUse})
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	m, err := s.makeConfirmLink(ctx, tx, row, c)
	if err != nil {
		return err
	}
	return s.o.Mail.Send(ctx, tx, m)
}

// makeConfirmLink stores the digest of the secret that confirms c, and returns the mail
// with the link.
func (s *core) makeConfirmLink(ctx context.Context, tx pgx.Tx, row dbsqlc.User, c dbsqlc.EmailChange) (mail.Message, error) {
	if s.o.Mail == nil {
		return mail.Message{}, errNoMail
	}
	secret, err := s.newPrefixed(mailPrefix)
	if err != nil {
		return mail.Message{}, err
	}
	row.Email = c.NewEmail
	m := to(row, mail.Message{Kind: mail.ConfirmEmail, Link: s.linkTo(ConfirmEmailPath, secret), Code: secret})
	return m, s.queries.SetEmailChangeSecret(ctx, tx, digest(secret), c.ID)
}

// CheckConfirmEmailLink returns ErrLinkInvalid when ConfirmEmail would; it spends
// nothing.
func (s *EmailChanges) CheckConfirmEmailLink(ctx context.Context, secret string) error {
	_, err := s.queries.PeekEmailChange(ctx, s.o.DB.Direct(), s.o.Now(), digest(secret))
	return db.NotFound(err, ErrLinkInvalid)
}

// ConfirmEmail spends the secret of a link that was mailed to another address that an
// account asked for, and gives the account that address. The former one is told and,
// if it was verified, kept for EmailUndoTTL, within which it can take the change back.
// It returns ErrLinkInvalid, or ErrEmailTaken when somebody else has the address
// meanwhile; then the link stays good.
func (s *EmailChanges) ConfirmEmail(ctx context.Context, secret string) error {
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		id, err := s.queries.PeekEmailChange(ctx, tx, s.o.Now(), digest(secret))
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		old, err := s.queries.LockUser(ctx, tx, id)
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		c, err := s.queries.ConfirmEmailChange(ctx, tx, s.o.Now(), digest(secret))
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		if err := s.move(ctx, tx, old.ID, c.NewEmail); err != nil {
			return err
		}
		return s.tellOfMove(ctx, tx, old, c)
	})
	if db.Violates(err, "users_email_key") {
		return ErrEmailTaken.Because(err)
	}
	return err
}

// move gives an account an address that was proved just now, and voids links that were
// mailed before.
func (s *EmailChanges) move(ctx context.Context, tx pgx.Tx, userID int64, email string) error {
	now := s.o.Now()
	_, err := s.queries.MoveUser(ctx, tx, dbsqlc.MoveUserParams{Email: email, EmailKey: emailKey(email), Now: now, ID: userID})
	if err != nil {
		return err
	}
	if err := s.queries.ProveTOTPFactor(ctx, tx, userID); err != nil {
		return err
	}
	return s.queries.VoidAllMailTokens(ctx, tx, &now, userID)
}

// tellOfMove tells the former address of a change that was confirmed, with a link to
// take it back. Two get none: an address that was never verified, for it may be a
// stranger's, mistyped at the registration; and one that the account only had between
// leaving another and returning to it, for that one's claim is older.
func (s *EmailChanges) tellOfMove(ctx context.Context, tx pgx.Tx, old dbsqlc.User, c dbsqlc.EmailChange) error {
	left, err := s.queries.FindEmailReturn(ctx, tx, old.ID, c.NewEmailKey, s.o.Now())
	if err == nil {
		err = s.queries.CloseEmailChanges(ctx, tx, dbsqlc.CloseEmailChangesParams{Now: s.o.Now(), ClosedBy: "return", UserID: old.ID, FromID: left})
		if err != nil {
			return err
		}
		return s.notify(ctx, tx, old, mail.Message{Kind: mail.EmailChanged})
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if old.EmailVerifiedAt == nil || !mail.IsAddress(old.Email) {
		return s.notify(ctx, tx, old, mail.Message{Kind: mail.EmailChanged})
	}
	m, err := s.makeUndoLink(ctx, tx, old, c.ID, s.o.Now().Add(EmailUndoTTL))
	if err != nil {
		return err
	}
	return s.send(ctx, tx, old, m)
}

// makeUndoLink stores the digest of the secret that takes a change back until then, and
// returns the mail with the link to the address that old has.
func (s *core) makeUndoLink(ctx context.Context, tx pgx.Tx, old dbsqlc.User, id int64, until time.Time) (mail.Message, error) {
	secret, err := s.newPrefixed(mailPrefix)
	if err != nil {
		return mail.Message{}, err
	}
	m := to(old, mail.Message{Kind: mail.UndoEmail, Link: s.linkTo(UndoEmailPath, secret), Code: secret})
	return m, s.queries.SetEmailUndo(ctx, tx, digest(secret), &until, id)
}

// renewEmailLink makes the link of a mail about a change of row's address anew. It
// returns mail.ErrNotResendable when there is nothing to confirm or take back.
func (s *core) renewEmailLink(ctx context.Context, tx pgx.Tx, row dbsqlc.User, kind mail.Kind, address string) (mail.Message, error) {
	if kind == mail.ConfirmEmail {
		c, err := s.queries.FindPendingEmailChange(ctx, tx, row.ID, emailKey(address), s.o.Now())
		if err != nil {
			return mail.Message{}, db.NotFound(err, mail.ErrNotResendable)
		}
		return s.makeConfirmLink(ctx, tx, row, c)
	}
	c, err := s.queries.FindEmailUndo(ctx, tx, row.ID, emailKey(address), s.o.Now())
	if err != nil {
		return mail.Message{}, db.NotFound(err, mail.ErrNotResendable)
	}
	row.Email = c.OldEmail
	return s.makeUndoLink(ctx, tx, row, c.ID, *c.UndoUntil)
}
