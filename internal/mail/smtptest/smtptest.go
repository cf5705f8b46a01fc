// Package smtptest has a mail server for tests: it keeps what it takes over, and fails
// where it is told to.
package smtptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Mail is what the server took over.
type Mail struct {
	From, To string // the envelope
	Header   netmail.Header
	Subject  string // decoded
	Text     string
	HTML     string
	Raw      []byte
}

// Steps of a conversation that can fail.
const (
	AtAuth = "AUTH"
	AtMail = "MAIL"
	AtRcpt = "RCPT"
	AtEnd  = "." // after the mail
)

// Options say how the server is. The zero value takes everything, in the clear.
type Options struct {
	// Addr is where it listens; "" is a free port of this machine.
	Addr string
	// TLS offers STARTTLS.
	TLS *tls.Config
	// Implicit speaks TLS from the first byte instead.
	Implicit bool
	// Username and Password are demanded, if there is one.
	Username, Password string
}

// Server is a mail server. It is safe for concurrent use.
type Server struct {
	Addr string // host and port
	o    Options
	smtp *smtp.Server

	mu    sync.Mutex
	mails []Mail
	fails map[string]int // the code of the answer, by step
	// onData is called with each mail before it is answered.
	onData func(Mail)
}

// Start starts a server that stops with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), o: o, fails: map[string]int{}}
	s.smtp = smtp.NewServer(s)
	s.smtp.Domain, s.smtp.TLSConfig, s.smtp.AllowInsecureAuth = "sink.example", o.TLS, true
	s.smtp.ErrorLog = quiet{}
	if o.Implicit {
		l = tls.NewListener(l, o.TLS)
	}
	go func() { _ = s.smtp.Serve(l) }()
	t.Cleanup(s.Stop)
	return s
}

// quiet is a log that nobody reads: connections of killed processes break.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// Stop closes the server and its connections.
func (s *Server) Stop() { _ = s.smtp.Close() }

// Port is where the server listens.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Fail answers a step with that code from now on; 0 ends that.
func (s *Server) Fail(step string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[step] = code
}

// OnData sets what is called with each mail before it is answered.
func (s *Server) OnData(f func(Mail)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onData = f
}

// Mails returns the mails to an address, oldest first; "" is every address.
func (s *Server) Mails(to string) []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Mail
	for _, m := range s.mails {
		if to == "" || m.To == to {
			list = append(list, m)
		}
	}
	return list
}

func (s *Server) failure(step string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.fails[step]; code != 0 {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 0, 0}, Message: "told to refuse"}
	}
	return nil
}

// NewSession implements smtp.Backend.
func (s *Server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }

type session struct {
	server   *Server
	from, to string
	signedIn bool
}

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string {
	if s.server.o.Username == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if err := s.server.failure(AtAuth); err != nil {
			return err
		}
		if username != s.server.o.Username || password != s.server.o.Password {
			return smtp.ErrAuthFailed
		}
		s.signedIn = true
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.o.Username != "" && !s.signedIn {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return s.server.failure(AtMail)
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.server.failure(AtRcpt)
}

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := read(raw)
	if err != nil {
		return err
	}
	m.From, m.To = s.from, s.to
	if err := s.server.failure(AtEnd); err != nil {
		return err
	}
	s.server.mu.Lock()
	s.server.mails = append(s.server.mails, m)
	onData := s.server.onData
	s.server.mu.Unlock()
	if onData != nil {
		onData(m)
	}
	return nil
}

// Reset implements smtp.Session.
func (s *session) Reset() {}

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }

// read takes a mail apart: multipart/alternative with a text and an HTML.
func read(raw []byte) (Mail, error) {
	m := Mail{Raw: raw}
	message, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return m, err
	}
	m.Header = message.Header
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return m, err
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		return m, errors.New("not multipart/alternative: " + kind)
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return m, err
		}
		var body io.Reader = part
		if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
			body = quotedprintable.NewReader(part)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return m, err
		}
		plain := strings.ReplaceAll(string(text), "\r\n", "\n")
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			m.HTML = plain
		} else {
			m.Text = plain
		}
	}
}

// Certificate makes a certificate for a host, and the pool that trusts it.
func Certificate(t testing.TB, host string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, pool
}
