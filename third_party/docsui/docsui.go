// Package docsui holds the two interactive documentation UIs as their makers
// published them on npm: Scalar (MIT) and Swagger UI (Apache-2.0), each in its
// directory with licence and origin. Nothing in them is changed; the files are
// only compressed.
//
// go generate writes the directories anew, byte for byte, from the packages that
// fetch/packages.json pins by version and checksum; it needs npm, a normal build
// does not.
package docsui

import "embed"

// Files has scalar/ and swagger-ui/. Each asset is stored as NAME.br and NAME.gz
// and listed in its directory's origin.json.
//
//go:embed scalar swagger-ui
var Files embed.FS

//go:generate go run ./fetch
