package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/webhook"
)

// rejected waits until the log has as many entries as wanted and returns them,
// newest first.
func rejected(t *testing.T, r *faces, f webhook.RejectedFilter, want int) []webhook.Rejected {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		list, err := r.ListRejected(ctx, f, nil, 10_000)
		if err == nil && len(list) == want {
			return list
		}
		if ctx.Err() != nil {
			t.Fatalf("the log has %d entries, want %d; %v", len(list), want, err)
		}
	}
}

func TestEveryRefusalIsLoggedWithItsReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	env := secrets()
	r := f.receiver(t, setup{secrets: env})
	good := signed(t, "payment", "paid", "evt_1", `{}`)
	change := func(value ...string) webhook.Inbound {
		in := signed(t, "payment", "paid", "evt_1", `{}`)
		in.Header["Payment-Signature"] = value
		return in
	}
	for _, c := range []struct {
		in   webhook.Inbound
		want webhook.Reason
	}{
		{webhook.Inbound{Provider: "nobody"}, webhook.ReasonProvider},
		{change(), webhook.ReasonMissing},
		{change("yo"), webhook.ReasonMalformed},
		{change("t=1,v1=00", "t=1,v1=00"), webhook.ReasonRepeated},
		{change("t=1,v1=00"), webhook.ReasonTooOld},
		{change("t=99999999999,v1=00"), webhook.ReasonTooNew},
		{webhook.Inbound{Provider: "payment", Header: good.Header, Body: []byte(`[]`)}, webhook.ReasonMismatch},
		{signed(t, "codehost", "push", "1", `{}`), ""},
		{withBody(t, "codehost", "not JSON"), webhook.ReasonBody},
		{signed(t, "codehost", strings.Repeat("x", 101), "1", `{}`), webhook.ReasonField},
	} {
		_, err := r.Receive(t.Context(), c.in)
		if (err == nil) != (c.want == "") {
			t.Fatalf("%s: %v", c.want, err)
		}
		if c.want != "" {
			rejected(t, r, webhook.RejectedFilter{Reason: c.want}, 1)
		}
	}
	clear(env)
	if _, err := r.Receive(t.Context(), good); !errors.Is(err, webhook.ErrSignature) {
		t.Fatal(err)
	}
	rejected(t, r, webhook.RejectedFilter{Reason: webhook.ReasonNoSecret}, 1)
	for err, want := range map[error]webhook.Reason{
		fault.New(fault.TooLarge, "x", "x"):                                    webhook.ReasonTooLarge,
		fault.New(fault.Timeout, "x", "x"):                                     webhook.ReasonSlow,
		webhook.ErrPayload.Because(webhook.ErrIncomplete):                      webhook.ReasonIncomplete,
		webhook.ErrPayload.Because(errors.New("an extractor's")):               webhook.ReasonExtractor,
		webhook.ErrSignature.Because(errors.New("a verifier's")):               webhook.ReasonVerifier,
		webhook.ErrSignature.Because(fmt.Errorf("x: %w", io.ErrUnexpectedEOF)): webhook.ReasonVerifier,
	} {
		before := f.count(t, `select count(*) from webhook_rejected where reason = $1`, string(want))
		r.Refuse(t.Context(), webhook.Refusal{Provider: "payment", Err: err})
		rejected(t, r, webhook.RejectedFilter{Reason: want}, before+1)
	}
	for _, err := range []error{nil, errors.New("a defect"), webhook.ErrStorage} {
		r.Refuse(t.Context(), webhook.Refusal{Provider: "payment", Err: err})
	}
	rejected(t, r, webhook.RejectedFilter{Provider: "payment"}, 13)
	rejected(t, r, webhook.RejectedFilter{Provider: "codehost"}, 2)
	rejected(t, r, webhook.RejectedFilter{Provider: "codehost", Reason: webhook.ReasonBody}, 1)
	rejected(t, r, webhook.RejectedFilter{Provider: "nobody"}, 1)
}

// withBody is a true signature over any bytes.
func withBody(t *testing.T, provider, body string) webhook.Inbound {
	t.Helper()
	p := webhook.CodeHost()
	h := http.Header{}
	p.Verifier.(webhook.Signer).Sign([]byte(codeHostSecret), []byte(body), h, time.Now())
	return webhook.Inbound{Provider: provider, Header: h, Body: []byte(body)}
}

func TestAnEntryTellsWhereFromAndHowLargeAndNoSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	const secret = "hunter2"
	h := http.Header{
		"Payment-Signature": {"t=1,v1=" + secret}, "Authorization": {"Basic " + secret}, "X-Api-Key": {secret}, "Cookie": {secret},
		"X-Shop-Hmac": {secret}, "User-Agent": {"payer\x00\xff"}, "X-Long": {strings.Repeat("é", 1000), "b", "c"},
	}
	for i := range 100 {
		h.Set(fmt.Sprintf("Z-%03d", i), "x")
	}
	p := identity.FromContext(t.Context())
	p.Address = netip.MustParseAddr("203.0.113.7")
	if _, err := r.Receive(identity.NewContext(t.Context(), p), webhook.Inbound{Provider: "payment", Header: h, Body: []byte(`{"a":1}`)}); !errors.Is(err, webhook.ErrSignature) {
		t.Fatal(err)
	}
	name := strings.Repeat("ü\x00\xff", 60)
	r.Refuse(t.Context(), webhook.Refusal{Provider: name, Size: -1, Err: webhook.ErrProvider})
	list := rejected(t, r, webhook.RejectedFilter{}, 2)
	unknown, wrong := list[0], list[1]
	if unknown.Provider != strings.Repeat("ü\uFFFD", 25) || unknown.Address.IsValid() || unknown.Size != -1 || unknown.Reason != webhook.ReasonProvider {
		t.Errorf("unknown: %+v", unknown)
	}
	if wrong.Provider != "payment" || wrong.Address != p.Address || wrong.Size != 7 || time.Since(wrong.At) > time.Hour || wrong.ID.Version() != 7 {
		t.Errorf("wrong: %+v", wrong)
	}
	if len(wrong.Header) != 32 || wrong.Header.Get("User-Agent") != "payer\uFFFD" {
		t.Errorf("%d headers: %v", len(wrong.Header), wrong.Header)
	}
	if got := wrong.Header["X-Long"]; len(got) != 2 || got[0] != strings.Repeat("é", 256) {
		t.Errorf("long header: %v", got)
	}
	if text := fmt.Sprint(wrong.Header); strings.Contains(text, secret) {
		t.Errorf("a secret is shown: %s", text)
	}
	if h.Get("Cookie") != secret {
		t.Error("the request's own headers were changed")
	}
}

func TestTheLogIsBoundedInNumberAndAge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keep = 20
	now := time.Now()
	r := f.receiver(t, setup{change: func(o *webhook.Options) {
		o.RejectedKeep, o.RejectedAge = keep, time.Hour
		o.Now = func() time.Time { return now }
	}})
	other := f.receiver(t, setup{change: func(o *webhook.Options) { o.RejectedKeep = keep }})
	for i := range 150 {
		r.Refuse(t.Context(), webhook.Refusal{Provider: fmt.Sprintf("invented-%d", i), Err: webhook.ErrProvider})
		other.Refuse(t.Context(), webhook.Refusal{Provider: "payment", Size: int64(i), Err: webhook.ErrSignature})
	}
	r.Refuse(t.Context(), webhook.Refusal{Provider: "codehost", Err: webhook.ErrSignature})
	rejected(t, r, webhook.RejectedFilter{Provider: "codehost"}, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for { // until the writers have caught up
		newest, err := other.ListRejected(ctx, webhook.RejectedFilter{Provider: "payment"}, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(newest) == 1 && newest[0].Size == 149 {
			break
		}
	}
	rejected(t, r, webhook.RejectedFilter{Reason: webhook.ReasonProvider}, keep)
	list := rejected(t, r, webhook.RejectedFilter{Provider: "payment"}, keep)
	for i, e := range list {
		if e.Size != int64(149-i) {
			t.Errorf("entry %d is delivery %d: the newest are kept, newest first", i, e.Size)
		}
	}
	if n, err := r.TrimRejected(t.Context()); n != 0 || err != nil {
		t.Errorf("TrimRejected = %d, %v", n, err)
	}
	now = now.Add(2 * time.Hour)
	if n, err := r.TrimRejected(t.Context()); n != 2*keep+1 || err != nil {
		t.Errorf("TrimRejected of old ones = %d, %v", n, err)
	}
	rejected(t, r, webhook.RejectedFilter{}, 0)
}

func TestTheLogPagesByID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.receiver(t, setup{})
	for i := range 5 {
		r.Refuse(t.Context(), webhook.Refusal{Provider: "payment", Size: int64(i), Err: webhook.ErrSignature})
	}
	rejected(t, r, webhook.RejectedFilter{}, 5)
	var sizes []int64
	var after *uuid.UUID
	for {
		page, err := r.ListRejected(t.Context(), webhook.RejectedFilter{}, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			sizes = append(sizes, e.Size)
		}
		after = &page[len(page)-1].ID
	}
	if diff := cmp.Diff([]int64{4, 3, 2, 1, 0}, sizes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, err := r.CountRejected(t.Context(), webhook.RejectedFilter{Provider: "payment"}); n != 5 || err != nil {
		t.Errorf("CountRejected = %d, %v", n, err)
	}
	if _, err := r.ListRejected(t.Context(), webhook.RejectedFilter{Provider: "a\x00"}, nil, 1); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a filter with U+0000: %v", err)
	}
}

func TestAFloodOfRefusalsWaitsForNobodyAndIsCountedWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	r := f.receiver(t, setup{change: func(o *webhook.Options) { o.Metrics = registry }})
	f.exec(t, `begin; lock table webhook_rejected`) // the log can't be written at all
	const flood = 3000
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range flood / 4 {
				r.Refuse(t.Context(), webhook.Refusal{Provider: "payment", Err: webhook.ErrSignature})
			}
		})
	}
	senders.Wait()
	// A good delivery is stored meanwhile.
	mustReceive(t, r, signed(t, "payment", "paid", "evt_1", `{}`))
	f.exec(t, `rollback`)
	const want = `# HELP waypost_webhook_rejected_total Deliveries that were refused. For an unknown provider the label is empty.
# TYPE waypost_webhook_rejected_total counter
waypost_webhook_rejected_total{provider="payment",reason="verifier_refused"} 3000
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "waypost_webhook_rejected_total"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	logged := f.count(t, `select count(*) from webhook_rejected`)
	if got := logged + int(sumOf(t, registry, "waypost_webhook_rejected_log_dropped_total")); got != flood {
		t.Errorf("%d are logged or counted as dropped, of %d", got, flood)
	}
}

// sumOf adds the values of a metric's counters.
func sumOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}
