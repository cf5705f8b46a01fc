package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
)

// intake is a file that comes in: its bytes are bounded, counted and summed up on
// their way to the store.
type intake struct {
	ctx    context.Context // of the whole transfer
	r      io.Reader
	limit  int64
	size   int64 // read so far
	sum    hash.Hash
	head   []byte // the first bytes, as many as it has room for
	failed error  // of r, or the limit's
}

func newIntake(ctx context.Context, r io.Reader, limit int64) *intake {
	return &intake{ctx: ctx, r: r, limit: limit, sum: sha256.New(), head: make([]byte, 0, sniffed)}
}

// Read implements io.Reader. The byte after the last that is allowed is ErrTooLarge.
func (i *intake) Read(p []byte) (int, error) {
	if i.failed != nil {
		return 0, i.failed
	}
	if err := i.ctx.Err(); err != nil {
		return 0, i.fail(err)
	}
	if room := i.limit - i.size + 1; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := i.r.Read(p)
	i.size += int64(n)
	if i.size > i.limit {
		return 0, i.fail(ErrTooLarge)
	}
	_, _ = i.sum.Write(p[:n]) // never fails
	if room := cap(i.head) - len(i.head); room > 0 {
		i.head = append(i.head, p[:min(n, room)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, i.fail(err)
	}
	return n, err
}

// fail notes why nothing more comes. The end of the transfer's time is ErrSlow.
func (i *intake) fail(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && i.ctx.Err() != nil {
		err = ErrSlow.Because(err)
	}
	i.failed = err
	return err
}

// peek reads the first bytes, as far as there are so many. What it read comes again
// from whole.
func (i *intake) peek() error {
	buffer := make([]byte, cap(i.head))
	for len(i.head) < cap(i.head) {
		_, err := i.Read(buffer[:cap(i.head)-len(i.head)])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
