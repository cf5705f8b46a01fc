package account

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

// ResetRequest is the job that mails a link to who forgot a password.
type ResetRequest struct {
	Email string `json:"email"`
}

// Kind implements queue.Job.
func (ResetRequest) Kind() string { return "account.reset_request" }

var errNoJobs = errors.New("account: made without Options.Jobs, so it can't insert jobs")

// RequestPasswordReset takes down that somebody forgot the password of an address.
// Whether there is such an account is looked up only later, by the job, so that
// neither the answer nor its time tells. It returns throttle.ErrLimited.
func (s *Service) RequestPasswordReset(ctx context.Context, email string) error {
	if s.opts.Jobs == nil {
		return errNoJobs
	}
	if err := s.perAddress(ctx, resetRequests); err != nil {
		return err
	}
	return s.opts.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return s.opts.Jobs.Insert(ctx, tx, ResetRequest{Email: emailKey(email)})
	})
}

// MailResetLink works a ResetRequest: it mails a link if there is such an active
// account, and if that did not get too many of late.
func (s *Service) MailResetLink(ctx context.Context, r ResetRequest) error {
	row, err := s.findByEmail(ctx, r.Email)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !row.Active {
		return nil
	}
	if err != nil {
		return db.Translate(err)
	}
	err = s.limits.Count(ctx, throttle.Key{Limit: resetMails, Subject: emailSubject(r.Email)})
	if errors.Is(err, throttle.ErrLimited) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.opts.DB.InTx(ctx, identity.System("password-reset"), func(ctx context.Context, tx pgx.Tx) error {
		return s.sendLink(ctx, tx, row, mail.ResetPassword)
	})
}

// ResetPassword spends the secret of a mailed link, sets the account's password
// and ends all of its sessions; it signs nobody in, so a second factor still
// stands. Who gets mail at the address is its owner: the address counts as
// verified, blocks of its sign-in are lifted and, when it was not verified
// before, the other ways in that a stranger may have added are void. It returns
// ErrLinkInvalid, ErrBusy, or a validation fault keyed by password.
func (s *Service) ResetPassword(ctx context.Context, secret, password string) error {
	// Looked at first, so that a made-up secret costs no hash and a password that
	// breaks a rule does not use the link up.
	id, err := s.q.PeekMailToken(ctx, s.opts.DB.Pool(), digest(secret), string(forPassword), s.opts.Now())
	if err != nil {
		return db.NotFound(err, ErrLinkInvalid)
	}
	row, err := s.q.FindUserByID(ctx, s.opts.DB.Pool(), id)
	if err != nil {
		return db.NotFound(err, ErrLinkInvalid)
	}
	if rule := passwordProblem(password, row.Email); rule != "" {
		return fault.Validation(map[string]string{"password": rule})
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.opts.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err := s.spendLink(ctx, tx, secret, forPassword)
		if err != nil {
			return err
		}
		return s.recover(ctx, tx, row, hash)
	})
}

func (s *Service) recover(ctx context.Context, tx pgx.Tx, row dbsqlc.User, hash string) error {
	now := s.opts.Now()
	if _, err := s.q.SetUserPassword(ctx, tx, hash, now, row.ID); err != nil {
		return err
	}
	if _, err := s.q.RevokeUserSessions(ctx, tx, now, row.ID); err != nil {
		return err
	}
	if row.EmailVerifiedAt == nil {
		if err := s.voidCredentials(ctx, tx, row.ID); err != nil {
			return err
		}
		if err := s.q.VerifyUserEmail(ctx, tx, &now, row.ID); err != nil {
			return err
		}
	}
	if err := s.limits.Forgive(ctx, tx, throttle.Key{Limit: signInOfAccount, Subject: emailSubject(row.Email)}); err != nil {
		return err
	}
	return s.passwordChanged(ctx, tx, row)
}
