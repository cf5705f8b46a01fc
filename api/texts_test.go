package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Whoever reads the description learns of everything that is sent and answered what it is,
// in a sentence.
func TestEveryPropertyParameterAndHeaderOfTheDescriptionHasAText(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	eachDescribed(doc, "", func(kind, at string, member map[string]any) {
		seen[kind]++
		text, _ := member["description"].(string)
		if text == "" || !strings.HasSuffix(text, ".") {
			t.Errorf("the %s %s has the text %q, which is no sentence", kind, at, text)
		}
	})
	for kind, least := range map[string]int{"property": 500, "parameter": 300, "header": 100} {
		if seen[kind] < least {
			t.Errorf("only %d were found that are a %s", seen[kind], kind)
		}
	}
}

// A UI sends an example as it is: with each attempt the same key, of which all but the first
// would be refused.
func TestNoUISendsTheIdempotencyKeyOfAnExample(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	seen := 0
	eachDescribed(doc, "", func(kind, at string, member map[string]any) {
		if member["name"] != "Idempotency-Key" {
			return
		}
		seen++
		schema, _ := member["schema"].(map[string]any)
		if member["example"] != nil || member["examples"] != nil || schema["examples"] != nil || schema["default"] != nil {
			t.Errorf("%s has an example", at)
		}
	})
	if seen < 10 {
		t.Errorf("only %d operations take a key", seen)
	}
}

// eachDescribed calls found for each property, parameter and header at or below a place in the
// description, also where it refers to a shared one. Examples are passed over: they have
// members of the same names.
func eachDescribed(node any, at string, found func(kind, at string, member map[string]any)) {
	if list, ok := node.([]any); ok {
		for i, each := range list {
			eachDescribed(each, fmt.Sprintf("%s[%d]", at, i), found)
		}
		return
	}
	object, _ := node.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		below := at + "/" + key
		switch key {
		case "example", "examples", "default", "enum", "required":
			continue
		case "properties", "headers":
			kind := map[string]string{"properties": "property", "headers": "header"}[key]
			members, _ := object[key].(map[string]any)
			for name, each := range members {
				if member, ok := each.(map[string]any); ok && (kind == "property" || member["$ref"] == nil) {
					found(kind, below+"/"+name, member)
				}
				eachDescribed(each, below+"/"+name, found) // name is no keyword
			}
			continue
		case "parameters":
			list, _ := object[key].([]any)
			for _, each := range list {
				if member, ok := each.(map[string]any); ok && member["in"] != nil {
					found("parameter", below+"/"+fmt.Sprint(member["name"]), member)
				}
			}
		}
		eachDescribed(object[key], below, found)
	}
}
