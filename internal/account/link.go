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
)

// Lives of mailed links.
const (
	verifyTTL = 7 * 24 * time.Hour
	inviteTTL = 7 * 24 * time.Hour
	resetTTL  = time.Hour
)

var errNoMail = errors.New("account: made without Options.Mail, so it can't send mail")

// sendLink mails row a link of that kind and stores the digest of its secret.
func (s *Service) sendLink(ctx context.Context, tx pgx.Tx, row dbsqlc.User, kind mail.Kind) error {
	what, path, ttl := forPassword, ResetPasswordPath, resetTTL
	switch kind {
	case mail.VerifyEmail:
		what, path, ttl = forEmail, VerifyEmailPath, verifyTTL
	case mail.SetPassword:
		ttl = inviteTTL
	}
	secret, err := s.newPrefixed(mailPrefix)
	if err != nil {
		return err
	}
	now := s.o.Now()
	err = s.queries.InsertMailToken(ctx, tx, dbsqlc.InsertMailTokenParams{
		TokenSha256: digest(secret), UserID: row.ID, Purpose: string(what), EmailKey: row.EmailKey, Now: now, ExpiresAt: now.Add(ttl),
	})
	if err != nil {
		return err
	}
	link := s.o.URL + path + "?" + url.Values{"token": {secret}}.Encode()
	return s.send(ctx, tx, row, mail.Message{Kind: kind, Link: link, Code: secret})
}

// send mails m to row's address.
func (s *Service) send(ctx context.Context, tx pgx.Tx, row dbsqlc.User, m mail.Message) error {
	if s.o.Mail == nil {
		return errNoMail
	}
	m.To, m.Name = row.Email, row.FirstName
	return s.o.Mail.Send(ctx, tx, m)
}

// CheckVerifyLink returns ErrLinkInvalid when VerifyEmail would; it spends nothing.
func (s *Service) CheckVerifyLink(ctx context.Context, secret string) error {
	_, err := s.peekLink(ctx, secret, forEmail)
	return err
}

// CheckResetLink returns ErrLinkInvalid when ResetPassword would; it spends nothing.
func (s *Service) CheckResetLink(ctx context.Context, secret string) error {
	_, err := s.peekLink(ctx, secret, forPassword)
	return err
}

// peekLink returns whose account spendLink would claim now. It returns
// ErrLinkInvalid.
func (s *Service) peekLink(ctx context.Context, secret string, what purpose) (int64, error) {
	id, err := s.queries.PeekMailToken(ctx, s.o.DB.Direct(), digest(secret), string(what), s.o.Now())
	return id, db.NotFound(err, ErrLinkInvalid)
}

// spendLink claims the secret of a link and returns its account, locked. It
// returns ErrLinkInvalid.
func (s *Service) spendLink(ctx context.Context, tx pgx.Tx, secret string, what purpose) (dbsqlc.User, error) {
	now := s.o.Now()
	id, err := s.queries.SpendMailToken(ctx, tx, &now, digest(secret), string(what))
	if err != nil {
		return dbsqlc.User{}, db.NotFound(err, ErrLinkInvalid)
	}
	row, err := s.queries.LockUser(ctx, tx, id)
	return row, db.NotFound(err, ErrLinkInvalid)
}
