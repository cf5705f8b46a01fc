package e2e_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/e2e/outside"
)

// Case 30 of the adversarial catalogue: a sender that holds a connection with half
// a header, or half a body, is let go, and nothing is stored.
func TestCase30ASlowSenderIsLetGo(t *testing.T) {
	t.Parallel()
	p, databaseURL := serve(t, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret)
	t.Run("senders", func(t *testing.T) {
		for name, c := range map[string]struct{ text, want string }{
			"half a header": {"POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nPayment-Sig", ""},
			"half a body":   {"POST /webhooks/payment HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 408 "},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				if err := conn.SetDeadline(time.Now().Add(outside.Patience)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, c.text); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(conn) // ends when the server closes
				if err != nil || !strings.HasPrefix(string(answer), c.want) || strings.Contains(string(answer), "HTTP/1.1 5") {
					t.Errorf("%q, %v", answer, err)
				}
			})
		}
	})
	token := admin(t, p, databaseURL)
	a := outside.Do(t, "GET", p.url+"/api/admin/webhooks?total=true", "", "Authorization", "Bearer "+token)
	if !bytesContain(a.Body, `"total":0`) {
		t.Errorf("stored: %s", a.Body)
	}
}
