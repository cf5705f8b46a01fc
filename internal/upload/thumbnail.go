package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/identity"
)

const (
	// thumbnailSide is the longest side of a thumbnail in pixels.
	thumbnailSide = 320
	// maxPixels is the size above which an image is never decoded.
	maxPixels = 50_000_000
	// maxDecoded is how much memory in bytes the decoded form of an image may take; some
	// need several times what others of the same size do.
	maxDecoded = 512 << 20
	// thumbnailQuality is of JPEGs.
	thumbnailQuality = 82
)

// ThumbnailJob makes a file's thumbnail.
type ThumbnailJob struct {
	ID int64 `json:"id"`
}

// Kind implements queue.Job.
func (ThumbnailJob) Kind() string { return "upload_thumbnail" }

// MakeThumbnail works a ThumbnailJob. An image that can't be decoded, or is too large
// for it, has no thumbnail, and is not tried again; an error is one of the store or of
// the database.
func (s *Service) MakeThumbnail(ctx context.Context, j ThumbnailJob) error {
	row, err := s.queries.FindReadyUpload(ctx, s.o.BackgroundDB.Direct(), j.ID)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (row.ThumbnailKey != nil) {
		return nil
	}
	if err != nil {
		return db.Translate(err)
	}
	object, err := s.open(ctx, row, row.Key)
	if err != nil {
		return err
	}
	defer object.Close()
	source := &watched{ctx: ctx, Object: object}
	made, contentType, err := thumbnailOf(source)
	if source.failed != nil {
		return source.failed
	}
	if err != nil {
		s.o.Logger.InfoContext(ctx, "an image has no thumbnail", "upload", row.ID, "reason", err)
		return nil
	}
	return s.keepThumbnail(ctx, row, made, contentType)
}

// keepThumbnail stores a thumbnail and names it in the row. When the row is gone
// meanwhile, the thumbnail goes too.
func (s *Service) keepThumbnail(ctx context.Context, row dbsqlc.Upload, made []byte, contentType string) error {
	key, err := s.newKey(areaThumbnails)
	if err != nil {
		return err
	}
	store, err := s.storeOf(row.Backend)
	if err != nil {
		return err
	}
	if _, err := store.Put(ctx, key, contentType, bytes.NewReader(made)); err != nil {
		return err
	}
	n, err := s.queries.SetThumbnail(ctx, s.o.BackgroundDB.Single(identity.FromContext(ctx)), dbsqlc.SetThumbnailParams{
		ID: row.ID, Key: row.Key, ThumbnailKey: &key, ThumbnailType: &contentType,
	})
	if err != nil {
		return db.Translate(err) // the sweep removes the bytes unless they have a row after all
	}
	if n == 0 {
		return store.Delete(ctx, key)
	}
	return nil
}

// watched is an object whose failures are told from those of what reads it.
type watched struct {
	blob.Object
	ctx    context.Context
	failed error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		w.failed = err
		return 0, err
	}
	n, err := w.Object.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.failed = err
	}
	return n, err
}

var errPixels = errors.New("it has too many pixels to be decoded")

// thumbnailOf makes a thumbnail of an image, and returns its bytes and media type.
// Nothing of the image but its pixels gets into it.
func thumbnailOf(r io.ReadSeeker) (made []byte, contentType string, err error) {
	defer func() {
		if v := recover(); v != nil { // a decoder met what it didn't expect
			made, contentType, err = nil, "", fmt.Errorf("decoding panicked: %v", v)
		}
	}()
	turn := orientationOf(r)
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	head := &recording{r: r}
	c, err := configOf(head)
	if err != nil {
		return nil, "", err
	}
	if int64(c.Width)*int64(c.Height) > maxPixels || decodedSize(c, head.kept) > maxDecoded {
		return nil, "", errPixels
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	whole, _, err := image.Decode(r)
	if err != nil {
		return nil, "", err
	}
	small := turn.apply(fit(whole, thumbnailSide))
	var b bytes.Buffer
	if !small.Opaque() {
		err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small)
		return b.Bytes(), "image/png", err
	}
	err = jpeg.Encode(&b, small, &jpeg.Options{Quality: thumbnailQuality})
	return b.Bytes(), "image/jpeg", err
}

// fit scales an image so that its longer side has that many pixels, or copies one that
// is smaller. The result's bounds begin at 0, 0.
func fit(whole image.Image, side int) *image.NRGBA {
	from := whole.Bounds()
	w, h := from.Dx(), from.Dy()
	if longer := max(w, h); longer > side {
		w, h = max(w*side/longer, 1), max(h*side/longer, 1)
	}
	small := image.NewNRGBA(image.Rect(0, 0, w, h))
	if w == from.Dx() && h == from.Dy() {
		draw.Draw(small, small.Bounds(), whole, from.Min, draw.Src)
		return small
	}
	draw.BiLinear.Scale(small, small.Bounds(), whole, from, draw.Src, nil)
	return small
}

// decodedSize is how many bytes the decoder takes for an image of that kind, whose
// file begins with head, at most.
func decodedSize(c image.Config, head []byte) int64 {
	pixels := int64(c.Width) * int64(c.Height)
	perPixel := int64(4)
	switch c.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		perPixel = 8
	}
	if progressive(head) {
		perPixel = 16 // all coefficients, besides the pixels
	}
	// What scaling keeps of each row, and its result.
	return pixels*perPixel + int64(c.Height)*thumbnailSide*32
}

// progressive reports whether a JPEG's header, up to its size, says that its picture
// comes in several passes (ITU T.81, table B.1: SOF2).
func progressive(head []byte) bool {
	if !bytes.HasPrefix(head, []byte{0xFF, 0xD8}) {
		return false
	}
	for i := 2; i+4 <= len(head); {
		if head[i] != 0xFF {
			i++
			continue
		}
		switch marker := head[i+1]; {
		case marker == 0xC2:
			return true
		case marker == 0xC0 || marker == 0xC1:
			return false
		case marker == 0xFF:
			i++
		case marker == 0 || marker >= 0xD0 && marker <= 0xD8:
			i += 2
		default:
			i += 2 + int(head[i+2])<<8 + int(head[i+3])
		}
	}
	return true // nobody knows
}

// recordingMost is how much of an image's header is looked at.
const recordingMost = 1 << 20

// recording keeps what is read through it, up to recordingMost bytes, and ends there.
type recording struct {
	r    io.Reader
	kept []byte
}

// Read implements io.Reader.
func (r *recording) Read(p []byte) (int, error) {
	if len(r.kept) >= recordingMost {
		return 0, errWindow
	}
	n, err := r.r.Read(p[:min(len(p), recordingMost-len(r.kept))])
	r.kept = append(r.kept, p[:n]...)
	return n, err
}
