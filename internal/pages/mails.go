package pages

import (
	"context"
	"html/template"
	"net/http"
	"strconv"

	"github.com/waypost/waypost/internal/mail"
)

// Mails is the outbox; see api.MailAdmin.
type Mails interface {
	List(ctx context.Context, f mail.Filter, before int64, limit int, total *int64) ([]mail.Mail, error)
	Find(ctx context.Context, id int64) (mail.Mail, error)
	Resend(ctx context.Context, id int64) (mail.Mail, error)
	SendTest(ctx context.Context, to string) (mail.Mail, error)
}

// MailPages are the pages of the outbox.
func MailPages(s Mails) Section {
	p := mailPages{s}
	return Section{Label: "Mails", Screens: []Screen{
		{Path: "/mails", Title: "Mails", View: "mails", Live: true, Read: p.list, Acts: []Act{
			{Name: "test", Operation: "send-test-mail", Done: "The test mail is on its way; its state is below.", Do: p.test},
		}},
		{Path: "/mails/{id}/html", Serve: p.preview},
		{Path: "/mails/{id}", Title: "Mail", View: "mail", Read: p.show, Acts: []Act{
			{Name: "resend", Operation: "resend-mail", Done: "The mail is sent again.", Do: p.resend},
		}},
	}}
}

type mailPages struct{ s Mails }

// mailsPage is the outbox, with a form that sends a test mail.
type mailsPage struct {
	listed
	Test Form
}

// forms implements formed.
func (p mailsPage) forms() []Form { return append(p.listed.forms(), p.Test) }

func (p mailPages) list(r *http.Request) (any, error) {
	kinds := choice("template", "Template")
	for _, k := range mail.Kinds() {
		kinds.Options = append(kinds.Options, Option{string(k), string(k)})
	}
	view := mailsPage{
		listed: listed{Filter: filterOf(r, choice("status", "State", "queued", "sent", "failed", "suppressed"), kinds, Field{Name: "to", Label: "To", Kind: "email"})},
		Test: Form{Action: DeskPath + "/mails/test", Button: "Send it", Line: true, Fields: []Field{
			{Name: "to", ID: "test-to", Label: "Send a test mail to", Kind: "email", Required: true, Value: visitorOf(r.Context()).user.Email},
		}},
	}
	var at before
	if err := continued(r, &at); err != nil {
		return view, err
	}
	q := r.URL.Query()
	list, err := p.s.List(r.Context(), mail.Filter{To: q.Get("to"), Status: mail.Status(q.Get("status")), Kind: mail.Kind(q.Get("template"))}, at.Before, pageRows+1, nil)
	if err != nil {
		return view, err
	}
	t := Table{
		Caption: "Mails, newest first", Empty: Empty{Title: "No mails", Detail: "Every mail that Waypost sends is kept here for 90 days. Send a test mail to see whether they leave."},
		Columns: []Column{{Label: "Subject", Wide: true}, {Label: "State"}, {Label: "To"}, {Label: "Attempts", Number: true}, {Label: "Created"}, {Label: "Sent"}},
	}
	rows(&t, r, list, func(m mail.Mail) Row {
		return Row{Cells: []any{
			Link{Text: m.Subject, Href: DeskPath + "/mails/" + strconv.FormatInt(m.ID, 10), Detail: short(m.Error, 100)}, mailBadge(m.Status), m.To, int64(m.Attempts), m.CreatedAt, m.SentAt,
		}}
	}, func(m mail.Mail) any { return before{m.ID} })
	view.Table = t
	return view, nil
}

func mailBadge(s mail.Status) Badge {
	return Badge{string(s), map[mail.Status]string{mail.Sent: "good", mail.Failed: "bad", mail.Queued: "wait", mail.Suppressed: "quiet"}[s]}
}

// mailPage is one mail.
type mailPage struct {
	Mail    mail.Mail
	Facts   []Fact
	Buttons []Button
}

// PageTitle is the mail's subject.
func (p mailPage) PageTitle() string { return p.Mail.Subject }

func (mailPage) frames() {}

func (p mailPages) show(r *http.Request) (any, error) {
	id, err := numberIn(r, "id", mail.ErrMail)
	if err != nil {
		return nil, err
	}
	m, err := p.s.Find(r.Context(), id)
	if err != nil {
		return nil, err
	}
	view := mailPage{Mail: m, Facts: []Fact{
		{"State", mailBadge(m.Status)}, {"To", m.To}, {"Template", string(m.Kind)}, {"Attempts", int64(m.Attempts)}, {"Created", m.CreatedAt}, {"Sent", m.SentAt},
	}}
	if m.Error != "" {
		view.Facts = append(view.Facts, Fact{"Error", m.Error})
	}
	if m.Status != mail.Queued {
		view.Buttons = []Button{{Label: "Send again", Action: DeskPath + "/mails/" + strconv.FormatInt(id, 10) + "/resend"}}
	}
	return view, nil
}

// previewPolicy lets a mail's own styles through, and nothing else of it: no script, no
// address, no form.
const previewPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// preview is a mail's HTML part, for a frame of its page.
func (p mailPages) preview(w http.ResponseWriter, r *http.Request) error {
	id, err := numberIn(r, "id", mail.ErrMail)
	if err != nil {
		return err
	}
	m, err := p.s.Find(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", previewPolicy)
	w.Header().Set("X-Frame-Options", "SAMEORIGIN")
	body := m.HTML
	if body == "" {
		body = "<pre>" + template.HTMLEscapeString(m.Text) + "</pre>"
	}
	_, _ = w.Write([]byte(body)) // the client is gone when this fails
	return nil
}

func (p mailPages) resend(r *http.Request) (Outcome, error) {
	id, err := numberIn(r, "id", mail.ErrMail)
	if err == nil {
		_, err = p.s.Resend(r.Context(), id)
	}
	return Outcome{}, err
}

func (p mailPages) test(r *http.Request) (Outcome, error) {
	m, err := p.s.SendTest(r.Context(), r.PostForm.Get("to"))
	return Outcome{To: "/mails/" + strconv.FormatInt(m.ID, 10)}, err
}
