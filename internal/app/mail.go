package app

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/seal"
)

// newMails makes the outbox with its driver. An installation that was upgraded and
// configures none starts as before, and sends nothing.
func newMails(ctx context.Context, s *Services, o Options, metrics prometheus.Registerer) (*mail.Outbox, error) {
	c := o.Config
	sealer, err := seal.New(mail.SealPurpose, []byte(c.SecretKey), []byte(c.SecretKeyPrevious))
	if err != nil {
		return nil, err
	}
	composer, err := mail.NewComposer(baseURL(c))
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(ctx, o)
	if err != nil {
		return nil, err
	}
	return mail.New(mail.Options{
		DB: s.DB, Jobs: s.Queue, Sealer: sealer, Composer: composer, From: c.Mail.From, Transport: transport, Logger: o.Logger, Metrics: metrics,
		Renew: func(ctx context.Context, tx pgx.Tx, userID int64, kind mail.Kind, to string) (mail.Message, error) {
			return s.Accounts.RenewLink(ctx, tx, userID, kind, to)
		},
	})
}

// newTransport is nil, which is nothing that sends, for the driver none.
func newTransport(ctx context.Context, o Options) (mail.Transport, error) {
	m := o.Config.Mail
	switch mailDriver(o) {
	case config.MailSMTP:
		return mail.NewSMTP(mail.SMTPOptions{
			Host: m.Host, Port: m.Port, Username: m.Username, Password: m.Password, TLS: mail.TLS(m.TLS), From: m.From,
		})
	case config.MailLog:
		return mail.NewLog(mail.LogOptions{Logger: o.Logger, ShowLinks: o.ShowMailLinks})
	}
	o.Logger.WarnContext(ctx, "mail is switched off: nobody can confirm an address, accept an invitation or reset a password; set WAYPOST_SMTP_HOST and WAYPOST_MAIL_FROM, or WAYPOST_MAIL_DRIVER=log")
	return nil, nil
}

// mailDriver is the driver of mail, or its default.
func mailDriver(o Options) string {
	if o.ShowMailLinks { // dev
		return o.Config.Mail.DriverIn(config.MailLog)
	}
	return o.Config.Mail.DriverIn(config.MailNone)
}
