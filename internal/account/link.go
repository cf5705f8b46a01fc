package account

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/mail"
)

// purpose is what the secret of a mailed link is good for.
type purpose string

const (
	forEmail    purpose = "verify_email"
	forPassword purpose = "reset_password"
)

// Where mailed links go, below Options.URL. Following one changes nothing, for
// mail scanners follow links too; the page sends what it is for.
const (
	VerifyEmailPath   = "/account/verify-email"
	ResetPasswordPath = "/account/reset-password"
	ConfirmEmailPath  = "/account/confirm-email"
	UndoEmailPath     = "/account/undo-email"
)

// Lives of mailed links.
const (
	verifyTTL = 7 * 24 * time.Hour
	inviteTTL = 7 * 24 * time.Hour
	resetTTL  = time.Hour
)

var errNoMail = errors.New("account: made without Options.Mail, so it can't send mail")

// purposeOf is what the link of a mail of that kind is good for.
func purposeOf(kind mail.Kind) purpose {
	if kind == mail.VerifyEmail {
		return forEmail
	}
	return forPassword
}

// sendLink mails row a link of that kind and stores the digest of its secret.
func (s *core) sendLink(ctx context.Context, tx pgx.Tx, row dbsqlc.User, kind mail.Kind) error {
	return s.sendLinkAfter(ctx, tx, row, kind, "")
}

// sendLinkAfter is sendLink, with what happened before it; "" for nothing.
func (s *core) sendLinkAfter(ctx context.Context, tx pgx.Tx, row dbsqlc.User, kind mail.Kind, happened string) error {
	m, err := s.makeLink(ctx, tx, row, kind)
	if err != nil {
		return err
	}
	m.Detail = happened
	return s.send(ctx, tx, row, m)
}

// makeLink stores the digest of a link's secret, and returns the mail with the link.
func (s *core) makeLink(ctx context.Context, tx pgx.Tx, row dbsqlc.User, kind mail.Kind) (mail.Message, error) {
	path, ttl := ResetPasswordPath, resetTTL
	switch kind {
	case mail.VerifyEmail:
		path, ttl = VerifyEmailPath, verifyTTL
	case mail.SetPassword:
		ttl = inviteTTL
	}
	secret, err := s.newPrefixed(mailPrefix)
	if err != nil {
		return mail.Message{}, err
	}
	now := s.o.Now()
	err = s.queries.InsertMailToken(ctx, tx, dbsqlc.InsertMailTokenParams{
		TokenSha256: digest(secret), UserID: row.ID, Purpose: string(purposeOf(kind)), EmailKey: row.EmailKey, Now: now, ExpiresAt: now.Add(ttl),
	})
	if err != nil {
		return mail.Message{}, err
	}
	return to(row, mail.Message{Kind: kind, Link: s.linkTo(path, secret), Code: secret}), nil
}

// RenewLink makes the link of a mail anew that was sent to an address, and voids the
// older ones. It returns mail.ErrNotResendable when the link would be of no use, or
// go to an address that is no longer the account's.
func (s *Links) RenewLink(ctx context.Context, tx pgx.Tx, userID int64, kind mail.Kind, address string) (mail.Message, error) {
	row, err := s.queries.LockUser(ctx, tx, userID)
	if err != nil {
		return mail.Message{}, db.NotFound(err, mail.ErrNotResendable)
	}
	if kind == mail.ConfirmEmail || kind == mail.UndoEmail {
		return s.renewEmailLink(ctx, tx, row, kind, address)
	}
	invited := kind == mail.SetPassword && row.PasswordHash == ""
	if row.EmailKey != emailKey(address) || !invited && !hasUse(row, purposeOf(kind)) || kind == mail.SetPassword && !invited {
		return mail.Message{}, mail.ErrNotResendable
	}
	now := s.o.Now()
	if err := s.queries.VoidMailTokens(ctx, tx, &now, row.ID, string(purposeOf(kind))); err != nil {
		return mail.Message{}, err
	}
	return s.makeLink(ctx, tx, row, kind)
}

// to addresses m to an account.
func to(row dbsqlc.User, m mail.Message) mail.Message {
	m.To, m.Name, m.UserID = row.Email, row.FirstName, row.ID
	return m
}

// send mails m to row's address, a notice with the circumstances.
func (s *core) send(ctx context.Context, tx pgx.Tx, row dbsqlc.User, m mail.Message) error {
	if s.o.Mail == nil {
		return errNoMail
	}
	if m.Kind.Tells() {
		m.Facts = append(m.Facts, s.circumstances(ctx, row.ID)...)
	}
	return s.o.Mail.Send(ctx, tx, to(row, m))
}

// CheckVerifyLink returns ErrLinkInvalid when VerifyEmail would; it spends nothing.
func (s *Links) CheckVerifyLink(ctx context.Context, secret string) error {
	_, err := s.peekLink(ctx, secret, forEmail)
	return err
}

// CheckResetLink returns ErrLinkInvalid when ResetPassword would; it spends nothing.
func (s *Links) CheckResetLink(ctx context.Context, secret string) error {
	_, err := s.peekLink(ctx, secret, forPassword)
	return err
}

// peekLink returns whose account spendLink would claim now. It returns
// ErrLinkInvalid.
func (s *core) peekLink(ctx context.Context, secret string, what purpose) (int64, error) {
	id, err := s.queries.PeekMailToken(ctx, s.o.DB.Direct(), digest(secret), string(what), s.o.Now())
	return id, db.NotFound(err, ErrLinkInvalid)
}

// spendLink claims the secret of a link and returns its account, locked: first of all,
// as whoever voids its links does. It returns ErrLinkInvalid.
func (s *core) spendLink(ctx context.Context, tx pgx.Tx, secret string, what purpose) (dbsqlc.User, error) {
	now := s.o.Now()
	id, err := s.queries.PeekMailToken(ctx, tx, digest(secret), string(what), now)
	if err != nil {
		return dbsqlc.User{}, db.NotFound(err, ErrLinkInvalid)
	}
	row, err := s.queries.LockUser(ctx, tx, id)
	if err != nil {
		return dbsqlc.User{}, db.NotFound(err, ErrLinkInvalid)
	}
	_, err = s.queries.SpendMailToken(ctx, tx, &now, digest(secret), string(what))
	return row, db.NotFound(err, ErrLinkInvalid)
}

// linkTo is the address of a page of ours with a secret.
func (s *core) linkTo(path, secret string) string {
	return s.o.URL + path + "?" + url.Values{"token": {secret}}.Encode()
}
