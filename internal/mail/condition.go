package mail

import (
	"context"
	"time"

	"github.com/waypost/waypost/db"
)

// MaxCounted is how far a Condition counts.
const MaxCounted = 1_000

// Condition is how the outbox is at a moment.
type Condition struct {
	// Off says that no mail leaves (WAYPOST_MAIL_DRIVER is none).
	Off bool
	// Waiting are the mails that are to be sent, up to MaxCounted, since WaitingSince, which
	// is zero when none waits; Stuck those of them that three attempts could not send.
	Waiting, Stuck int64
	WaitingSince   time.Time
	// Failed are those queued since the instant that was asked for and given up, up to
	// MaxCounted.
	Failed int64
}

// Condition asks for it in one question whose work is bounded, whatever is stored.
func (b *Outbox) Condition(ctx context.Context, failedSince time.Time) (Condition, error) {
	row, err := b.queries.MeasureMails(ctx, b.o.DB.Direct(), MaxCounted, failedSince)
	if err != nil {
		return Condition{}, db.Translate(err)
	}
	c := Condition{Off: b.o.Transport == nil, Waiting: row.Waiting, Stuck: row.Stuck, Failed: row.Failed}
	if c.Waiting > 0 {
		c.WaitingSince = row.WaitingSince.UTC()
	}
	return c, nil
}
