//go:build !linux

package blob

import "os"

// openAtOnce is for systems that open a path without leaving a directory by one call.
func openAtOnce(*os.File, string) (*os.File, os.FileInfo, bool) { return nil, nil, false }
