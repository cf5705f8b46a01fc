package upload_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/waypost/waypost/internal/upload"
)

// painted is red above left, green above right, blue below left, white below right.
func painted(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, [][]color.Color{
				{color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}}, {color.NRGBA{0, 0, 255, 255}, color.White},
			}[2*y/h][2*x/w])
		}
	}
	return m
}

func encoded(t testing.TB, encode func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func picture(t testing.TB, w, h int) string {
	return encoded(t, func(to io.Writer) error { return png.Encode(to, painted(w, h)) })
}

// withOrientation puts EXIF with an orientation, and a text that nobody should see again,
// before the rest of a JPEG.
func withOrientation(jpg string, orientation uint16) string {
	var exif bytes.Buffer
	exif.WriteString("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x02")
	for _, v := range []any{uint16(0x0112), uint16(3), uint32(1), orientation, uint16(0), uint16(0x010E), uint16(2), uint32(12), uint32(38), uint32(0)} {
		_ = binary.Write(&exif, binary.BigEndian, v)
	}
	exif.WriteString("Paris 75001\x00")
	return fmt.Sprintf("%s\xFF\xE1%c%c%s%s", jpg[:2], byte((exif.Len()+2)>>8), byte(exif.Len()+2), exif.String(), jpg[2:])
}

// thumbnail makes a file's thumbnail and returns it; nil if there is none.
func (f *fixture) thumbnail(content string) (upload.Upload, image.Image, string) {
	f.t.Helper()
	u, err := f.sendAs(0, upload.File{Expected: -1}, content)
	if err != nil {
		f.t.Fatal(err)
	}
	if n := f.value(`select count(*) from river_job where kind = 'upload_thumbnail' and queue = 'thumbnails' and args->>'id' = $1::text`, fmt.Sprint(u.ID)); n != 1 {
		f.t.Errorf("%d jobs for the thumbnail", n)
	}
	if _, err := f.OpenThumbnail(f.as(0), u.ID); !errors.Is(err, upload.ErrNoUpload) {
		f.t.Errorf("before it is made: %v", err)
	}
	if err := f.MakeThumbnail(f.t.Context(), upload.ThumbnailJob{ID: u.ID}); err != nil {
		f.t.Errorf("the job would be tried again: %v", err)
	}
	c, err := f.OpenThumbnail(f.as(0), u.ID)
	if errors.Is(err, upload.ErrNoUpload) {
		return u, nil, ""
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	b, err := io.ReadAll(c.Object)
	if err != nil {
		f.t.Fatal(err)
	}
	m, format, err := image.Decode(bytes.NewReader(b))
	if err != nil || "image/"+format != c.ThumbnailType {
		f.t.Errorf("%s is %s, %v", c.ThumbnailType, format, err)
	}
	return u, m, string(b)
}

func TestThumbnailsFitAndAreNeverEnlarged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct{ w, h, wantW, wantH int }{
		{640, 480, 320, 240}, {480, 640, 240, 320}, {2000, 2, 320, 1}, {320, 320, 320, 320}, {10, 7, 10, 7}, {321, 1, 320, 1},
	} {
		u, m, _ := f.thumbnail(picture(t, tc.w, tc.h))
		if u.Width != tc.w || u.Height != tc.h {
			t.Errorf("%dx%d is said to have %dx%d", tc.w, tc.h, u.Width, u.Height)
		}
		if m == nil || m.Bounds().Dx() != tc.wantW || m.Bounds().Dy() != tc.wantH {
			t.Errorf("%dx%d became %v", tc.w, tc.h, m.Bounds())
		}
	}
}

func TestEveryKindOfImageHasDimensionsAndAThumbnail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := painted(40, 30)
	for name, content := range map[string]string{
		"png": picture(t, 40, 30), "bmp": encoded(t, func(w io.Writer) error { return bmp.Encode(w, m) }),
		"jpeg": encoded(t, func(w io.Writer) error { return jpeg.Encode(w, m, nil) }), "gif": encoded(t, func(w io.Writer) error { return gif.Encode(w, m, nil) }),
		"tiff": encoded(t, func(w io.Writer) error { return tiff.Encode(w, m, nil) }),
		"webp": "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00", // one pixel
	} {
		u, thumbnail, _ := f.thumbnail(content)
		w, h := 40, 30
		if name == "webp" {
			w, h = 1, 1
		}
		if u.Width != w || u.Height != h || thumbnail == nil || thumbnail.Bounds().Dx() != w {
			t.Errorf("%s: %dx%d, %v", name, u.Width, u.Height, thumbnail)
		}
	}
}

func TestThumbnailsAreUprightAndWithoutMetadata(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	whole := encoded(t, func(w io.Writer) error { return jpeg.Encode(w, painted(64, 32), &jpeg.Options{Quality: 100}) })
	// Which colours the corners have, row by row: above left, above right, below left,
	// below right.
	for orientation, want := range map[uint16]string{
		0: "rgbw", 1: "rgbw", 2: "grwb", 3: "wbgr", 4: "bwrg", 5: "rbgw", 6: "brwg", 7: "wgbr", 8: "gwrb", 9: "rgbw",
	} {
		_, m, made := f.thumbnail(withOrientation(whole, orientation))
		if m == nil {
			t.Fatal("none")
		}
		b := m.Bounds()
		if turned := orientation >= 5 && orientation <= 8; turned != (b.Dy() > b.Dx()) {
			t.Errorf("%d: %v", orientation, b)
		}
		got := ""
		for _, at := range []image.Point{{3, 3}, {b.Dx() - 4, 3}, {3, b.Dy() - 4}, {b.Dx() - 4, b.Dy() - 4}} {
			r, g, b, _ := m.At(at.X, at.Y).RGBA()
			got += map[[3]bool]string{{true, false, false}: "r", {false, true, false}: "g", {false, false, true}: "b", {true, true, true}: "w"}[[3]bool{r > 0x8000, g > 0x8000, b > 0x8000}]
		}
		if got != want {
			t.Errorf("%d: %s, want %s", orientation, got, want)
		}
		if strings.Contains(made, "Paris") || strings.Contains(made, "Exif") {
			t.Errorf("%d: there is metadata", orientation)
		}
	}
}

func TestTransparentImagesStayTransparent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := painted(400, 10)
	m.Set(0, 0, color.Transparent)
	m.Set(1, 0, color.Transparent)
	_, made, _ := f.thumbnail(encoded(t, func(w io.Writer) error { return png.Encode(w, m) }))
	if _, _, _, a := made.At(0, 0).RGBA(); a == 0xFFFF {
		t.Errorf("%v", made.At(0, 0))
	}
}

// flood is a PNG that says it has so many pixels.
func flood(t testing.TB, w, h uint32) string {
	p := []byte(picture(t, 1, 1))
	binary.BigEndian.PutUint32(p[16:], w)
	binary.BigEndian.PutUint32(p[20:], h)
	binary.BigEndian.PutUint32(p[29:], crc32.ChecksumIEEE(p[12:29]))
	return string(p)
}

func TestCase42APixelFloodIsNeverDecoded(t *testing.T) {
	f := newFixture(t)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, content := range []string{flood(t, 50_000, 50_000), flood(t, 1<<30, 1), flood(t, 50_000_001, 1), flood(t, 7072, 7072)} {
		u, m, _ := f.thumbnail(content)
		if m != nil || u.Width == 0 {
			t.Errorf("%dx%d: %v", u.Width, u.Height, m)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("%d MiB of memory were taken", took>>20)
	}
}

// What expands is not expanded.
func TestCase42ArchivesAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bomb := "PK\x03\x04\x14\x00\x00\x00\x08\x00" + strings.Repeat("\x00", 1000)
	u, err := f.sendAs(0, upload.File{Expected: -1}, bomb)
	if err != nil || u.Size != int64(len(bomb)) {
		t.Error(u, err)
	}
}

func TestCorruptImagesHaveNoThumbnailAndNoJobThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	whole := picture(t, 100, 100)
	jpg := encoded(t, func(w io.Writer) error { return jpeg.Encode(w, painted(100, 100), nil) })
	for _, content := range []string{whole[:60], whole[:len(whole)/2], jpg[:30], "\x89PNG\r\n\x1a\n", "BM", "II*\x00\xff\xff\xff\xff", "GIF89a"} {
		if u, err := f.sendAs(0, upload.File{Expected: -1}, content); err == nil && upload.IsRaster(u.ContentType) {
			if err := f.MakeThumbnail(t.Context(), upload.ThumbnailJob{ID: u.ID}); err != nil {
				t.Errorf("%q: %v", content[:min(20, len(content))], err)
			}
		}
	}
}

func TestAThumbnailOfAFileThatIsDeletedMeanwhileIsDeletedToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u, err := f.sendAs(0, upload.File{Expected: -1}, picture(t, 4, 4))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.MakeThumbnail(t.Context(), upload.ThumbnailJob{ID: u.ID}); err != nil {
		t.Fatal(err)
	}
	if err := f.MakeThumbnail(t.Context(), upload.ThumbnailJob{ID: u.ID}); err != nil || len(f.keys()) != 2 {
		t.Errorf("a second run: %v, %v", f.keys(), err)
	}
	keys := f.keys()
	if err := f.Delete(f.as(0), u.ID); err != nil {
		t.Fatal(err)
	}
	var args struct{ Keys []string }
	if err := f.db.Direct().QueryRow(t.Context(), `select args from river_job where kind = 'upload_removal'`).Scan(&args); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(args.Keys); !slices.Equal(args.Keys, keys) {
		t.Errorf("the job removes %v of %v", args.Keys, keys)
	}
	if err := f.Remove(t.Context(), upload.RemovalJob{Backend: "local", Keys: args.Keys}); err != nil {
		t.Fatal(err)
	}
	if err := f.MakeThumbnail(t.Context(), upload.ThumbnailJob{ID: u.ID}); err != nil {
		t.Errorf("of a deleted file: %v", err)
	}
	f.wantClean(0)
}
