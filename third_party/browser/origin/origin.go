// Package origin is the record of where embedded third-party files come from. It
// stands apart from package browser so that the files can be made anew when they
// are missing.
package origin

// Origin is a directory's origin.json.
type Origin struct {
	Package string `json:"package"` // on npm
	Version string `json:"version"`
	// Integrity is the checksum of the package's tarball as npm states it.
	Integrity string `json:"integrity"`
	Licence   string `json:"licence"` // SPDX
	Source    string `json:"source"`
	Files     []File `json:"files"`
}

// File is one asset.
type File struct {
	Name   string `json:"name"`
	Path   string `json:"path"`   // inside the package
	SHA256 string `json:"sha256"` // of the original, in hex
	Size   int64  `json:"size"`   // of the original, in bytes
}
