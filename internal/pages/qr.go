package pages

import (
	"fmt"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quiet is the white edge that a QR code needs, in modules (ISO/IEC 18004).
const quiet = 4

// QR is a QR code as a drawing.
type QR struct {
	// Side is its width and height in modules, with the white edge.
	Side int
	// Path draws the dark modules: a path's d in SVG.
	Path string
}

// qrOf draws a text of up to 2,300 bytes.
func qrOf(text string) (QR, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return QR{}, fmt.Errorf("pages: QR code: %w", err)
	}
	size := code.Bounds().Dx()
	var d strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			from := x
			for x < size && dark(code.At(x, y).RGBA()) {
				x++
			}
			if x > from {
				fmt.Fprintf(&d, "M%d %dh%dv1h-%dz", from+quiet, y+quiet, x-from, x-from)
			}
		}
	}
	return QR{Side: size + 2*quiet, Path: d.String()}, nil
}

func dark(red, _, _, _ uint32) bool { return red == 0 }
