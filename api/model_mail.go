package api

import (
	"time"

	"github.com/waypost/waypost/internal/mail"
)

// Mail is a mail of the outbox. It is exported because Huma leaves an unexported
// embedded struct out of the schema.
type Mail struct {
	ID        int64       `json:"id" minimum:"1" example:"1" doc:"The mail's id; later mails have higher ids."`
	To        string      `json:"to" maxLength:"254" example:"ada@example.com" doc:"The recipient's address."`
	Subject   string      `json:"subject" example:"Confirm your e-mail address (waypost.example)" doc:"The subject line."`
	Template  mail.Kind   `json:"template" enum:"verify,reset,set_password,new_sign_in,password_changed,email_changed,two_factor_changed,token_created,identity_changed,alert,test" example:"verify" doc:"What the mail is about."`
	Status    mail.Status `json:"status" enum:"queued,sent,failed,suppressed" example:"sent" doc:"Only a queued mail will be sent. A suppressed one will not: mail is switched off, or the address received too many."`
	Attempts  int         `json:"attempts" minimum:"0" example:"1" doc:"How often sending was tried since the mail was queued last."`
	Error     string      `json:"error" example:"" doc:"Why the mail failed or was suppressed, or why the last attempt of a queued one failed. Empty when nothing is wrong."`
	CreatedAt time.Time   `json:"created_at" example:"2026-01-02T15:04:05Z" doc:"When the mail was queued for the first time."`
	SentAt    *time.Time  `json:"sent_at,omitempty" example:"2026-01-02T15:04:06Z" doc:"When the mail server accepted it; absent until then."`
}

// MailWithText is a mail with what it says.
type MailWithText struct {
	Mail
	Text string `json:"text" example:"Hello Ada, ..." doc:"The plain text. HIDDEN-SECRET stands where the secret of a link was."`
	HTML string `json:"html" example:"<p>Hello Ada, ...</p>" doc:"The HTML. HIDDEN-SECRET stands where the secret of a link was."`
}

func toMail(m mail.Mail) Mail {
	out := Mail{
		ID: m.ID, To: m.To, Subject: m.Subject, Template: m.Kind, Status: m.Status, Attempts: m.Attempts, Error: m.Error,
		CreatedAt: m.CreatedAt.UTC(),
	}
	if m.SentAt != nil {
		out.SentAt = new(m.SentAt.UTC())
	}
	return out
}

func toMailWithText(m mail.Mail) MailWithText {
	return MailWithText{Mail: toMail(m), Text: m.Text, HTML: m.HTML}
}
