package webhook_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypost/waypost/internal/webhook"
)

// Case 66 of the adversarial catalogue. Leases are measured by the database's
// clock, signatures by the instance's at the moment of receipt.
func TestCase66AClockThatJumpsLosesNothingAndHandlesNothingTwice(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"back": -48 * time.Hour, "forward": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var offset atomic.Int64
			now := func(o *webhook.Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			}
			entered, release := make(chan struct{}), make(chan struct{})
			r := f.receiver(t, setup{change: func(o *webhook.Options) { now(o); o.AnswerAfter = time.Millisecond }, bindings: []webhook.Binding{
				webhook.Handle("payment", "", func(ctx context.Context, d *webhook.Delivery) error {
					close(entered)
					<-release
					return inTx(ctx, d)
				}),
			}})
			other := f.receiver(t, setup{change: now, bindings: []webhook.Binding{webhook.Handle("payment", "", inTx)}})
			in := signed(t, "payment", "paid", "evt_1", `{}`)
			got := mustReceive(t, r, in)
			<-entered
			offset.Store(int64(jump))
			if n, err := other.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("a sweep took %d events whose lease holds, %v", n, err)
			}
			if _, err := other.Receive(t.Context(), in); err == nil {
				t.Error("a signature is judged by another clock than the receiver's")
			}
			close(release)
			eventually(t, r, got.ID, webhook.Processed)
			if n := f.count(t, `select count(*) from effects`); n != 1 {
				t.Errorf("%d effects", n)
			}
			offset.Store(0)
			if again := mustReceive(t, other, in); again.Status != webhook.Skipped || again.ID != got.ID {
				t.Errorf("again: %+v", again)
			}
		})
	}
}
