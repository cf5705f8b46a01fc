package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"os"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// TLS says how connections to a mail server are encrypted.
type TLS string

// The ways of TLS.
const (
	TLSMandatory     TLS = "mandatory"     // STARTTLS or nothing
	TLSOpportunistic TLS = "opportunistic" // STARTTLS if the server offers it
	TLSNone          TLS = "none"
)

// implicitTLSPort speaks TLS from the first byte (RFC 8314 section 3.3).
const implicitTLSPort = 465

// phaseTimeout is the default of SMTPOptions.Timeout.
const phaseTimeout = 13 * time.Second

// SMTPOptions configure NewSMTP. Host, Port, From and TLS are mandatory.
type SMTPOptions struct {
	Host string
	Port int
	// Username and Password sign in; both or none. They are sent over TLS, and with
	// TLSNone in the clear: for a server on this machine only.
	Username, Password string
	TLS                TLS
	// ImplicitTLS speaks TLS from the first byte, as port 465 always does.
	ImplicitTLS bool
	// From is the sender, as RFC 5322 section 3.4 writes one mailbox.
	From string
	// RootCAs are whom server certificates are checked against; nil for the system's.
	RootCAs *x509.CertPool
	// Timeout bounds each of: connecting, the greeting up to the authentication, the
	// mail itself; 0 means 13 s.
	Timeout time.Duration
}

// SMTP is a Transport that hands each mail to a server over a connection of its own.
type SMTP struct {
	o    SMTPOptions
	helo string
}

// NewSMTP makes an SMTP. It connects to nothing yet.
func NewSMTP(o SMTPOptions) (*SMTP, error) {
	switch {
	case o.Host == "" || o.Port < 1 || o.Port > 65535:
		return nil, errors.New("mail: SMTP needs a host and a port")
	case o.TLS != TLSMandatory && o.TLS != TLSOpportunistic && o.TLS != TLSNone:
		return nil, fmt.Errorf("mail: %q is no way of TLS", o.TLS)
	}
	from, err := netmail.ParseAddress(o.From)
	if err != nil {
		return nil, errors.New("mail: the sender is no address")
	}
	s := &SMTP{o: o}
	// Servers want a name with a domain, which a container's hostname has not.
	if s.helo, err = os.Hostname(); err != nil || !strings.Contains(s.helo, ".") {
		s.helo = from.Address[strings.LastIndexByte(from.Address, '@')+1:]
	}
	_, err = s.client()
	return s, err
}

func (s *SMTP) client() (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.o.Port), gomail.WithTimeout(cmp.Or(s.o.Timeout, phaseTimeout)), gomail.WithHELO(s.helo), gomail.WithoutNoop(),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.o.Host, MinVersion: tls.VersionTLS12, RootCAs: s.o.RootCAs}),
	}
	switch {
	case s.o.TLS != TLSNone && (s.o.ImplicitTLS || s.o.Port == implicitTLSPort):
		options = append(options, gomail.WithSSL())
	case s.o.TLS == TLSMandatory:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case s.o.TLS == TLSOpportunistic:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.o.Username != "" {
		way := gomail.SMTPAuthAutoDiscover
		if s.o.TLS == TLSNone { // which the configuration allows for a server on this machine
			way = gomail.SMTPAuthPlainNoEnc
		}
		options = append(options, gomail.WithSMTPAuth(way), gomail.WithUsername(s.o.Username), gomail.WithPassword(s.o.Password))
	}
	client, err := gomail.NewClient(s.o.Host, options...)
	if err != nil {
		return nil, fmt.Errorf("mail: SMTP: %w", err)
	}
	return client, nil
}

// Deliver implements Transport.
func (s *SMTP) Deliver(ctx context.Context, e Envelope) error {
	message, err := s.message(e)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return s.readable(err)
	}
	err = client.Send(message)
	_ = client.Close() // whether the server says goodbye changes nothing
	if message.IsDelivered() {
		return nil
	}
	return s.readable(err)
}

// Check connects and signs in, and sends nothing.
func (s *SMTP) Check(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return s.readable(err)
	}
	_ = client.Close() // whether the server says goodbye changes nothing
	return nil
}

// message writes e as RFC 5322 has it: multipart/alternative of text and HTML, with
// encoded headers and lines of at most 76 characters.
func (s *SMTP) message(e Envelope) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := m.From(s.o.From); err != nil {
		return nil, Refusal{"the sender WAYPOST_MAIL_FROM is no address"}
	}
	if !IsAddress(e.To) {
		return nil, Refusal{"the recipient's address is no address"}
	}
	if err := m.To(e.To); err != nil {
		return nil, Refusal{"the recipient's address is no address"}
	}
	m.Subject(e.Subject)
	m.SetMessageIDWithValue(e.MessageID)
	m.SetDateWithValue(e.Date)
	// RFC 3834 section 5: nobody's holiday answers to it.
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetGenHeader("X-Auto-Response-Suppress", "All")
	m.SetBodyString(gomail.TypeTextPlain, e.Text)
	m.AddAlternativeString(gomail.TypeTextHTML, e.HTML)
	return m, nil
}

// readable says for operators what went wrong, a Refusal if it was the server's last
// word: 5xx to MAIL, RCPT or DATA. 5xx before, as for a wrong password, is ours to
// mend.
func (s *SMTP) readable(err error) error {
	if err == nil {
		return errors.New("the mail server gave no answer")
	}
	said := err.Error()
	if s.o.Password != "" {
		said = strings.ReplaceAll(said, s.o.Password, "[password]")
	}
	failed, ok := errors.AsType[*gomail.SendError](err)
	if !ok {
		return fmt.Errorf("%s: %s", net.JoinHostPort(s.o.Host, fmt.Sprint(s.o.Port)), said)
	}
	said, _, _ = strings.Cut(said, ", affected ")
	switch failed.Reason {
	case gomail.ErrSMTPMailFrom, gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
		if failed.ErrorCode() >= 500 && failed.ErrorCode() <= 599 {
			return Refusal{said}
		}
	}
	return errors.New(said)
}
