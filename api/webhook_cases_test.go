package api_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// The adversarial catalogue of deliveries has 72 cases. "Case 48" or "Cases 39 to
// 47" stands at the test that proves it: signatures (1 to 21), bodies (22 to 38),
// fields (39 to 47) and routing (67 to 72) in this package's webhook_cases_*_test.go,
// published vectors in webhook_vectors_test.go, concurrency and failure (48 to 66) in
// internal/webhook, 30 also in e2e.

// The clock of these tests stands at the time of the published vectors, and the
// secrets are theirs.
const (
	casesNow      = 1700000000
	casesPayment  = "whsec_test_secret"
	casesCodeHost = "0123456789abcdef"
	casesStandard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	casesBody     = `{"id":"evt_1","type":"paid"}`
)

// cases is a receiver with one provider of each scheme, the variables that hold
// their secrets, and what it logs.
type cases struct {
	hooks
	mu  sync.Mutex
	env map[string]string
	log lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newCases(t *testing.T) *cases {
	t.Helper()
	declared, err := webhook.ParseYAML("cases", []byte(`
webhooks:
  providers:
    - {name: acme, secret_env: ACME, verifier: {type: hmac, header: X-Acme-Signature}, extractor: {type: json, type_field: kind, id_field: meta.uid}}
    - {name: modern, secret_env: MODERN, verifier: {type: standard-webhooks}, extractor: {type: standard-webhooks}}
    - {name: small, secret_env: CODEHOST_WEBHOOK_SECRET, verifier: {type: code-host}, extractor: {type: json, id_field: id}, body_limit: 64}
`))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := webhook.NewRegistry(append(declared.Providers, webhook.Payment(), webhook.CodeHost()))
	if err != nil {
		t.Fatal(err)
	}
	c := &cases{env: map[string]string{
		"PAYMENT_WEBHOOK_SECRET": casesPayment, "CODEHOST_WEBHOOK_SECRET": casesCodeHost, "ACME": casesCodeHost, "MODERN": casesStandard,
	}}
	c.hooks = newHooks(t, func(o *webhook.Options) {
		o.Registry = registry
		o.Now = func() time.Time { return time.Unix(casesNow, 999_999_999) }
		o.Logger = slog.New(slog.NewJSONHandler(&c.log, nil))
		o.LookupSecret = func(name string) string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.env[name]
		}
	})
	return c
}

func (c *cases) setenv(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env[name] = value
}

func mac(secret string, parts ...string) string {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = h.Write([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(h.Sum(nil))
}

// sign returns the signature headers of a provider for the body.
func casesSign(provider, body string) http.Header {
	t := strconv.Itoa(casesNow)
	switch provider {
	case "payment":
		return http.Header{"Payment-Signature": {"t=" + t + ",v1=" + mac(casesPayment, t, ".", body)}}
	case "acme":
		return http.Header{"X-Acme-Signature": {mac(casesCodeHost, body)}}
	}
	return http.Header{"X-Hub-Signature-256": {"sha256=" + mac(casesCodeHost, body)}}
}

// post delivers over HTTP and returns the status, the code and the members.
func (c *cases) post(t *testing.T, provider, body string, h http.Header) (int, string, map[string]any) {
	t.Helper()
	r := c.request(t, http.MethodPost, "/webhooks/"+provider, []byte(body))
	r.Header = h
	status, _, members := send(t, r)
	e, _ := members["error"].(map[string]any)
	code, _ := e["code"].(string)
	return status, code, members
}

// attack is a case of a catalogue: what is sent, and the verdict.
type attack struct {
	name     string // starts with the case's number
	provider string
	body     string
	header   http.Header
	status   int
}

func (c *cases) try(t *testing.T, list []attack) {
	t.Helper()
	codes := map[int]string{401: "invalid_signature", 400: "invalid_payload", 413: "payload_too_large", 404: "provider_not_found"}
	for _, a := range list {
		status, code, members := c.post(t, a.provider, a.body, a.header)
		if status != a.status || code != codes[a.status] {
			t.Errorf("%s: %d %v, want %d", a.name, status, members, a.status)
		}
	}
}

func hub(value ...string) http.Header  { return http.Header{"X-Hub-Signature-256": value} }
func acme(value ...string) http.Header { return http.Header{"X-Acme-Signature": value} }
func pay(value ...string) http.Header  { return http.Header{"Payment-Signature": value} }

// wire sends bytes as they are and returns the answer's status line, "" when the
// connection is closed without one.
func (c *cases) wire(t *testing.T, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return ""
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // a reset after the answer is as good as its end
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}

// request is a code host's delivery, byte by byte: what a client library would not
// send.
func request(path, signature string, length int, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s", path, signature, length, body)
}

// tryOnTheWire sends each text and holds the answer against the status wanted.
func (c *cases) tryOnTheWire(t *testing.T, list map[string]wireCase) {
	t.Helper()
	for name, v := range list {
		if got := c.wire(t, v.text); !strings.HasPrefix(got, "HTTP/1.1 "+v.want+" ") {
			t.Errorf("%s: %q, want %s", name, got, v.want)
		}
	}
}

// wireCase is an attack as bytes.
type wireCase struct{ text, want string }

// goodCodeHost is the signature of casesBody.
func goodCodeHost() string { return "sha256=" + mac(casesCodeHost, casesBody) }

// listWorks reads the administrator's list as text: the payloads in it are more
// than a map of Go's numbers can hold.
func (c *cases) listWorks(t *testing.T, after string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(c.admin(t, "GET", "/api/admin/webhooks?limit=100"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !json.Valid(body) {
		t.Fatalf("%s: the list is %d %.300s, %v", after, resp.StatusCode, body, err)
	}
}

func (c *cases) count(t *testing.T, sql string) int {
	t.Helper()
	var n int
	if err := c.db.Pool().QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
