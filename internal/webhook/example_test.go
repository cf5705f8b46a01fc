package webhook_test

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/webhook"
)

// The example of docs/webhooks.md, run as it is printed there.
func TestAProviderInCodeAsTheDocumentationHasIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `create table orders_paid (event uuid primary key); grant insert on orders_paid to waypost_app`)
	// begin
	acme := webhook.Registration{
		Name:      "acme",
		SecretEnv: "ACME_SECRET",
		// The function gets copies; a panic is a refusal. X-Token is stored redacted.
		Verifier: webhook.VerifyWith(func(secret, body []byte, h http.Header) error {
			if subtle.ConstantTimeCompare([]byte(h.Get("X-Token")), secret) != 1 {
				return errors.New("wrong token")
			}
			return nil
		}, "X-Token"),
		Extractor: webhook.BodyFields{Type: "kind", ID: "meta.uid"},
	}
	registry, err := webhook.NewRegistry([]webhook.Registration{acme},
		webhook.Handle("acme", "order.paid", func(ctx context.Context, d *webhook.Delivery) error {
			tx, err := d.Tx(ctx) // commits if and only if the event becomes processed
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `insert into orders_paid (event) values ($1)`, d.Event.ID)
			return err
		}))
	// end
	if err != nil {
		t.Fatal(err)
	}
	r := f.receiver(t, setup{secrets: map[string]string{"ACME_SECRET": "s3cret"}, change: func(o *webhook.Options) { o.Registry = registry }})
	in := webhook.Inbound{Provider: "acme", Header: http.Header{"X-Token": {"s3cret"}}, Body: []byte(`{"kind":"order.paid","meta":{"uid":"o-1"}}`)}
	if got := mustReceive(t, r, in); got.Status != webhook.Processed || got.ExternalID != "o-1" {
		t.Errorf("%+v", got)
	}
	if n := f.count(t, `select count(*) from orders_paid`); n != 1 {
		t.Errorf("%d effects", n)
	}
	in.Header = http.Header{"X-Token": {"wrong"}}
	if _, err := r.Receive(t.Context(), in); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("a wrong token: %v", err)
	}

	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, rest, _ := strings.Cut(read("example_test.go"), "\t// begin\n")
	code, _, _ := strings.Cut(rest, "\t// end\n")
	if !strings.Contains(read("../../docs/webhooks.md"), "```go\n"+strings.TrimPrefix(strings.ReplaceAll(code, "\n\t", "\n"), "\t")+"```") {
		t.Error("docs/webhooks.md prints another example")
	}
}
