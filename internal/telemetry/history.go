package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// Kept is how long minutes are kept.
	Kept = 24 * time.Hour
	// maxWaiting is how many minutes wait in memory while the database is away; the
	// oldest go first.
	maxWaiting = 60
	// storeTimeout bounds the storing of what waits.
	storeTimeout = 10 * time.Second
	// lookEvery is how often the pools are looked at.
	lookEvery = 5 * time.Second
)

// HistoryOptions configure NewHistory. Areas, Requests and Logger are mandatory.
type HistoryOptions struct {
	// Areas are the pools that are watched. Minutes are stored and read over Requests,
	// whose waits are bounded.
	Areas    db.Areas
	Requests *Requests
	Logger   *slog.Logger
	// Tallies returns how far what is counted by the minute has counted since the start of
	// the process, by name; nil for nothing.
	Tallies func() map[string]uint64
	// Instance names this process; by default its host and number.
	Instance string
	// Now is the clock; nil for the system's.
	Now func() time.Time
	// NewID makes a row's id; nil for uuid.NewV7.
	NewID func() (uuid.UUID, error)
}

func (o HistoryOptions) withDefaults() (HistoryOptions, error) {
	if o.Areas.Requests == nil || o.Requests == nil || o.Logger == nil {
		return o, errors.New("telemetry: HistoryOptions lack Areas, Requests or Logger")
	}
	o.Instance = cmp.Or(o.Instance, instanceName())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	return o, nil
}

// History stores what this process measured, minute by minute, and reads what all
// processes stored in the last 24 hours. A process that is killed loses its last minute.
type History struct {
	o       HistoryOptions
	queries dbsqlc.Queries
	gauge   *gauge
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // makes Flush one after the other
	began   time.Time  // of the minute that is being measured
	waiting []dbsqlc.InsertTelemetryMinuteParams
	tallied map[string]uint64 // at the last cut
	failing bool

	reading sync.Mutex
	read    map[Question]remembered
	settled settled[[]byte] // by what pack wrote
	counted settled[map[string]uint64]
}

// NewHistory makes a History that measures from now on.
func NewHistory(o HistoryOptions) (*History, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &History{o: o, gauge: newGauge(o.Areas, o.Now), began: o.Now(), cancel: func() {}, read: map[Question]remembered{}}, nil
}

// Start stores each minute once it is over, until Stop.
func (h *History) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.running.Go(func() { h.run(ctx) })
}

func (h *History) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		now := h.o.Now()
		over := time.NewTimer(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
		for waiting := true; waiting; {
			select {
			case <-look.C:
				h.gauge.look()
			case <-over.C:
				waiting = false
			case <-ctx.Done():
				over.Stop()
				return
			}
		}
		_ = h.Flush(ctx) // it has said so in the log, and the next time stores it
	}
}

// Stop stores what was measured since the last minute's end, unless ctx ends first.
func (h *History) Stop(ctx context.Context) error {
	h.cancel()
	h.running.Wait()
	if err := h.Flush(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return nil // a database that is away keeps nobody from stopping
}

// Flush stores what was measured since the last Flush, as of the minute in which that
// was. What can't be stored waits for the next.
func (h *History) Flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	row, err := h.cut()
	if err != nil {
		return err
	}
	h.waiting = append(h.waiting, row)
	if most := len(h.waiting) - maxWaiting; most > 0 {
		h.waiting = append(h.waiting[:0], h.waiting[most:]...)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = h.o.Areas.Requests.InTx(ctx, identity.System("telemetry"), func(ctx context.Context, tx pgx.Tx) error {
		var p db.Pipeline
		for _, row := range h.waiting {
			if err := h.queries.InsertTelemetryMinute(ctx, &p, row); err != nil {
				return err
			}
		}
		return p.Send(ctx, tx)
	})
	if err != nil {
		if !h.failing { // once, not each minute
			h.o.Logger.WarnContext(ctx, "measurements wait to be stored for the page on observability", "error", err)
		}
		h.failing = true
		return fmt.Errorf("telemetry: store a minute: %w", err)
	}
	h.waiting, h.failing = nil, false
	return nil
}

// cut ends the minute that is being measured. Its row's id makes storing it twice the
// same as once, so an unknown outcome is no matter.
func (h *History) cut() (dbsqlc.InsertTelemetryMinuteParams, error) {
	counts, slow, failed := h.o.Requests.cut()
	now, began := h.o.Now(), h.began
	h.began = now
	if longest := 2 * time.Minute; now.Sub(began) > longest { // the machine slept
		began = now.Add(-time.Minute)
	}
	row := dbsqlc.InsertTelemetryMinuteParams{Instance: h.o.Instance, Minute: began.Truncate(time.Minute), Requests: pack(counts)}
	var err error
	if row.ID, err = h.o.NewID(); err != nil {
		return row, fmt.Errorf("telemetry: new id: %w", err)
	}
	gauged := h.gauge.cut()
	gauged.Counts = h.count()
	process, err := json.Marshal(gauged)
	if err != nil {
		return row, fmt.Errorf("telemetry: %w", err)
	}
	row.Process = process
	if row.Slow, err = json.Marshal(notable(slow)); err != nil {
		return row, fmt.Errorf("telemetry: %w", err)
	}
	if len(failed) > 0 {
		row.Failed, err = json.Marshal(notable(failed))
	}
	return row, err
}

// count returns what was counted since the last cut.
func (h *History) count() map[string]uint64 {
	if h.o.Tallies == nil {
		return nil
	}
	all, since := h.o.Tallies(), map[string]uint64{}
	for name, n := range all {
		if n > h.tallied[name] {
			since[name] = n - h.tallied[name]
		}
	}
	h.tallied = all
	return since
}

// Sweep deletes what is older than 24 hours, or of a clock that was far ahead, and
// returns how many minutes that were.
func (h *History) Sweep(ctx context.Context) (int, error) {
	var n int64
	err := h.o.Areas.Requests.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		now := h.o.Now()
		var err error
		n, err = h.queries.DeleteTelemetryMinutes(ctx, tx, now.Add(-Kept-time.Minute), now.Add(time.Hour))
		return err
	})
	return int(n), err
}

// notableRequest is a Request as it is stored.
type notableRequest struct {
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Route  string    `json:"route"`
	Status int       `json:"status"`
	TookUs int64     `json:"took_us"`
	ID     string    `json:"id"`
	Trace  string    `json:"trace,omitempty"`
	Code   string    `json:"code,omitempty"`
}

func notable(list []Request) []notableRequest {
	out := make([]notableRequest, len(list))
	for i, q := range list {
		out[i] = notableRequest{q.At.UTC(), q.Method, q.Route, q.Status, q.Took.Microseconds(), q.ID, q.Trace, q.Code}
	}
	return out
}
