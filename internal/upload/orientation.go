package upload

import (
	"bytes"
	"image"
	"io"

	"github.com/bep/imagemeta"
)

// orientation is how an image is to be turned to be seen upright: a value of EXIF's tag
// 0x0112 (CIPA DC-008, 4.6.5.1.6), 1 to 8.
type orientation int

const upright orientation = 1

// exifFormats are the formats that EXIF comes in, by how their files begin.
var exifFormats = map[string]imagemeta.ImageFormat{
	"\xFF\xD8\xFF": imagemeta.JPEG, "\x89PNG": imagemeta.PNG, "RIFF": imagemeta.WebP, "II*\x00": imagemeta.TIFF, "MM\x00*": imagemeta.TIFF,
}

// orientationOf reads an image's orientation, upright where it says none that makes
// sense.
func orientationOf(r io.ReadSeeker) (found orientation) {
	found = upright
	defer func() { _ = recover() }() // then it is what was found so far
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return upright
	}
	for magic, format := range exifFormats {
		if !bytes.HasPrefix(head[:], []byte(magic)) {
			continue
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return upright
		}
		// What comes before an error counts.
		_, _ = imagemeta.Decode(imagemeta.Options{
			R: r, ImageFormat: format, Sources: imagemeta.EXIF, Warnf: func(string, ...any) {},
			ShouldHandleTag: func(tag imagemeta.TagInfo) bool { return tag.Tag == "Orientation" && tag.Namespace == "IFD0" },
			HandleTag: func(tag imagemeta.TagInfo) error {
				if v, ok := tag.Value.(uint16); ok && v >= 1 && v <= 8 {
					found = orientation(v)
				}
				return nil
			},
		})
	}
	return found
}

// apply turns an image whose bounds begin at 0, 0.
func (o orientation) apply(from *image.NRGBA) *image.NRGBA {
	if o == upright {
		return from
	}
	w, h := from.Bounds().Dx(), from.Bounds().Dy()
	to := image.NewNRGBA(image.Rect(0, 0, w, h))
	if o >= 5 {
		to = image.NewNRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			tx, ty := o.place(x, y, w, h)
			to.SetNRGBA(tx, ty, from.NRGBAAt(x, y))
		}
	}
	return to
}

// place is where the pixel at x, y of an image of w by h pixels goes.
func (o orientation) place(x, y, w, h int) (int, int) {
	switch o {
	case 2: // mirrored
		return w - 1 - x, y
	case 3: // upside down
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6: // to be turned right
		return h - 1 - y, x
	case 7:
		return h - 1 - y, w - 1 - x
	case 8: // to be turned left
		return y, w - 1 - x
	}
	return x, y
}
