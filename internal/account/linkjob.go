package account

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/throttle"
)

// LinkJob is the job that mails a link to whoever asked for one.
type LinkJob struct {
	Email string `json:"email"`
	// Link is what the link is for. Its values are older than the templates' names, and
	// those of other versions' jobs.
	Link purpose `json:"link"`
}

// Kind implements queue.Job.
func (LinkJob) Kind() string { return "accounts.mail_link" }

// KindAliases has the job's former name: rows of an older version may have it.
func (LinkJob) KindAliases() []string { return []string{"account.link_request"} }

var errNoJobs = errors.New("account: made without Options.Jobs, so it can't insert jobs")

// Links mails people links that prove an address to be theirs.
type Links struct{ *core }

// RequestPasswordReset takes down that somebody forgot the password of an address.
// Whether there is such an account is looked up only later, by the job, so that
// neither the answer nor its time tells. It returns throttle.ErrLimited, or a
// validation fault keyed by email.
func (s *Links) RequestPasswordReset(ctx context.Context, email string) error {
	return s.requestLink(ctx, email, forPassword, resetRequests)
}

// RequestVerification takes down that somebody wants another link to verify an
// address, and tells as little, and returns the same, as
// RequestPasswordReset.
func (s *Links) RequestVerification(ctx context.Context, email string) error {
	return s.requestLink(ctx, email, forEmail, verificationRequests)
}

func (s *Links) requestLink(ctx context.Context, email string, what purpose, l throttle.Limit) error {
	if s.o.Jobs == nil {
		return errNoJobs
	}
	email = strings.TrimSpace(email)
	if !validEmail(email) {
		return fault.Validation(map[string]string{"email": emailRule})
	}
	if err := s.perAddress(ctx, l); err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return s.o.Jobs.Insert(ctx, tx, LinkJob{Email: emailKey(email), Link: what})
	})
}

// MailLink works a LinkJob: it mails the link if there is an active account
// that can use it, and that did not get too many of late.
func (s *Links) MailLink(ctx context.Context, r LinkJob) error {
	row, err := s.findByEmail(ctx, r.Email)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return db.Translate(err)
	}
	if !hasUse(row, r.Link) {
		return nil
	}
	mails, kind := resetMails, mail.ResetPassword
	if r.Link == forEmail {
		mails, kind = verificationMails, mail.VerifyEmail
	}
	err = s.limits.Count(ctx, throttle.Key{Limit: mails, Subject: emailSubject(r.Email)})
	if errors.Is(err, throttle.ErrLimited) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.o.DB.InTx(ctx, identity.Step(ctx, "mailed-links"), func(ctx context.Context, tx pgx.Tx) error {
		return s.sendLink(ctx, tx, row, kind)
	})
}

// hasUse says whether a link for that would do anything for the account.
func hasUse(row dbsqlc.User, what purpose) bool {
	return row.Active && (what == forPassword || what == forEmail && row.EmailVerifiedAt == nil)
}
