package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/mail"
)

// MailAdmin shows the outbox. List gives up to limit mails, newest first, those before
// an id if that is not 0, sets total when it is not nil, and returns validation faults.
// Find and Resend return mail.ErrMail; Resend also mail.ErrQueued, ErrNotResendable and
// ErrLimited; SendTest mail.ErrLimited and validation faults.
type MailAdmin interface {
	List(ctx context.Context, f mail.Filter, before int64, limit int, total *int64) ([]mail.Mail, error)
	Find(ctx context.Context, id int64) (mail.Mail, error)
	Resend(ctx context.Context, id int64) (mail.Mail, error)
	SendTest(ctx context.Context, to string) (mail.Mail, error)
}

// MailInput names a mail.
type MailInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The mail's id." example:"1"`
}

type listMailsInput struct {
	Page
	To       string      `query:"to" maxLength:"254" doc:"Only mails to this address; case makes no difference." example:"ada@example.com"`
	Status   mail.Status `query:"status" enum:"queued,sent,failed,suppressed" doc:"Only mails in this state." example:"failed"`
	Template mail.Kind   `query:"template" enum:"verify,reset,set_password,new_sign_in,password_changed,email_changed,two_factor_changed,token_created,identity_changed,alert,test" doc:"Only mails of this sort." example:"verify"`
}

type listMailsOutput struct {
	Body list[Mail]
}

type mailOutput struct {
	Body single[Mail]
}

type mailTextOutput struct {
	Body single[MailWithText]
}

type testMailInput struct {
	Body struct {
		To string `json:"to" maxLength:"254" doc:"Where the test mail goes." example:"ada@example.com"`
	}
}

// mailCursor is the id of a page's last mail.
type mailCursor struct {
	Before int64 `json:"b"`
}

// Mails are the operations on the outbox.
func Mails(s MailAdmin) Resource {
	return Resource{
		Tag: "Mails", Area: "Service",
		Description: "Every mail of the service, with its text, its state and its error. Mails are kept for 90 days.",
		Register: func(a huma.API) {
			registerMails(a, s)
			registerSending(a, s)
		},
	}
}

func registerMails(a huma.API, s MailAdmin) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-mails",
		Method:      http.MethodGet,
		Path:        "/api/admin/mails",
		Summary:     "List mails",
		Description: "All mails, newest first. A mail that can't be sent at the moment is `queued` and has an `error`.",
	}, roles(identity.Admin)), func(ctx context.Context, in *listMailsInput) (*listMailsOutput, error) {
		var c mailCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		var total *int64
		if in.Total {
			total = new(int64)
		}
		mails, err := s.List(ctx, mail.Filter{To: in.To, Status: in.Status, Kind: in.Template}, c.Before, in.Limit+1, total)
		if err != nil {
			return nil, within("query", err)
		}
		return &listMailsOutput{Body: newList(mails, in.Limit, total, toMail, func(m mail.Mail) any { return mailCursor{m.ID} })}, nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-mail",
		Method:      http.MethodGet,
		Path:        "/api/admin/mails/{id}",
		Summary:     "Show a mail",
		Description: "One mail with its text and HTML. Secrets in links are left out.",
	}, roles(identity.Admin), mail.ErrMail), "mailId"), func(ctx context.Context, in *MailInput) (*mailTextOutput, error) {
		m, err := s.Find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &mailTextOutput{Body: single[MailWithText]{Data: toMailWithText(m), Message: "Mail found."}}, nil
	})
}

// orderTestMail is before what uses the mail.
const orderTestMail = -1

// mailSentence says what will become of a mail.
func mailSentence(m mail.Mail, queued string) string {
	if m.Status == mail.Queued {
		return queued
	}
	return "The mail is suppressed: " + m.Error + "."
}

func registerSending(a huma.API, s MailAdmin) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "send-test-mail",
		Method:        http.MethodPost,
		Path:          "/api/admin/mails/test",
		Summary:       "Send a test mail",
		Description:   "Queue a mail that confirms that sending works. At most 10 mails per address in an hour. Show the mail later to see whether it was sent.",
		DefaultStatus: http.StatusAccepted,
	}, roles(identity.Admin), mail.ErrLimited), export.Variant{Order: orderTestMail, Capture: map[string]string{"mailId": "/data/id"}}), func(ctx context.Context, in *testMailInput) (*mailOutput, error) {
		m, err := s.SendTest(ctx, in.Body.To)
		if err != nil {
			return nil, within("body", err)
		}
		return &mailOutput{Body: single[Mail]{Data: toMail(m), Message: mailSentence(m, "The test mail is queued.")}}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID: "resend-mail",
		Method:      http.MethodPost,
		Path:        "/api/admin/mails/{id}/resend",
		Summary:     "Resend a mail",
		Description: "Queue a mail again, with a new `Message-ID`. A link in it is replaced, and older links of that kind stop working. It counts towards the 10 mails per address in an " +
			"hour. A mail that is still on its way is 409.",
		DefaultStatus: http.StatusAccepted,
	}, roles(identity.Admin), mail.ErrMail, mail.ErrQueued, mail.ErrNotResendable, mail.ErrLimited), export.Variant{
		Parameters: map[string]string{"id": "{{mailId}}"}, Status: []int{http.StatusAccepted, http.StatusConflict}, // it may still be on its way
	}), func(ctx context.Context, in *MailInput) (*mailOutput, error) {
		m, err := s.Resend(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &mailOutput{Body: single[Mail]{Data: toMail(m), Message: mailSentence(m, "The mail is queued again.")}}, nil
	})
}
