package upload

import (
	"mime"
	"slices"

	"github.com/gabriel-vasile/mimetype"
)

// sniffed is how many of a file's first bytes tell its type.
const sniffed = 3072

// rasters are the images that browsers show without running anything. They may be
// shown inline, and have dimensions and thumbnails.
var rasters = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff"}

// DefaultTypes are the media types that are accepted where none are set.
func DefaultTypes() []string {
	return append(slices.Clone(rasters),
		"application/pdf", "text/plain", "text/csv", "application/json", "text/markdown", "application/zip",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation",
		"application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.spreadsheet", "application/vnd.oasis.opendocument.presentation",
		"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
		"audio/mpeg", "video/mp4", "video/webm")
}

// never are types that can run scripts in the service's own origin. No setting
// allows them.
var never = []string{"text/html", "application/xhtml+xml", "image/svg+xml"}

// texts are types that can't be told from plain text by looking, so that the sender's
// word counts.
var texts = []string{"text/plain", "text/csv", "text/markdown", "application/json"}

// markup are types of text that a browser may take for a page.
var markup = append([]string{"text/xml", "application/xml"}, never...)

// types are those that are accepted.
type types struct{ allowed []string }

func newTypes(list []string) types {
	var t types
	for _, name := range list {
		if name = bare(name); name != "" && !slices.Contains(never, name) {
			t.allowed = append(t.allowed, name)
		}
	}
	return t
}

// IsRaster reports whether a file of that type may be shown inline.
func IsRaster(contentType string) bool { return slices.Contains(rasters, contentType) }

// bare is a media type without parameters, in lower case; "" for what is none.
func bare(mediaType string) string {
	t, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return ""
	}
	return t
}

// resolve says what type a file has that begins with head and of which its sender says
// that it is declared. It returns ErrType for what is not accepted.
func (t types) resolve(declared string, head []byte) (string, error) {
	found := mimetype.Detect(head)
	lineage := lineageOf(found)
	if slices.ContainsFunc(lineage, func(name string) bool { return slices.Contains(never, name) }) {
		return "", ErrType
	}
	declared = bare(declared)
	plain := slices.Contains(lineage, "text/plain") && !slices.ContainsFunc(lineage, func(name string) bool { return slices.Contains(markup, name) })
	if plain && slices.Contains(texts, declared) && t.allows(declared) {
		return declared, nil
	}
	for i, name := range lineage {
		// Everything descends from these two, programs and pages too.
		if i > 0 && (name == "text/plain" || name == "application/octet-stream") {
			break
		}
		if t.allows(name) {
			return name, nil
		}
	}
	return "", ErrType
}

func (t types) allows(name string) bool { return slices.Contains(t.allowed, name) }

// lineageOf is a type and what it is a special case of: an animated PNG is a PNG, a
// document of some programs a ZIP.
func lineageOf(m *mimetype.MIME) []string {
	var names []string
	for ; m != nil; m = m.Parent() {
		names = append(names, bare(m.String()))
	}
	return names
}
