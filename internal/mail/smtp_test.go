package mail_test

import (
	"bufio"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/mail/smtptest"
)

func smtpTo(t *testing.T, addr string, way mail.TLS, change func(*mail.SMTPOptions)) *mail.SMTP {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	o := mail.SMTPOptions{Host: host, Port: n, TLS: way, From: "Wäypost <waypost@sender.example>"}
	if change != nil {
		change(&o)
	}
	s, err := mail.NewSMTP(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func envelope() mail.Envelope {
	return mail.Envelope{
		Content: mail.Content{
			Subject: "Zoë, 你好 " + strings.Repeat("very ", 40) + "long", Text: "Hello Zoë\n.\n..\n" + strings.Repeat("x", 2000) + "\n",
			HTML: "<p>Hello Zoë</p>" + strings.Repeat("y", 2000),
		},
		Kind: mail.VerifyEmail, To: "ada@example.com", MessageID: "one@sender.example", Date: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
	}
}

func TestAMailIsAlternativesOfTextAndHTMLWithTheHeadersOfAProgram(t *testing.T) {
	t.Parallel()
	sink := smtptest.Start(t, smtptest.Options{})
	if err := smtpTo(t, sink.Addr, mail.TLSNone, nil).Deliver(t.Context(), envelope()); err != nil {
		t.Fatal(err)
	}
	got, want := sink.Mails("ada@example.com")[0], envelope()
	if got.Subject != want.Subject || got.Text != want.Text || got.HTML != want.HTML || got.From != "waypost@sender.example" {
		t.Errorf("%s", got.Raw)
	}
	for name, value := range map[string]string{
		"Message-Id": "<one@sender.example>", "Auto-Submitted": "auto-generated", "Date": "Fri, 02 Jan 2026 15:04:05 +0000", "To": "<ada@example.com>", "Mime-Version": "1.0",
	} {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	for line := range strings.SplitSeq(string(got.Raw), "\r\n") {
		if len(line) > 78 || strings.ContainsFunc(line, func(r rune) bool { return r > 0x7e || r < ' ' && r != '\t' }) {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}

func TestCase49HostileSubjectsAndAddressesAddNoHeader(t *testing.T) {
	t.Parallel()
	sink := smtptest.Start(t, smtptest.Options{})
	e := envelope()
	e.Subject = "Hello\r\nBcc: victim@example.com\r\n\r\nbody"
	if err := smtpTo(t, sink.Addr, mail.TLSNone, nil).Deliver(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := sink.Mails(""); len(got) != 1 || got[0].Header.Get("Bcc") != "" || got[0].Text != e.Text {
		t.Errorf("%s", got[0].Raw)
	}
	e.To = "ada@example.com>\r\nRCPT TO:<victim@example.com"
	if err := smtpTo(t, sink.Addr, mail.TLSNone, nil).Deliver(t.Context(), e); err == nil || len(sink.Mails("")) != 1 {
		t.Errorf("a hostile address: %v", err)
	}
}

// isFinal says whether an error is a server's last word.
func isFinal(err error) bool {
	_, final := errors.AsType[mail.Refusal](err)
	return final
}

func TestOnlyFiveHundredsFromMAILOnAreFinal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step  string
		code  int
		final bool
	}{
		{smtptest.AtMail, 550, true}, {smtptest.AtMail, 451, false}, {smtptest.AtRcpt, 550, true}, {smtptest.AtRcpt, 450, false}, {smtptest.AtRcpt, 421, false},
		{smtptest.AtEnd, 554, true}, {smtptest.AtEnd, 452, false}, {smtptest.AtAuth, 535, false}, {smtptest.AtAuth, 454, false},
	} {
		config, pool := smtptest.Certificate(t, "127.0.0.1")
		sink := smtptest.Start(t, smtptest.Options{TLS: config, Username: "waypost", Password: "pl4nted-password"})
		sink.Fail(c.step, c.code)
		s := smtpTo(t, sink.Addr, mail.TLSMandatory, func(o *mail.SMTPOptions) {
			o.Username, o.Password, o.RootCAs = "waypost", "pl4nted-password", pool
		})
		err := s.Deliver(t.Context(), envelope())
		if err == nil || isFinal(err) != c.final || strings.Contains(err.Error(), "pl4nted") || !strings.Contains(err.Error(), fmt.Sprint(c.code)) {
			t.Errorf("%d to %s: final %v, %v", c.code, c.step, isFinal(err), err)
		}
		sink.Fail(c.step, 0)
		if err := s.Deliver(t.Context(), envelope()); err != nil || len(sink.Mails("")) != 1 {
			t.Errorf("after %d to %s: %v", c.code, c.step, err)
		}
	}
}

func TestWithoutTheTLSThatIsDemandedNothingIsSent(t *testing.T) {
	t.Parallel()
	config, pool := smtptest.Certificate(t, "127.0.0.1")
	elsewhere, _ := smtptest.Certificate(t, "mail.example.com")
	for name, c := range map[string]struct {
		o     smtptest.Options
		way   mail.TLS
		roots *x509.CertPool
		sends bool
	}{
		"no STARTTLS, mandatory":          {smtptest.Options{}, mail.TLSMandatory, pool, false},
		"no STARTTLS, opportunistic":      {smtptest.Options{}, mail.TLSOpportunistic, pool, true},
		"another host's certificate":      {smtptest.Options{TLS: elsewhere}, mail.TLSMandatory, pool, false},
		"nobody's certificate":            {smtptest.Options{TLS: config}, mail.TLSMandatory, nil, false},
		"nobody's, opportunistic":         {smtptest.Options{TLS: config}, mail.TLSOpportunistic, nil, false},
		"a good one":                      {smtptest.Options{TLS: config}, mail.TLSMandatory, pool, true},
		"a good one, opportunistic":       {smtptest.Options{TLS: config}, mail.TLSOpportunistic, pool, true},
		"a password and no TLS, possible": {smtptest.Options{Username: "u", Password: "pl4nted"}, mail.TLSMandatory, pool, false},
		"from the first byte":             {smtptest.Options{TLS: config, Implicit: true, Username: "u", Password: "pl4nted"}, mail.TLSMandatory, pool, true},
		"another's, from the first byte":  {smtptest.Options{TLS: elsewhere, Implicit: true}, mail.TLSMandatory, pool, false},
	} {
		sink := smtptest.Start(t, c.o)
		err := smtpTo(t, sink.Addr, c.way, func(o *mail.SMTPOptions) {
			o.ImplicitTLS = c.o.Implicit
			o.RootCAs, o.Username, o.Password = c.roots, c.o.Username, c.o.Password
		}).Deliver(t.Context(), envelope())
		if (err == nil) != c.sends || isFinal(err) || (len(sink.Mails("")) == 1) != c.sends {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// script is a server that answers each line by what it begins with, and hangs where
// it has no answer.
func script(t *testing.T, answers map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprint(conn, answers[""])
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					word, _, _ := strings.Cut(lines.Text(), " ")
					fmt.Fprint(conn, answers[word])
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestDATAThatIsRefusedIsFinalAndAServerThatIsAwayIsNot(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"": "220 hi\r\n", "EHLO": "250 hi\r\n", "MAIL": "250 ok\r\n", "RCPT": "250 ok\r\n", "DATA": "554 no\r\n", "QUIT": "221 bye\r\n"}
	if err := smtpTo(t, script(t, answers), mail.TLSNone, nil).Deliver(t.Context(), envelope()); !isFinal(err) {
		t.Errorf("554 to DATA: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	if err := smtpTo(t, addr, mail.TLSNone, nil).Deliver(t.Context(), envelope()); err == nil || isFinal(err) {
		t.Errorf("nobody listens: %v", err)
	}
	greeting := script(t, map[string]string{"": "554 go away\r\n"})
	if err := smtpTo(t, greeting, mail.TLSNone, nil).Deliver(t.Context(), envelope()); err == nil || isFinal(err) {
		t.Errorf("554 as a greeting: %v", err)
	}
}

func TestAServerThatHangsEndsTheAttemptAtEachPhase(t *testing.T) {
	t.Parallel()
	all := map[string]string{"": "220 hi\r\n", "EHLO": "250 hi\r\n", "MAIL": "250 ok\r\n", "RCPT": "250 ok\r\n", "DATA": "354 go\r\n"}
	order := []string{"", "EHLO", "MAIL", "RCPT", "DATA", "."}
	done := make(chan string, len(order))
	for i, at := range order {
		answers := map[string]string{}
		for _, before := range order[:i] {
			answers[before] = all[before]
		}
		s := smtpTo(t, script(t, answers), mail.TLSNone, func(o *mail.SMTPOptions) { o.Timeout = 200 * time.Millisecond })
		go func() {
			if err := s.Deliver(t.Context(), envelope()); err == nil || isFinal(err) {
				t.Errorf("hangs at %q: %v", at, err)
			}
			done <- at
		}()
	}
	for range order {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("an attempt is never over")
		}
	}
}
