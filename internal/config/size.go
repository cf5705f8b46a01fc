package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as such or with a unit: 50MiB, 1GiB, 4096.
type Size int64

// units are in the order of their size.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a size. Units of 1,000 are refused, as is what is negative or
// larger than an int64.
func (s *Size) UnmarshalText(text []byte) error {
	digits, factor := string(text), int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(digits, u.name); ok {
			digits, factor = strings.TrimSuffix(d, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return fmt.Errorf("%.40q is not a size: write bytes, or a whole number with KiB, MiB, GiB or TiB, such as 50MiB", text)
	}
	*s = Size(int64(n) * factor)
	return nil
}

// MarshalText writes a size with the largest unit that it is a multiple of.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes a size as UnmarshalText reads it.
func (s Size) String() string {
	for _, u := range units[:len(units)-1] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
