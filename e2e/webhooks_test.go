package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const paymentSecret = "a payment secret"

func mac(secret, message string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(message))
	return hex.EncodeToString(h.Sum(nil))
}

func paymentSignature(secret, body string) string {
	t := strconv.FormatInt(time.Now().Unix(), 10)
	return "t=" + t + ",v1=" + mac(secret, t+"."+body)
}

// receipt is the receiver's bare answer.
type receipt struct {
	Status     string
	Reason     string
	ID         string
	EventType  string `json:"event_type"`
	ExternalID string `json:"external_id"`
}

func TestADeliveryIsProcessedOnceAndTamperingIsRefused(t *testing.T) {
	t.Parallel()
	p, url := serve(t, "PAYMENT_WEBHOOK_SECRET="+paymentSecret)
	token := admin(t, p, url)

	body := `{"id":"evt_1","type":"payment.succeeded","amount":9007199254740993,"note":"\u0000"}`
	deliver := func(body, signature string) answer {
		return do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", signature)
	}
	var first, second receipt
	a := deliver(body, paymentSignature(paymentSecret, body))
	a.into(t, &first)
	if diff := cmp.Diff(receipt{Status: "processed", ID: first.ID, EventType: "payment.succeeded", ExternalID: "evt_1"}, first); diff != "" || a.status != 200 || first.ID == "" {
		t.Fatalf("%d %s", a.status, diff)
	}
	a = deliver(body, paymentSignature(paymentSecret, body))
	a.into(t, &second)
	if diff := cmp.Diff(receipt{Status: "skipped", Reason: "duplicate", ID: first.ID}, second); diff != "" || a.status != 200 {
		t.Errorf("the same again: %d %s", a.status, diff)
	}
	signature := paymentSignature(paymentSecret, body)
	wantError(t, deliver(body+" ", signature), 401, "invalid_signature")

	var list struct {
		Data []struct {
			ID      string
			Status  string
			Payload map[string]any
		}
		Meta map[string]any
	}
	a = do(t, "GET", p.url+"/api/admin/webhooks", "", "Authorization", "Bearer "+token)
	a.into(t, &list)
	if len(list.Data) != 1 || list.Data[0].ID != first.ID || list.Data[0].Status != "processed" {
		t.Errorf("the list: %s", a.body)
	}
	if !bytesContain(a.body, `9007199254740993`) || !bytesContain(a.body, `\u0000`) {
		t.Errorf("the payload changed: %s", a.body)
	}
	wantError(t, do(t, "GET", p.url+"/api/admin/webhooks", ""), 401, "unauthenticated")
}

func TestTheCodeHostsPublishedVectorPassesItsVerifier(t *testing.T) {
	t.Parallel()
	// "Validating webhook deliveries", GitHub's documentation: secret, body, signature.
	p, _ := serve(t, "CODEHOST_WEBHOOK_SECRET=It's a Secret to Everybody")
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	a := do(t, "POST", p.url+"/webhooks/codehost", "Hello, World!", "X-Hub-Signature-256", signature)
	// The signature is right, so what is refused is a body that is no JSON.
	if e := wantError(t, a, 400, "invalid_payload"); e.Error.Details["body"] == "" {
		t.Errorf("details %v do not name the body", e.Error.Details)
	}
	a = do(t, "POST", p.url+"/webhooks/codehost", "Hello, World?", "X-Hub-Signature-256", signature)
	wantError(t, a, 401, "invalid_signature")
}

func TestASecretIsRotatedWithoutARefusal(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, "PAYMENT_WEBHOOK_SECRET=new secret", "PAYMENT_WEBHOOK_SECRET_PREVIOUS=old secret")
	for i, secret := range []string{"new secret", "old secret"} {
		body := fmt.Sprintf(`{"id":"evt_%d","type":"x"}`, i)
		if a := do(t, "POST", p.url+"/webhooks/payment", body, "Payment-Signature", paymentSignature(secret, body)); a.status != 200 {
			t.Errorf("%s: %d %s", secret, a.status, a.body)
		}
	}
}
