// Package browser holds what others made for browsers, as they published it on npm:
// the two interactive documentation UIs, Scalar (MIT) and Swagger UI (Apache-2.0), and
// htmx (0BSD), by which pages are brought up to date. Each is in its directory with
// licence and origin. Nothing in them is changed; the files are only compressed.
//
// go generate writes the directories anew, byte for byte, from the packages that
// fetch/packages.json pins by version and checksum; it needs npm, a normal build
// does not.
package browser

import "embed"

// Files has a directory for each. Each asset is stored as NAME.br and NAME.gz
// and listed in its directory's origin.json.
//
//go:embed scalar swagger-ui htmx
var Files embed.FS

//go:generate go run ./fetch
