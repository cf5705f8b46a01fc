package blob

import (
	"context"
	"errors"
	"io"
)

// readBlock reads until p is full or r ends, and reports which of both it was.
// io.ReadFull can't be used: a request's body that was cut off fails with
// io.ErrUnexpectedEOF, which there also stands for the end.
func readBlock(ctx context.Context, r io.Reader, p []byte) (n int, ended bool, err error) {
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
