package accesslog

import "strings"

// isAssetExtension has the extensions of files that are parts of pages or downloads rather than
// pages: Matomo's two lists (matomo-log-analytics, STATIC_EXTENSIONS and
// DOWNLOAD_EXTENSIONS), and what came after them.
var isAssetExtension = setOf(`
	css js mjs map wasm webmanifest
	avif bmp gif ico jpeg jpg png svg svgz tif tiff webp
	eot otf ttf woff woff2
	aac flac flv m4a m4v mov movie mp2 mp3 mp4 mpeg mpg oga ogg ogv opus qt qtm ra ram wav weba webm wma wmv asf asx avi
	atom csv json rss sea txt xml xsd
	azw3 doc docx epub ibooks mobi odb odf odg odp ods odt pdf ppt pptx rtf wpd xls xlsx
	7z apk arc arj bin bz2 deb dmg exe gz gzip hqx iso jar msi msp pkg rar rpm sit tar tbz tbz2 tgz torrent xz z zip zst
	class swf phps
`)

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// IsAsset reports whether path ends, in either case, in the extension of a file that
// is no page.
func IsAsset(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot >= 0 && isAssetExtension[strings.ToLower(name[dot+1:])]
}
