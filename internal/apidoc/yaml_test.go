package apidoc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

// normal makes values of both decoders comparable: all numbers are float64.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			m[key] = normal(value)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, value := range v {
			l[i] = normal(value)
		}
		return l
	case int, int64, uint64:
		f, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
		return f
	}
	return v
}

func jsonValues() *rapid.Generator[any] {
	text := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ a-zA-Z0-9:#\-\n\t'"{}\[\],&*!|>%@.~=<?]{0,12}`),
		rapid.SampledFrom([]string{"", "yes", "No", "on", "null", "~", "1e3", "0x1F", "0o7", "1_000", "12:30", "2001-01-01", "=", "<<", "-", "? a", "a: b", "a #b", " a", "a ", "a\n", "\na", "a\n b", ".inf", "+1", "NaN", "\u0085", "\u2028", "\ufeff", "a\r\nb", "---", "...", "/docs"}),
	)
	scalar := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
		rapid.Map(rapid.IntRange(-1<<52, 1<<52), func(n int) any { return float64(n) }),
		rapid.SampledFrom([]any{true, false, nil, 1e21, 1e-7, 0.1}),
	)
	var nested func(depth int) *rapid.Generator[any]
	nested = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(nested(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(text, nested(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	return nested(3)
}

func TestYAMLParsesToTheVeryValuesOfTheJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(jsonValues().Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jsonToYAML(raw)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromYAML any
		if err := json.Unmarshal(raw, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &fromYAML); err != nil {
			t.Fatalf("%s\n%s\n%v", raw, text, err)
		}
		if diff := cmp.Diff(normal(fromJSON), normal(fromYAML)); diff != "" {
			t.Fatalf("%s\n%s\n%s", raw, text, diff)
		}
	})
}
