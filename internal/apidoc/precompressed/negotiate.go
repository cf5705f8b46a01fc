package precompressed

import (
	"slices"
	"strconv"
	"strings"
)

// preference breaks ties between codings that a client likes equally. Some
// clients take nothing but zstd, which here is never the smallest.
var preference = [...]string{"br", "gzip", "zstd", ""}

// negotiate picks the stored coding with the highest weight (RFC 9110, section
// 12.5.3). No coding at all is the answer when the client names none that is
// stored, and also when it refuses everything: bytes are better than a 406.
func (c *Content) negotiate(fields []string) string {
	weights := weigh(make([]weighted, 0, 8), fields)
	best, bestWeight := "", 0.0
	for _, coding := range preference {
		if c.variants[coding] == nil {
			continue
		}
		if w := weight(weights, coding); w > bestWeight {
			best, bestWeight = coding, w
		}
	}
	return best
}

// weighted is what a client says of one coding.
type weighted struct {
	name   string
	weight float64
}

func weight(weights []weighted, coding string) float64 {
	name := coding
	if name == "" {
		name = "identity"
	}
	for _, name := range [...]string{name, "*"} {
		for _, w := range slices.Backward(weights) { // what is said last holds
			if w.name == name {
				return w.weight
			}
		}
	}
	if coding == "" {
		return 0.0001 // acceptable unless excluded, liked less than any that is named
	}
	return 0
}

// weigh appends what the fields say to weights, a buffer of the caller's.
func weigh(weights []weighted, fields []string) []weighted {
	for _, field := range fields {
		for entry := range strings.SplitSeq(field, ",") {
			name, parameters, _ := strings.Cut(entry, ";")
			w := 1.0
			if q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameters)), "q="); ok {
				parsed, err := strconv.ParseFloat(q, 64)
				if err != nil || !(parsed >= 0 && parsed <= 1) {
					continue
				}
				w = parsed
			}
			if name = strings.ToLower(strings.TrimSpace(name)); name == "x-gzip" {
				name = "gzip" // RFC 9110, section 8.4.1.3
			}
			weights = append(weights, weighted{name, w})
		}
	}
	return weights
}
