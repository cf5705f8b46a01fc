package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // decoders of rasters
	_ "image/jpeg"
	_ "image/png"
	"io"

	_ "golang.org/x/image/bmp" // and those that Go's own library lacks
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/waypost/waypost/internal/blob"
)

const (
	// dimensionsWithin is in how many of its first bytes most images say their size.
	dimensionsWithin = 64 << 10
	// dimensionsReads is how much of an image is read to find its size, wherever in the
	// file it is said.
	dimensionsReads = 1 << 20
)

// dimensions are an image's width and height in pixels, which no decoding is needed
// for; 0 of what doesn't say them. head is how the image begins.
func dimensions(ctx context.Context, store blob.Store, key string, size int64, head []byte) (width, height int) {
	c, err := configOf(bytes.NewReader(head))
	if err == nil || int64(len(head)) == size {
		return c.Width, c.Height
	}
	ctx, cancel := briefly(ctx)
	defer cancel()
	object, err := store.Open(ctx, key)
	if err != nil {
		return 0, 0
	}
	defer object.Close()
	if c, err = configOf(&window{object: object, left: dimensionsReads}); err != nil {
		return 0, 0
	}
	return c.Width, c.Height
}

// configOf reads an image's header. What makes a decoder panic is an error too.
func configOf(r io.Reader) (c image.Config, err error) {
	defer func() {
		if v := recover(); v != nil {
			c, err = image.Config{}, fmt.Errorf("upload: an image's header: %v", v)
		}
	}()
	c, _, err = image.DecodeConfig(r)
	if err == nil && (c.Width < 1 || c.Height < 1 || c.Width > maxSide || c.Height > maxSide) {
		return image.Config{}, errors.New("upload: an image without a size")
	}
	return c, err
}

// maxSide is the longest side of an image in pixels.
const maxSide = 1 << 30

var errWindow = errors.New("upload: the image's header is too long")

// window is an object of which only so much is read. It implements io.ReaderAt, so that
// the decoder of TIFF, whose header may be at the end, doesn't keep all in memory.
type window struct {
	object blob.Object
	left   int64
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errWindow
	}
	p = p[:min(int64(len(p)), w.left)]
	n, err := w.object.Read(p)
	w.left -= int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (w *window) ReadAt(p []byte, offset int64) (int, error) {
	if int64(len(p)) > w.left {
		return 0, errWindow
	}
	if _, err := w.object.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(w.object, p)
	w.left -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
