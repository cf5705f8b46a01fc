package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// CheckUndoEmailLink returns ErrLinkInvalid when UndoEmail would; it spends nothing.
func (s *EmailChanges) CheckUndoEmailLink(ctx context.Context, secret string) error {
	_, err := s.queries.PeekEmailUndo(ctx, s.o.DB.Direct(), digest(secret), s.o.Now())
	return db.NotFound(err, ErrLinkInvalid)
}

// UndoEmail spends the secret of a link that was mailed to the former address of an
// account, and takes the change back, with every later one: whoever made them may be a
// thief. So it ends everything by which a thief could come back: all sessions and API
// tokens, the password, links that were mailed, and identities and a second factor that
// were added since the sign-in that asked for the change. The restored address gets a
// link to choose a new password. It returns ErrLinkInvalid.
func (s *EmailChanges) UndoEmail(ctx context.Context, secret string) error {
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		id, err := s.queries.PeekEmailUndo(ctx, tx, digest(secret), s.o.Now())
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		was, err := s.queries.LockUser(ctx, tx, id)
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		c, err := s.queries.UndoEmailChange(ctx, tx, s.o.Now(), digest(secret))
		if err != nil {
			return db.NotFound(err, ErrLinkInvalid)
		}
		err = s.queries.CloseEmailChanges(ctx, tx, dbsqlc.CloseEmailChangesParams{Now: s.o.Now(), ClosedBy: "undo", UserID: id, FromID: c.ID})
		if err != nil {
			return err
		}
		if err := s.move(ctx, tx, id, c.OldEmail); err != nil {
			return err
		}
		if err := s.shutOut(ctx, tx, c); err != nil {
			return err
		}
		return s.tellOfUndo(ctx, tx, was, c)
	})
	if db.Violates(err, "users_email_key") { // to a faster clock it was over, and somebody took the address
		return ErrLinkInvalid.Because(err)
	}
	return err
}

// shutOut voids what whoever asked for a change knows or may have added.
func (s *EmailChanges) shutOut(ctx context.Context, tx pgx.Tx, c dbsqlc.EmailChange) error {
	now := s.o.Now()
	if err := s.queries.VoidUserPassword(ctx, tx, now, c.UserID); err != nil {
		return err
	}
	if _, err := s.queries.RevokeUserSessions(ctx, tx, now, c.UserID); err != nil {
		return err
	}
	if err := s.queries.RevokeUserAPITokens(ctx, tx, &now, c.UserID); err != nil {
		return err
	}
	if err := s.queries.DeleteIdentitiesSince(ctx, tx, c.UserID, c.SignedInAt); err != nil {
		return err
	}
	gone, err := s.queries.DeleteTOTPFactorSince(ctx, tx, c.UserID, &c.SignedInAt)
	if err != nil || gone == 0 {
		return err
	}
	return s.queries.DeleteRecoveryCodes(ctx, tx, c.UserID)
}

func (s *EmailChanges) tellOfUndo(ctx context.Context, tx pgx.Tx, was dbsqlc.User, c dbsqlc.EmailChange) error {
	row, err := s.queries.FindUserByID(ctx, tx, c.UserID)
	if err != nil {
		return err
	}
	err = s.notify(ctx, tx, was, mail.Message{Kind: mail.EmailChanged, Detail: "A change of the e-mail address was taken back from the address that the account had before."})
	if err != nil || !row.Active {
		return err
	}
	return s.sendLinkAfter(ctx, tx, row, mail.ResetPassword, "The change of your e-mail address was taken back. All sessions and API tokens have ended, and the password is void.")
}
