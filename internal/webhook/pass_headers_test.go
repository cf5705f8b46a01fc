package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
	"github.com/waypost/waypost/internal/webhook/signature"
)

func TestAVerifierBehindWaypostSeesWhatTheProviderSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newTarget(t, status(http.StatusServiceUnavailable))
	plain := newTarget(t, status(http.StatusOK))
	r := f.receiver(t, setup{
		change: func(o *webhook.Options) { o.Sealer = sealer(t, 1) },
		bindings: []webhook.Binding{to(t, "", webhook.ForwardTarget{Name: "a", URL: s.URL, PassHeaders: true, Headers: map[string]string{"X-Mine": "1"}},
			webhook.ForwardTarget{Name: "b", URL: plain.URL})},
	})
	in := signed(t, "payment", "paid", "evt_1", `{"n" : 1}`)
	in.Header.Set("X-Api-Key", "of the provider")
	in.Header.Set("X-Hop", "of the connection")
	in.Header.Set("Connection", "keep-alive, X-Hop")
	in.Header.Set("User-Agent", "Payment/1.0")
	got := mustReceive(t, r, in)
	due(t, r)
	s.answers(status(http.StatusOK))
	f.forward(t, r)
	if s.got() != 2 {
		t.Fatalf("%d requests", s.got())
	}
	for i, q := range s.requests {
		err := (signature.Timestamped{Header: "Payment-Signature"}).Verify([]byte(paymentSecret), []byte(s.bodies[i]), q.Header, time.Now())
		if err != nil || q.Header.Get("X-Api-Key") != "of the provider" || q.UserAgent() != "Payment/1.0" || q.Header.Get("X-Hop") != "" || q.Header.Get("X-Mine") != "1" {
			t.Errorf("%v: %v", err, q.Header)
		}
		if err := (signature.Standard{}).Verify([]byte(forwardSecret), []byte(s.bodies[i]), q.Header, time.Now()); err != nil {
			t.Errorf("Waypost's own signature: %v", err)
		}
	}
	if h := plain.requests[0].Header; h.Get("Payment-Signature") != "" || h.Get("X-Api-Key") != "" {
		t.Errorf("a target that gets no headers got %v", h)
	}
	// Settled: they are erased, and a replay goes without them and says so.
	if n := f.count(t, `select count(*) from webhook_events where status = 'processed' and sealed_headers is null`); n != 1 {
		t.Error("the headers outlive their event")
	}
	for _, o := range mustFind(t, r, got.ID).Targets {
		if o.HeadersGone {
			t.Errorf("%+v", o)
		}
	}
	replay(t, r, got.ID, true)
	due(t, r)
	if h := s.requests[2].Header; h.Get("Payment-Signature") != "" || !strings.HasSuffix(h.Get("Webhook-Id"), "_r1") {
		t.Errorf("%v", h)
	}
	for _, o := range mustFind(t, r, got.ID).Targets {
		if o.HeadersGone != (o.Name == "a") {
			t.Errorf("%+v", o)
		}
	}
}

func TestATargetOfAProviderWhoseSignatureIsATokenGetsNoHeaders(t *testing.T) {
	t.Parallel()
	p := webhook.Payment()
	p.Verifier = signature.Token{Header: "X-Token"}
	_, err := webhook.NewRegistry([]webhook.Registration{p}, to(t, "", webhook.ForwardTarget{URL: "http://localhost", PassHeaders: true}))
	if err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
	two := webhook.ForwardTarget{Name: "a", URL: "http://localhost"}
	if _, err := webhook.NewRegistry([]webhook.Registration{webhook.Payment()}, to(t, "x", two), to(t, "y", two)); err == nil || !strings.Contains(err.Error(), `the name "a"`) {
		t.Errorf("%v", err)
	}
}
