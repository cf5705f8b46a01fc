package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// seeds are bodies on both sides of the line.
var memberSeeds = []string{
	`{}`, `[]`, `{"a":`, `{"url":"https://example.com/\u00e9\ud83d\ude00","name":"x\ny"}`, `{"url":"\ud800"}`, `{"url":"\u0000"}`,
	`{"url":"\\u0000"}`, "{\"url\":\"\xff\"}", `{"url":"a","url":"b"}`, `{"url":1e400,"name":null}`, `{"events":[{},[1,{"a":"]"}],"\ud800", 3 ,null]}`,
	`{"site_key":"k","url":"u","props":{"a":1,"b":"c","d":true}}`,
}

// FuzzMembersAreWhatAnotherReaderFinds holds the one-pass reader against
// encoding/json, which keeps the last of equal names.
func FuzzMembersAreWhatAnotherReaderFinds(f *testing.F) {
	for _, seed := range memberSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if checkJSON(body) != nil {
			return // what readers are never given
		}
		got := map[string]string{}
		err := eachMember(body, func(name string, value jsontext.Value) {
			delete(got, name)
			if text, ok := textOf(value); ok {
				got[name] = text
			}
		})
		var raw map[string]json.RawMessage
		if json.Unmarshal(body, &raw) != nil || raw == nil {
			if err == nil {
				t.Fatalf("%q was taken for an object", body)
			}
			return
		}
		if err != nil {
			return // text that encoding/json replaces
		}
		want := map[string]string{}
		for name, value := range raw {
			var text string
			if value[0] == '"' && json.Unmarshal(value, &text) == nil {
				want[name] = text
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for name, text := range got {
			if strings.ContainsRune(name+text, 0) {
				t.Errorf("%q holds U+0000", body)
			}
		}
	})
}

// FuzzElementsAreWhatAnotherReaderFinds does the same for lists.
func FuzzElementsAreWhatAnotherReaderFinds(f *testing.F) {
	for _, seed := range append(memberSeeds, `[]`, `[1]`, `[ {"a":[]} , "," ,[,]]`, "[1,\n\t2 ,\"]\"]") {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if checkJSON(body) != nil {
			return
		}
		var want []json.RawMessage
		isList := json.Unmarshal(body, &want) == nil && want != nil
		got, ok := elements(jsontext.Value(bytes.TrimSpace(body)))
		if ok != isList || len(got) != len(want) {
			t.Fatalf("%q: %d elements (%t), want %d (%t)", body, len(got), ok, len(want), isList)
		}
		for i := range want {
			if !bytes.Equal(bytes.TrimSpace(want[i]), got[i]) {
				t.Errorf("element %d of %q is %q, want %q", i, body, got[i], want[i])
			}
		}
	})
}
