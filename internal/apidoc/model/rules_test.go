package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/humatest"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestAHostIsANameOrAnAddressAndNothingAroundIt(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for value, want := range map[string]bool{
		"example.com": true, "localhost": true, "EXAMPLE.com.": true, "xn--bcher-kva.example": true, "bücher.example": true, "例え.テスト": true,
		"a-b.c-d": true, "1.2.3.4": true, "::1": true, "2001:db8::1": true, "::ffff:1.2.3.4": true, label + ".example": true,
		"": false, " example.com": false, "example.com ": false, "https://example.com": false, "example.com:80": false, "example.com/": false, "a..b": false, ".a": false,
		"-a.b": false, "a-.b": false, "a_b": false, "a b": false, "*.example.com": false, "a@b": false, "a\u00a0b": false, "[::1]": false, "a..": false, label + "a.example": false,
	} {
		if got := hostPattern.MatchString(value); got != want {
			t.Errorf("%q is a host: %t", value, got)
		}
	}
}

// sparse is a request that says something.
type sparse struct {
	_    struct{} `model:"min=1"`
	Name string   `json:"name" example:"Ada"`
	Tag  string   `json:"tag" example:"a"`
}

func TestABodyHasAsManyFieldsAsItsModelDemands(t *testing.T) {
	t.Parallel()
	_, api := humatest.New(t, huma.DefaultConfig("Test", "1"))
	new(Request[sparse]).Schema(api.OpenAPI().Components.Schemas)
	validator := compile(t, api.OpenAPI().Components.Schemas, "SparseRequest")
	for body, want := range map[string]bool{`{}`: false, `{"name":""}`: true, `{"tag":"b","name":"a"}`: true} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var q Request[sparse]
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		if taken, valid := len(q.problems) == 0, validator.Validate(value) == nil; taken != want || valid != want {
			t.Errorf("%s: taken %t, valid %t", body, taken, valid)
		}
	}
}
