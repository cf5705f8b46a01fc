package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/text"
)

// maxErrorText bounds in bytes what is stored of a handler's error.
const maxErrorText = 4 << 10

var (
	errReceiverCommits = errors.New("webhook: the receiver commits or rolls back when the handler has returned")
	errNoTime          = errors.New("webhook: the handler's time budget is over")
)

// execution is one run of a handler in a goroutine of its own, beside the
// goroutine that keeps its time and owns its transaction.
type execution struct {
	ctx      context.Context // the handler's; ends with its budget
	wanted   chan struct{}   // closed when the handler first asks for its transaction
	want     func()
	granted  chan struct{} // closed when tx and txErr are set
	tx       pgx.Tx
	txErr    error
	finished chan struct{} // closed when the handler has ended; failure is set
	failure  failure
}

// failure is how a handler ended; the zero value is success.
type failure struct {
	text  string // for administrators, not empty for a failure
	err   error  // what the handler returned
	stack []byte // where it panicked
}

// execute starts h on event.
func execute(ctx context.Context, h Handler, event Event) *execution {
	e := &execution{ctx: ctx, wanted: make(chan struct{}), granted: make(chan struct{}), finished: make(chan struct{})}
	e.want = sync.OnceFunc(func() { close(e.wanted) })
	go func() {
		defer close(e.finished)
		// What runtime.Goexit leaves behind: neither a result nor a panic.
		e.failure = failure{text: "the handler ended its goroutine"}
		defer func() {
			if v := recover(); v != nil {
				e.failure = failure{text: sanitize("the handler panicked: " + fmt.Sprint(v)), stack: debug.Stack()}
			}
		}()
		err := h(ctx, &Delivery{Event: event, run: e})
		if err == nil {
			e.failure = failure{}
			return
		}
		e.failure = failure{text: sanitize(err.Error()), err: err}
	}()
	return e
}

// begin asks for the transaction and waits for it.
func (e *execution) begin(ctx context.Context) (pgx.Tx, error) {
	e.want()
	select {
	case <-e.granted:
		if e.txErr != nil {
			return nil, e.txErr
		}
		return e.tx, nil
	case <-e.ctx.Done():
		return nil, errNoTime
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// grant hands out tx, or err in its place. It is called once.
func (e *execution) grant(tx pgx.Tx, err error) {
	if err == nil {
		e.tx = handedTx{tx}
	}
	e.txErr = err
	close(e.granted)
}

// handedTx keeps a handler from ending the transaction on its own: its effects
// would part from the event's outcome. Savepoints (Begin) work as usual.
type handedTx struct{ pgx.Tx }

func (handedTx) Commit(context.Context) error   { return errReceiverCommits }
func (handedTx) Rollback(context.Context) error { return errReceiverCommits }

// storable makes text that PostgreSQL stores, without U+0000.
func storable(s string) string {
	return text.MakeStorable(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// sanitize makes text that PostgreSQL stores of the first maxErrorText bytes, never
// empty.
func sanitize(s string) string {
	s = storable(s[:min(len(s), maxErrorText)])
	return cmp.Or(s, "the handler returned an error without a text")
}
