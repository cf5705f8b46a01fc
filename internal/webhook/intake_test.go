package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/webhook"
)

const (
	bodyMemory = 4 << 20 // of these tests' receivers
	largeBody  = 1 << 20 // the providers' limit
	smallBody  = 64 << 10
)

// crowdable is a receiver with little memory for bodies, and what shows how much
// of it is taken.
func (f fixture) crowdable(t *testing.T, bindings ...webhook.Binding) (*faces, func() int64) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	r := f.receiver(t, setup{bindings: bindings, change: func(o *webhook.Options) {
		o.BodyMemory, o.Metrics = bodyMemory, metrics
	}})
	return r, func() int64 {
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "waypost_webhook_body_bytes" {
				return int64(family.GetMetric()[0].GetGauge().GetValue())
			}
		}
		t.Fatal("no metric of the memory for bodies")
		return 0
	}
}

// fill admits bodies of n bytes, reads each whole, and returns them once the next
// is refused.
func fill(t *testing.T, r *faces, n int64) []webhook.Intake {
	t.Helper()
	var all []webhook.Intake
	for {
		in, err := r.Admit("payment", n)
		if err != nil {
			if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Kind != fault.Unavailable || refusal.RetryAfter <= 0 || !errors.Is(err, webhook.ErrStorage) {
				t.Errorf("refused with %v", err)
			}
			return all
		}
		if int64(len(all))*n > bodyMemory {
			t.Fatalf("%d bodies of %d bytes are let in", len(all), n)
		}
		body, err := in.Read(bytes.NewReader(make([]byte, n)))
		if err != nil || int64(len(body)) != n {
			t.Fatalf("read %d bytes, %v", len(body), err)
		}
		all = append(all, in)
	}
}

func TestLargeAndSmallBodiesNeverKeepEachOtherOut(t *testing.T) {
	t.Parallel()
	r, held := newFixture(t).crowdable(t)
	for _, sizes := range [][2]int64{{largeBody, smallBody}, {smallBody, largeBody}} {
		crowd := fill(t, r, sizes[0])
		others := fill(t, r, sizes[1])
		if len(crowd) == 0 || len(others) == 0 {
			t.Errorf("%d bodies of %d bytes leave room for %d of %d", len(crowd), sizes[0], len(others), sizes[1])
		}
		crowd[0].Release()
		again, err := r.Admit("payment", sizes[0])
		if err != nil {
			t.Fatalf("no room after one has gone: %v", err)
		}
		again.Release()
		for _, in := range append(crowd[1:], others...) {
			in.Release()
		}
		if n := held(); n != 0 {
			t.Errorf("%d bytes are held by nobody", n)
		}
	}
}

func TestSendersThatSendNothingHoldLittleOfTheMemory(t *testing.T) {
	t.Parallel()
	r, held := newFixture(t).crowdable(t)
	for range bodyMemory / 2 / (4 << 10) {
		if _, err := r.Admit("payment", smallBody); err != nil {
			t.Fatal(err)
		}
	}
	if n := held(); n > bodyMemory/2 {
		t.Errorf("%d bytes are held for bodies that never came", n)
	}
	if got := fill(t, r, smallBody); len(got) == 0 {
		t.Error("senders that send nothing keep others out")
	}
}

func TestABodyIsReadAsItCameWithinItsLimitAndTheMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, held := f.crowdable(t)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.OneOf(rapid.Int64Range(0, 10_000), rapid.Int64Range(0, 3*largeBody), rapid.Just(int64(largeBody)), rapid.Just(int64(largeBody+1))).Draw(rt, "size")
		announced := rapid.OneOf(rapid.Just(int64(-1)), rapid.Just(size), rapid.Int64Range(0, 2*largeBody)).Draw(rt, "announced")
		sent := bytes.Repeat([]byte("waypost"), int(size)/7+1)[:size]
		var from io.Reader = bytes.NewReader(sent)
		if announced >= 0 {
			from = io.LimitReader(from, announced) // as net/http does
		}
		if rapid.Bool().Draw(rt, "in halves") {
			from = iotest.HalfReader(from)
		}
		if rapid.Bool().Draw(rt, "the end with the data") {
			from = iotest.DataErrReader(from)
		}
		in, err := r.Admit("payment", announced)
		if announced > largeBody {
			if !errors.Is(err, webhook.ErrTooLarge) {
				rt.Fatalf("announced %d: %v", announced, err)
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		body, err := in.Read(from)
		if n := held(); n > max(2*size, 8<<10) || n > 2*largeBody {
			rt.Errorf("%d bytes are held for %d", n, size)
		}
		in.Release()
		switch {
		case announced > size:
			if !errors.Is(err, webhook.ErrIncomplete) {
				rt.Errorf("%d of %d bytes: %v", size, announced, err)
			}
		case announced < 0 && size > largeBody:
			if !errors.Is(err, webhook.ErrTooLarge) {
				rt.Errorf("%d bytes: %v", size, err)
			}
		default:
			want := sent
			if announced >= 0 {
				want = sent[:announced]
			}
			if err != nil || !bytes.Equal(body, want) {
				rt.Errorf("%d of %d bytes are read as %d, %v", size, announced, len(body), err)
			}
		}
		if n := held(); n != 0 {
			rt.Errorf("%d bytes are held by nobody", n)
		}
	})
}

func TestABodyThatFindsNoRoomOnItsWayIsRefused(t *testing.T) {
	t.Parallel()
	r, _ := newFixture(t).crowdable(t)
	late, err := r.Admit("payment", -1)
	if err != nil {
		t.Fatal(err)
	}
	early, err := r.Admit("payment", -1)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, r, largeBody)
	if _, err := late.Read(bytes.NewReader(make([]byte, largeBody))); !errors.Is(err, webhook.ErrStorage) {
		t.Errorf("a large one: %v", err)
	}
	if body, err := early.Read(strings.NewReader("{}")); err != nil || string(body) != "{}" {
		t.Errorf("one that fits: %q, %v", body, err)
	}
}

func TestABodyIsHeldUntilItsHandlerHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r, held := f.crowdable(t, webhook.Handle("payment", "slow", func(context.Context, *webhook.Delivery) error {
		close(entered)
		<-release
		return nil
	}), webhook.Handle("payment", "failing", failing), webhook.Handle("payment", "panicking", func(context.Context, *webhook.Delivery) error { panic("no") }))
	deliver := func(in webhook.Inbound) {
		_, _ = r.Receive(t.Context(), in)
	}
	unsigned := signed(t, "payment", "none", "evt_2", `{}`)
	unsigned.Header = nil
	for _, in := range []webhook.Inbound{
		signed(t, "payment", "none", "evt_1", `{}`), signed(t, "payment", "none", "evt_1", `{}`), // and its duplicate
		signed(t, "payment", "failing", "evt_3", `{}`), signed(t, "payment", "panicking", "evt_4", `{}`),
		unsigned, {Provider: "nobody"},
	} {
		deliver(in)
		if !within(patience, func() bool { return held() == 0 }) {
			t.Errorf("%d bytes are held after %s", held(), in.Body)
		}
	}
	go deliver(signed(t, "payment", "slow", "evt_5", `{}`))
	<-entered
	if held() == 0 {
		t.Error("a body that its handler has is not counted")
	}
	close(release)
	if !within(patience, func() bool { return held() == 0 }) {
		t.Errorf("%d bytes are held after the handler", held())
	}
}

func TestMemoryThatIsTooSmallForAProvidersLargestBodyIsRefusedByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	large := webhook.Payment()
	large.BodyLimit = 64 << 20
	registry, err := webhook.NewRegistry([]webhook.Registration{large, webhook.CodeHost()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := queue.New(discard)
	if err != nil {
		t.Fatal(err)
	}
	o := webhook.Options{DB: f.db, Registry: registry, Logger: discard, Jobs: jobs, LookupSecret: func(string) string { return "" }, BodyMemory: 64 << 20}
	if _, err := newFaces(o); err == nil || !strings.Contains(err.Error(), `"payment"`) {
		t.Errorf("%v", err)
	}
	o.BodyMemory = 0 // by itself it is large enough
	r, err := newFaces(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Admit("payment", 64<<20); err != nil {
		t.Errorf("the largest body: %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What arrives from one network takes at most half of the memory, however fast it arrives;
// what has arrived is nobody's share.
func TestOneNetworkLeavesHalfOfTheMemoryToOthers(t *testing.T) {
	t.Parallel()
	r, held := newFixture(t).crowdable(t)
	network := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1::%x", i+1)) }
	var writers []*io.PipeWriter
	for i := range 2 {
		in, err := r.AdmitFrom(network(i), largeBody)
		if err != nil {
			t.Fatal(err)
		}
		from, to := io.Pipe()
		writers = append(writers, to)
		go func() {
			_, _ = in.Read(from)
			in.Release()
		}()
		if _, err := to.Write(make([]byte, largeBody-1)); err != nil {
			t.Fatal(err)
		}
	}
	if !within(patience, func() bool { return held() == 2*largeBody }) {
		t.Fatalf("%d bytes are held", held())
	}
	if _, err := r.AdmitFrom(network(2), largeBody); !errors.Is(err, webhook.ErrStorage) {
		t.Errorf("a third of that network: %v", err)
	}
	other, err := r.AdmitFrom(netip.MustParseAddr("2001:db8:0:2::1"), largeBody)
	if err != nil {
		t.Errorf("one of another network: %v", err)
	}
	other.Release()
	for _, w := range writers {
		_ = w.Close()
	}
	if !within(patience, func() bool { return held() == 0 }) {
		t.Errorf("%d bytes are held by nobody", held())
	}
	again, err := r.AdmitFrom(network(2), largeBody)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}
