package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/waypost/waypost/internal/fault"
)

func TestABodyThatIsNotOneJSONValueIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*fault.Error{
		``:                          errNoBody,
		"  \n":                      errNoBody,
		`{`:                         errNotJSON,
		`{} {}`:                     errNotJSON,
		"\xef\xbb\xbf{}":            errNotJSON,
		"{\"a\":\"\xff\"}":          errNotJSON,
		`{"a":NaN}`:                 errNotJSON,
		strings.Repeat("[", 10_001): errNotJSON,
		`{"a":"\uD83D\uDE00"}`:      nil,
		`null`:                      nil,
	} {
		err := checkJSON([]byte(body))
		switch {
		case want == nil && err != nil:
			t.Errorf("%.40q: %v", body, err)
		case want != nil && !errors.Is(err, want):
			t.Errorf("%.40q: %v, want %v", body, err, want)
		}
	}
}
