package blob

import (
	"context"
	"errors"
	"io"
)

// readBlock reads until p is full or r ends, and returns how many bytes it read and
// whether r ended.
// io.ReadFull can't be used: a request's body that was cut off fails with
// io.ErrUnexpectedEOF, which there also stands for the end.
func readBlock(ctx context.Context, r io.Reader, p []byte) (int, bool, error) {
	n := 0
	for n < len(p) {
		if err := ctx.Err(); err != nil {
			return n, false, err
		}
		m, err := r.Read(p[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}
