package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strings"
)

// Mail are the settings of mail.
type Mail struct {
	Driver   string `env:"WAYPOST_MAIL_DRIVER" flag:"mail-driver" for:"server" help:"smtp, log (a line in the log for each mail, with its link in dev only) or none; by default smtp if WAYPOST_SMTP_HOST is set, else log in dev and none elsewhere"`
	From     string `env:"WAYPOST_MAIL_FROM" flag:"mail-from" for:"server" help:"Sender of all mails, such as Waypost <waypost@example.com>; required by the driver smtp"`
	Host     string `env:"WAYPOST_SMTP_HOST" flag:"smtp-host" for:"server" help:"Mail server that takes the mails over"`
	Port     int    `env:"WAYPOST_SMTP_PORT" flag:"smtp-port" for:"server" envDefault:"587" help:"Its port; 465 speaks TLS from the first byte"`
	Username string `env:"WAYPOST_SMTP_USERNAME" flag:"smtp-username" for:"server" help:"User name there; without one nobody signs in"`
	Password string `env:"WAYPOST_SMTP_PASSWORD" help:"Password there"`
	TLS      string `env:"WAYPOST_SMTP_TLS" flag:"smtp-tls" for:"server" envDefault:"mandatory" help:"mandatory, opportunistic (TLS if the server offers it) or none"`
}

// Drivers of mail.
const (
	MailSMTP = "smtp"
	MailLog  = "log"
	MailNone = "none"
)

// implicitTLSPort is where servers speak nothing but TLS.
const implicitTLSPort = 465

// DriverIn is the driver, or its default: otherwise where no mail server is
// configured.
func (m Mail) DriverIn(otherwise string) string {
	switch {
	case m.Driver != "":
		return m.Driver
	case m.Host != "":
		return MailSMTP
	}
	return otherwise
}

func (m Mail) validate() error {
	var errs []error
	if !slices.Contains([]string{"", MailSMTP, MailLog, MailNone}, m.Driver) {
		errs = append(errs, fmt.Errorf("WAYPOST_MAIL_DRIVER: %q is not one of smtp, log, none", m.Driver))
	}
	if !slices.Contains([]string{"mandatory", "opportunistic", "none"}, m.TLS) {
		errs = append(errs, fmt.Errorf("WAYPOST_SMTP_TLS: %q is not one of mandatory, opportunistic, none", m.TLS))
	}
	if m.From != "" && !isSender(m.From) {
		errs = append(errs, errors.New("WAYPOST_MAIL_FROM is not an address such as waypost@example.com or Waypost <waypost@example.com>"))
	}
	if m.DriverIn(MailNone) == MailSMTP {
		errs = append(errs, m.smtpErrors()...)
	}
	return errors.Join(errs...)
}

// smtpErrors names what is missing or wrong for SMTP.
func (m Mail) smtpErrors() []error {
	var errs []error
	if m.Host == "" {
		errs = append(errs, errors.New("WAYPOST_SMTP_HOST is required by WAYPOST_MAIL_DRIVER=smtp"))
	}
	if strings.ContainsAny(m.Host, " /@\t\r\n") {
		errs = append(errs, errors.New("WAYPOST_SMTP_HOST is a host's name or address alone"))
	}
	if m.From == "" {
		errs = append(errs, errors.New("WAYPOST_MAIL_FROM is required to send mail by SMTP: the sender's address"))
	}
	if m.Port < 1 || m.Port > 65535 {
		errs = append(errs, errors.New("WAYPOST_SMTP_PORT must be 1 to 65535"))
	}
	if (m.Username == "") != (m.Password == "") {
		errs = append(errs, errors.New("WAYPOST_SMTP_USERNAME and WAYPOST_SMTP_PASSWORD go together: set both or neither"))
	}
	if m.TLS != "none" {
		return errs
	}
	if m.Port == implicitTLSPort {
		errs = append(errs, errors.New("WAYPOST_SMTP_TLS can't be none on port 465, which speaks nothing but TLS"))
	}
	if m.Password != "" && !isLocal(m.Host) {
		errs = append(errs, errors.New("WAYPOST_SMTP_TLS=none would send WAYPOST_SMTP_PASSWORD in the clear; only a server on this machine may get it so"))
	}
	return errs
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isSender reports whether s is one mailbox of RFC 5322 whose address is ASCII.
func isSender(s string) bool {
	if strings.ContainsAny(s, "\r\n\x00") {
		return false
	}
	a, err := mail.ParseAddress(s)
	return err == nil && !strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
