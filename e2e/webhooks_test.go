package e2e_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/e2e/outside"
)

func TestADeliveryIsProcessedOnceAndTamperingIsRefused(t *testing.T) {
	t.Parallel()
	p, url := serve(t, "PAYMENT_WEBHOOK_SECRET="+outside.PaymentSecret)
	token := admin(t, p, url)

	body := `{"id":"evt_1","type":"payment.succeeded","amount":9007199254740993,"note":"\u0000"}`
	deliver := func(body, signature string) outside.Answer {
		return outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", signature)
	}
	var first, second outside.Receipt
	a := deliver(body, outside.PaymentSignature(outside.PaymentSecret, body))
	a.Into(t, &first)
	if diff := cmp.Diff(outside.Receipt{Status: "processed", ID: first.ID, EventType: "payment.succeeded", ExternalID: "evt_1"}, first); diff != "" || a.Status != 200 || first.ID == "" {
		t.Fatalf("%d %s", a.Status, diff)
	}
	a = deliver(body, outside.PaymentSignature(outside.PaymentSecret, body))
	a.Into(t, &second)
	if diff := cmp.Diff(outside.Receipt{Status: "skipped", Reason: "duplicate", ID: first.ID}, second); diff != "" || a.Status != 200 {
		t.Errorf("the same again: %d %s", a.Status, diff)
	}
	signature := outside.PaymentSignature(outside.PaymentSecret, body)
	wantError(t, deliver(body+" ", signature), 401, "invalid_signature")

	var list struct {
		Data []struct {
			ID      string
			Status  string
			Payload map[string]any
		}
		Meta map[string]any
	}
	a = outside.Do(t, "GET", p.url+"/api/admin/webhooks", "", "Authorization", "Bearer "+token)
	a.Into(t, &list)
	if len(list.Data) != 1 || list.Data[0].ID != first.ID || list.Data[0].Status != "processed" {
		t.Errorf("the list: %s", a.Body)
	}
	if !bytesContain(a.Body, `9007199254740993`) || !bytesContain(a.Body, `\u0000`) {
		t.Errorf("the payload changed: %s", a.Body)
	}
	wantError(t, outside.Do(t, "GET", p.url+"/api/admin/webhooks", ""), 401, "unauthenticated")
}

func TestTheCodeHostsPublishedVectorPassesItsVerifier(t *testing.T) {
	t.Parallel()
	// "Validating webhook deliveries", GitHub's documentation: secret, body, signature.
	p, _ := serve(t, "CODEHOST_WEBHOOK_SECRET=It's a Secret to Everybody")
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	a := outside.Do(t, "POST", p.url+"/webhooks/codehost", "Hello, World!", "X-Hub-Signature-256", signature)
	// The signature is right, so what is refused is a body that is no JSON.
	if e := wantError(t, a, 400, "invalid_payload"); e.Error.Details["body"] == "" {
		t.Errorf("details %v do not name the body", e.Error.Details)
	}
	a = outside.Do(t, "POST", p.url+"/webhooks/codehost", "Hello, World?", "X-Hub-Signature-256", signature)
	wantError(t, a, 401, "invalid_signature")
}

func TestASecretIsRotatedWithoutARefusal(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, "PAYMENT_WEBHOOK_SECRET=new secret", "PAYMENT_WEBHOOK_SECRET_PREVIOUS=old secret")
	for i, secret := range []string{"new secret", "old secret"} {
		body := fmt.Sprintf(`{"id":"evt_%d","type":"x"}`, i)
		if a := outside.Do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", outside.PaymentSignature(secret, body)); a.Status != 200 {
			t.Errorf("%s: %d %s", secret, a.Status, a.Body)
		}
	}
}
