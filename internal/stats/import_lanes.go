package stats

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
)

// importLanes is how many transactions of one import run at a time.
const importLanes = 2

// batchReader reads and parses lines and gives them to lanes. All lines of one
// visitor go into one lane, in their order, so that lanes share neither sessions
// nor equal lines.
type batchReader struct {
	lines  lineReader
	parser lineParser
	lanes  [importLanes]lane
}

// lane is a batch that is being filled, and where full ones go.
type lane struct {
	lineBatch
	out chan<- lineBatch
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
		to, v, skip := &r.lanes[0], visit{}, SkipTooLong
		if !tooLong {
			v, skip = r.parser.parse(line)
		}
		if skip == "" {
			to = &r.lanes[maphash.String(seed, v.from+"\x00"+v.userAgent)%importLanes]
			to.hashes, to.visits = append(to.hashes, sha256.Sum256(line)), append(to.visits, v)
		} else {
			to.skip(skip)
		}
		to.bytes, to.lines = to.bytes+int64(size), to.lines+1
		if len(to.visits) == importBatch || to.lines == progressLines || to.bytes >= batchBytes {
			if err := to.send(ctx); err != nil {
				return err
			}
		}
	}
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
		l.lineBatch = lineBatch{}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
