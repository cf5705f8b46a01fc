package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestABodyIsOneJSONValueInUTF8OfAtMost1000Levels(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		`{}`: true, ` [1] `: true, `1`: true, `"x"`: true, `null`: true, `{"a":"\u0000\ud800"}`: true, `1e200000`: true,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000):           true,
		strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000): true,
		`["` + strings.Repeat("[", 2000) + `"]`:                         true,
		`["\"` + strings.Repeat("[", 2000) + `\\"]`:                     true,
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001):           false,
		strings.Repeat(`[{"a":`, 501) + "1" + strings.Repeat("}]", 501): false,
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001):       false,
		strings.Repeat("[", 1<<20):                                      false,
		``:                                                              false, " \n": false, `{`: false, `{}{}`: false, "\ufeff{}": false, `NaN`: false, `{'a':1}`: false,
		"\"\xff\"": false, "a=b&c=d": false, "Hello, World!": false, `{"a":1,}`: false, "\"\x00\"": false, "{}\x00": false,
	} {
		err := checkBody([]byte(body))
		if (err == nil) != ok {
			t.Errorf("%.40q: %v", body, err)
		}
		if f, isField := errors.AsType[*FieldError](err); !ok && (!isField || f.Field != "body") {
			t.Errorf("%.40q: %v names no field", body, err)
		}
	}
}

func TestBodyFieldsAreStringsOrNumbersAsSpelled(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct{ eventType, id, field string }{
		`{"type":"paid","id":"evt_1"}`:     {"paid", "evt_1", ""},
		`{"type":1,"id":9007199254740993}`: {"1", "9007199254740993", ""},
		`{"type":1.0,"id":-0}`:             {"1.0", "-0", ""},
		`{"type":1e0,"id":1E2}`:            {"1e0", "1E2", ""},
		`{"type":null}`:                    {"", "", ""},
		`{"type":"","id":""}`:              {"", "", ""},
		`{}`:                               {"", "", ""},
		`[]`:                               {"", "", ""},
		`null`:                             {"", "", ""},
		`"x"`:                              {"", "", ""},
		`{"id":"a","ID":"b","Id":"c","type":"t"}`:      {"t", "a", ""},
		`{"ID":"b","TYPE":"t"}`:                        {"", "", ""},
		`{"id":"a","id":"b"}`:                          {"", "b", ""},
		`{"\u0069d":"a"}`:                              {"", "a", ""},
		`{"data":{"id":"inner","type":"inner"}}`:       {"", "", ""},
		`{"id":"\ud83d\ude00\u00e9\n\\u0000"}`:         {"", "😀é\n\\u0000", ""},
		`{"id":"\\ud800"}`:                             {"", `\ud800`, ""},
		`{"id":"\ufffd"}`:                              {"", "\ufffd", ""},
		`{"id":true}`:                                  {field: "external_id"},
		`{"id":{}}`:                                    {field: "external_id"},
		`{"id":["a"]}`:                                 {field: "external_id"},
		`{"type":false,"id":"a"}`:                      {field: "event_type"},
		`{"id":"a\ud800"}`:                             {field: "external_id"},
		`{"id":"\ud800\u0041"}`:                        {field: "external_id"},
		`{"id":"\ud800\ud800\udc00"}`:                  {field: "external_id"},
		`{"id":"\udc00\ud800"}`:                        {field: "external_id"},
		`{"id":"\udc00"}`:                              {field: "external_id"},
		`{"type":"\uDBFF"}`:                            {field: "event_type"},
		`{"id":"a\u0000b"}`:                            {field: "external_id"},
		`{"type":"\u0000"}`:                            {field: "event_type"},
		`{"id":"` + strings.Repeat("é", 255) + `"}`:    {"", strings.Repeat("é", 255), ""},
		`{"id":"` + strings.Repeat("é", 256) + `"}`:    {field: "external_id"},
		`{"type":"` + strings.Repeat("😀", 100) + `"}`:  {strings.Repeat("😀", 100), "", ""},
		`{"type":"` + strings.Repeat("a", 100) + ` "}`: {field: "event_type"},
		`{"id":1` + strings.Repeat("0", 255) + `}`:     {field: "external_id"},
	} {
		eventType, id, err := extract(Payment(), []byte(body), nil)
		f, _ := errors.AsType[*FieldError](err)
		switch {
		case want.field != "" && (f == nil || f.Field != want.field):
			t.Errorf("%.60s: %q, %q, %v, want %s refused", body, eventType, id, err, want.field)
		case want.field == "" && (err != nil || eventType != want.eventType || id != want.id):
			t.Errorf("%.60s: %q, %q, %v", body, eventType, id, err)
		}
	}
}

func FuzzBodyFields(f *testing.F) {
	for _, body := range []string{`{"type":"paid","id":"evt_1"}`, `{"id":1e5,"type":null}`, `{"id":"\ud83d\ude00"}`, `{"id":"\ud800"}`, `[[]]`, `{"id":"\u0000"}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		eventType, id, err := extract(Payment(), body, nil)
		if err != nil {
			if f, ok := errors.AsType[*FieldError](err); !ok || f.Reason == "" {
				t.Fatalf("an error that the sender can't be told: %v", err)
			}
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
		checkStorable(t, eventType, id)
	})
}

func FuzzHeaderFields(f *testing.F) {
	f.Add("push", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	f.Add("\xff", "\x00")
	f.Fuzz(func(t *testing.T, event, delivery string) {
		h := http.Header{codeHostEvent: {event}, codeHostDelivery: {delivery}}
		eventType, id, err := extract(CodeHost(), []byte("{}"), h)
		if err != nil {
			return
		}
		if eventType != event || id != delivery {
			t.Fatalf("changed to %q, %q", eventType, id)
		}
		checkStorable(t, eventType, id)
	})
}

// FuzzDottedFields also holds the path against a walk through decoded objects.
func FuzzDottedFields(f *testing.F) {
	for _, body := range []string{`{"kind":"a","meta":{"uid":1}}`, `{"meta":{"uid":"\ud83d\ude00"},"meta":{"uid":null}}`, `{"meta":[1]}`, `{"meta.uid":1}`, `{"meta":{"uid":{}}}`} {
		f.Add([]byte(body))
	}
	p := Registration{Extractor: BodyFields{Type: "kind", ID: "meta.uid"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		eventType, id, err := extract(p, body, nil)
		if err != nil {
			if f, ok := errors.AsType[*FieldError](err); !ok || f.Reason == "" {
				t.Fatalf("an error that the sender can't be told: %v", err)
			}
			return
		}
		checkStorable(t, eventType, id)
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		top, _ := v.(map[string]any)
		meta, _ := top["meta"].(map[string]any)
		// encoding/json merges repeated objects into one map; here the last one counts.
		if bytes.Count(body, []byte("meta")) > 1 || bytes.Contains(body, []byte(`\u`)) {
			return
		}
		want := ""
		if meta["uid"] != nil {
			want = fmt.Sprint(meta["uid"])
		}
		if id != want {
			t.Fatalf("%s: id %q, want %q", body, id, want)
		}
	})
}

func FuzzStandardFields(f *testing.F) {
	f.Add([]byte(`{"type":"a"}`), "msg_1")
	f.Add([]byte(`{"type":1e5}`), "\xff\x00")
	f.Fuzz(func(t *testing.T, body []byte, id string) {
		eventType, got, err := extract(StandardWebhooks("a", "A"), body, http.Header{"Webhook-Id": {id}})
		if err != nil {
			return
		}
		if got != id {
			t.Fatalf("%q became %q", id, got)
		}
		checkStorable(t, eventType, got)
	})
}

// FuzzCompose checks that what is put into a body is found there, and that
// nothing else of it changes.
func FuzzCompose(f *testing.F) {
	f.Add([]byte(`{"meta":{"a":1E2},"z":[]}`))
	f.Add([]byte(`{"meta":{},"meta":{"uid":"1"}}`))
	f.Add([]byte(` { } `))
	fields := BodyFields{Type: "kind", ID: "meta.uid"}
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := fields.Compose("k", "1", data, nil)
		if err != nil || checkBody(body) != nil {
			return
		}
		eventType, id, err := fields.Extract(body, nil)
		if err != nil || eventType != "k" || id != "1" {
			t.Fatalf("%q became %q, which has %q, %q, %v", data, body, eventType, id, err)
		}
	})
}

func checkStorable(t *testing.T, eventType, id string) {
	t.Helper()
	for value, limit := range map[string]int{eventType: 100, id: 255} {
		if eventType == id {
			limit = 100
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || utf8.RuneCountInString(value) > limit {
			t.Fatalf("%q can't be stored", value)
		}
	}
}
