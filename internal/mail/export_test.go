package mail

import (
	"maps"
	"slices"
)

// Kinds returns every kind.
func Kinds() []Kind { return slices.Sorted(maps.Keys(letters)) }
