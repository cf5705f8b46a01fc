package imports

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/waypost/waypost/internal/stats/hit"
)

// laneCount is how many transactions of one import run at a time.
const laneCount = 2

// batchReader reads and parses lines and gives them to lanes. All lines of one
// visitor go into one lane, in their order, so that lanes share neither sessions
// nor equal lines.
type batchReader struct {
	lines  *lineReader
	parser lineParser
	lanes  [laneCount]lane
}

// lane is a batch that is being filled, and where full ones go.
type lane struct {
	lineBatch
	out  chan<- lineBatch
	sent bool // a batch already
}

// read goes on to the end of the lines, and closes the lanes.
func (r *batchReader) read(ctx context.Context) error {
	defer func() {
		for i := range r.lanes {
			close(r.lanes[i].out)
		}
	}()
	seed := maphash.MakeSeed()
	for {
		line, size, tooLong, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			return r.flush(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("stats: import: %w", err), r.flush(ctx))
		}
		to, v, skip := &r.lanes[0], hit.Visit{}, SkipTooLong
		if !tooLong {
			v, skip = r.parser.parse(line)
		}
		if skip == "" {
			to = &r.lanes[maphash.String(seed, v.From+"\x00"+v.UserAgent)%laneCount]
			to.lineKeys, to.visits = append(to.lineKeys, keyOfLine(line, v)), append(to.visits, v)
		} else {
			to.skip(skip)
		}
		to.bytes, to.lines = to.bytes+int64(size), to.lines+1
		if len(to.visits) == r.batch(to) || to.lines == progressLines || to.bytes >= batchBytes {
			if err := to.send(ctx); err != nil {
				return err
			}
		}
	}
}

// batch is how many lines with visits go into the lane's next transaction: the first of
// all are few, so that there is soon something to say of the progress.
func (r *batchReader) batch(l *lane) int {
	if l.sent {
		return maxVisits
	}
	return firstBatch
}

func (r *batchReader) flush(ctx context.Context) error {
	var errs []error
	for i := range r.lanes {
		errs = append(errs, r.lanes[i].send(ctx))
	}
	return errors.Join(errs...)
}

func (b *lineBatch) skip(reason Skip) {
	if b.skipped == nil {
		b.skipped = make(map[Skip]int)
	}
	b.skipped[reason]++
}

func (l *lane) send(ctx context.Context) error {
	select {
	case l.out <- l.lineBatch:
		l.lineBatch, l.sent = lineBatch{}, true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
