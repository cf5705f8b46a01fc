package webhook_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waypost/waypost/internal/webhook"
)

func TestTheConditionTellsWhatWaitsFailsAndIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	env := secrets()
	delete(env, "CODEHOST_WEBHOOK_SECRET")
	r := f.receiver(t, setup{secrets: env, bindings: []webhook.Binding{webhook.Handle("payment", "bad", failing)}})
	bad := func(n int) {
		for range n {
			in := signed(t, "payment", "paid", "evt_x", `{}`)
			in.Header["Payment-Signature"] = []string{"yo"}
			if _, err := r.Receive(t.Context(), in); err == nil {
				t.Fatal("it was not refused")
			}
		}
	}
	condition := func() webhook.Condition {
		c, err := r.Condition(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := condition(); c.Waiting != 0 || !c.WaitingSince.IsZero() || c.Failed != 0 || len(c.Providers) != 2 || !c.Providers[0].StoredAt.IsZero() || !c.Providers[0].RefusedAt.IsZero() {
		t.Errorf("of an empty database: %+v", c)
	}
	bad(3)
	rejected(t, r, webhook.RejectedFilter{}, 3)
	if p := condition().Providers[0]; p.Refused != 3 {
		t.Errorf("before the first delivery: %+v", p)
	}
	eventually(t, r, mustReceive(t, r, signed(t, "payment", "bad", "evt_1", `{}`)).ID, webhook.Failed)
	bad(2)
	in := signed(t, "codehost", "push", "d-1", `{}`)
	if _, err := r.Receive(t.Context(), in); err == nil {
		t.Fatal("a provider without a secret took a delivery")
	}
	rejected(t, r, webhook.RejectedFilter{}, 6)
	f.exec(t, "insert into webhook_alerts (provider, streak, alerted_at) values ('payment', 12, now())")
	want := webhook.Condition{Failed: 1, Providers: []webhook.ProviderCondition{
		{Name: "payment", SecretEnv: "PAYMENT_WEBHOOK_SECRET", SecretSet: true, Refused: 2, Reason: string(webhook.ReasonMalformed), FailureStreak: 12},
		{Name: "codehost", SecretEnv: "CODEHOST_WEBHOOK_SECRET", Refused: 1, Reason: string(webhook.ReasonNoSecret)},
	}}
	got := condition()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(webhook.ProviderCondition{}, "RefusedAt", "StoredAt")); diff != "" {
		t.Error(diff)
	}
	if p := got.Providers; p[0].StoredAt.IsZero() || p[0].RefusedAt.Before(p[0].StoredAt) || !p[1].StoredAt.IsZero() || time.Since(p[1].RefusedAt) > time.Hour {
		t.Errorf("%+v", p)
	}
	f.exec(t, "update webhook_retention set emptied_until = now() + interval '1 hour'")
	f.exec(t, "update webhook_events set status = 'pending', lease_until = now(), created_at = '2026-01-02' where event_type = 'bad'")
	if c := condition(); c.Failed != 0 || c.Waiting != 1 || !c.WaitingSince.Equal(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", c)
	}
	f.exec(t, "update webhook_events set status = 'failed', lease_until = null")
	if c := condition(); c.Failed != 0 {
		t.Errorf("what has no body left is to be replayed: %+v", c)
	}
}
