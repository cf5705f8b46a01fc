package columns

import (
	"errors"
	"slices"
	"strings"
)

// ErrUnknownPart says that a stored part is of a version that has more columns.
var ErrUnknownPart = errors.New("stats/columns: a part that only another version knows")

// HasTexts reports whether the part with a name begins with a dictionary of texts, as
// columns do, also those that only another version has. It returns ErrUnknownPart of a part
// that is no column and isn't known.
func HasTexts(part string) (bool, error) {
	switch {
	case part == partSessions || part == partMicros || part == partTimes:
		return false, nil
	case part == PartProps || !strings.HasPrefix(part, "_"):
		return true, nil
	default:
		return false, ErrUnknownPart
	}
}

// IDs appends the label ids of a part that has texts. Texts that are stored themselves have
// none.
func IDs(to []int64, part []byte) ([]int64, error) {
	ids, _, err := Dict(to, part, func(Text) int64 { return 0 })
	return slices.DeleteFunc(ids, func(id int64) bool { return id <= 0 }), err
}
