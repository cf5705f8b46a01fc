package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/boombuler/barcode/qr"
	"pgregory.net/rapid"
)

// What is drawn is what the library made, with the edge that readers need.
func TestAQRCodeIsDrawnModuleByModule(t *testing.T) {
	t.Parallel()
	step := regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 300, -1).Draw(t, "text")
		drawn, err := qrOf(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := qr.Encode(text, qr.M, qr.Auto)
		if err != nil {
			t.Fatal(err)
		}
		if rest := step.ReplaceAllString(drawn.Path, ""); rest != "" || drawn.Side != want.Bounds().Dx()+8 {
			t.Fatalf("%q is left of the path; side %d", rest, drawn.Side)
		}
		black := map[string]bool{}
		for _, m := range step.FindAllStringSubmatch(drawn.Path, -1) {
			var n [4]int
			for i := range n {
				n[i], _ = strconv.Atoi(m[i+1])
			}
			if n[2] != n[3] {
				t.Fatalf("%s is not closed", m[0])
			}
			for x := range n[2] {
				black[fmt.Sprint(n[0]+x-4, n[1]-4)] = true
			}
		}
		for y := range want.Bounds().Dy() {
			for x := range want.Bounds().Dx() {
				r, _, _, _ := want.At(x, y).RGBA()
				if black[fmt.Sprint(x, y)] != (r == 0) {
					t.Fatalf("module %d %d is wrong", x, y)
				}
				delete(black, fmt.Sprint(x, y))
			}
		}
		if len(black) != 0 {
			t.Fatalf("drawn outside: %v", black)
		}
	})
}
