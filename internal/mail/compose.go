package mail

import (
	"embed"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"net/url"
	"strings"
	"sync"
	texttemplate "text/template"
)

//go:embed templates
var layouts embed.FS

// hidden stands for a link's secret in stored text: in a URL and in HTML it is
// written as it is.
const hidden = "HIDDEN-SECRET"

// Content is what a mail says, with hidden in the place of its secret.
type Content struct {
	Subject string
	Text    string
	HTML    string
}

// revealed returns c with its secret.
func (c Content) revealed(code string) Content {
	c.Text = strings.ReplaceAll(c.Text, hidden, code)
	c.HTML = strings.ReplaceAll(c.HTML, hidden, code)
	return c
}

// Composer writes mails in the name of a service.
type Composer struct {
	base string // the service's own URL, without a trailing slash
	host string
	// parsed are the layouts, read when the first mail is written: the program starts
	// without them.
	parsed func() (layout, error)
}

type layout struct {
	text *texttemplate.Template
	html *htmltemplate.Template
}

// NewComposer makes a Composer for the service at an absolute URL.
func NewComposer(base string) (*Composer, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New("mail: the service's URL is not absolute")
	}
	return &Composer{base: strings.TrimRight(base, "/"), host: u.Host, parsed: sync.OnceValues(parse)}, nil
}

func parse() (layout, error) {
	t, err := texttemplate.ParseFS(layouts, "templates/layout.txt")
	if err != nil {
		return layout{}, fmt.Errorf("mail: %w", err)
	}
	h, err := htmltemplate.ParseFS(layouts, "templates/layout.html")
	if err != nil {
		return layout{}, fmt.Errorf("mail: %w", err)
	}
	return layout{text: t, html: h}, nil
}

// page is what the layouts print.
type page struct {
	Subject, Host, Base string
	Name                string
	Lead                []string
	Facts               []Fact
	Button, Link, Code  string
	Expiry              string
	Otherwise           string
	Why, Account        string
}

// Compose returns what m says, without its secret.
func (c *Composer) Compose(m Message) (Content, error) {
	l, known := letterOf(m)
	switch {
	case !known:
		return Content{}, fmt.Errorf("mail: no text for kind %q", m.Kind)
	case !IsAddress(m.To):
		return Content{}, errors.New("mail: the recipient's address is no address")
	case m.Kind.Linked() && (m.Code == "" || !strings.HasPrefix(m.Link, c.base+"/") || !strings.Contains(m.Link, m.Code)):
		return Content{}, fmt.Errorf("mail: a mail of kind %q needs a link into this service, with its code", m.Kind)
	}
	p := page{
		Subject: presentableOr(l.subject, letters[m.Kind].subject), Host: c.host, Base: c.base,
		Name: presentableOr(m.Name, "there"), Lead: l.lead, Facts: m.Facts, Otherwise: l.otherwise, Why: l.why,
	}
	if m.UserID != 0 && m.Kind != ConfirmEmail { // the account has another address yet
		p.Account = m.To
	}
	if m.Kind.Linked() {
		p.Button, p.Expiry, p.Code = l.button, l.expiry, hidden
		p.Link = strings.ReplaceAll(m.Link, m.Code, hidden)
	}
	t, err := c.parsed()
	if err != nil {
		return Content{}, err
	}
	var plain, html strings.Builder
	if err := t.text.Execute(&plain, p); err != nil {
		return Content{}, fmt.Errorf("mail: %w", err)
	}
	if err := t.html.Execute(&html, p); err != nil {
		return Content{}, fmt.Errorf("mail: %w", err)
	}
	return Content{Subject: p.Subject + " (" + c.host + ")", Text: plain.String(), HTML: html.String()}, nil
}

// IsAddress reports whether s is a bare address, as accounts take them: no more than
// that nothing else can come with it.
func IsAddress(s string) bool {
	at := strings.LastIndexByte(s, '@')
	return at > 0 && at < len(s)-1 && len(s) <= 254 && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>()[],;:\"`, r)
	}) < 0
}
