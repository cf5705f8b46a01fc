package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// values are candidates for any field: near the limits of some, absurd for most.
func values(t *rapid.T, label string) string {
	text := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	switch rapid.IntRange(0, 12).Draw(t, label+" kind") {
	case 0:
		return text(rapid.StringN(0, 10, -1).Draw(t, label))
	case 1:
		return text(rapid.StringMatching(`[a-z.]{0,4}@?[a-z-]{0,3}\.?[a-z]{0,3}`).Draw(t, label))
	case 2:
		return rapid.SampledFrom([]string{"null", "true", "false", "{}", "[]", `""`, `"\u0000"`, `"LIVE"`, `"DRAFT"`, `[{}]`}).Draw(t, label)
	case 3:
		return rapid.SampledFrom([]string{"0", "-0.0", "1.0", "10e-1", "1.5", "9", "9.0000001", "-3", "-4", "255", "256", "9007199254740991", "9007199254740993", "1e300", "1e400", "1e-400", "-1e-400"}).Draw(t, label)
	case 4:
		n := rapid.IntRange(0, 3).Draw(t, label+" length")
		items := make([]string, n)
		for i := range items {
			items[i] = rapid.SampledFrom([]string{`"go"`, `"web"`, `""`, `"toolong"`, "1", "null"}).Draw(t, label)
		}
		return "[" + strings.Join(items, ",") + "]"
	case 5:
		return text(rapid.StringMatching(`[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,][0-9]{1,12})?([Zz]|[+-][0-2][0-9]:[0-6][0-9])?`).Draw(t, label))
	case 6:
		return text(rapid.SampledFrom([]string{"2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2016-12-31T23:59:60Z", "2016-12-31T22:59:60-01:00", "2016-12-31T22:59:60Z", "0999-01-01T00:00:00Z", "9000-01-01T00:00:00Z"}).Draw(t, label))
	case 7:
		return text(strings.Repeat("a", rapid.SampledFrom([]int{63, 64, 65}).Draw(t, label+" local")) + "@" + strings.Repeat("b", rapid.SampledFrom([]int{1, 62, 63, 64}).Draw(t, label+" label")) + ".example")
	case 8:
		return text(rapid.SampledFrom([]string{"ä😀", "a b@c.d", "a@b", "a@-b.c", "a@b-.c", "a.@b.c", ".a@b.c", "a..b@c.d", `"q"@b.c`, "a@[1.2.3.4]", "a@b..c", "o'neil+x@b.c"}).Draw(t, label))
	case 9:
		return text(rapid.StringOfN(rapid.SampledFrom([]rune(" \t\v\r\n\u001c\u001f\u007e\u007f\u0085\u009f\u00a0\u1680\u180e\u2003\u200a\u200b\u200c\u200d\u2027\u2028\u202e\u202f\u205f\u2065\u2066\u2069\u206a\u3000\ufeff😀x")), 0, 4, -1).Draw(t, label))
	case 10:
		return text(rapid.StringMatching(`[a-z0-9:./ _é-]{0,4}[.]?[a-zA-Z0-9é-]{1,5}[.:]{0,2}`).Draw(t, label))
	case 11:
		return text(rapid.StringMatching(`[0-9a-gA-G]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{11,13}`).Draw(t, label))
	default:
		return rapid.SampledFrom([]string{`"Ada"`, `"ada@example.com"`, `"LIVE"`, "true", "1", `["go"]`, `"hm"`, `"2026-01-02T15:04:05.123456Z"`}).Draw(t, label)
	}
}

// good holds a value that fits each field of Sample, so that bodies are often
// wrong in one place only.
var good = map[string]string{
	"id": "7", "name": `"Ada"`, "email": `"ada@example.com"`, "state": `"LIVE"`, "active": "false", "rank": "2", "small": "3", "score": "0.5",
	"tags": `["go"]`, "note": `"hm"`, "label": `"new"`, "title": `"Hi"`, "nick": `"ada"`, "ref": `"01968A3E-7c2f-7d31-9c55-1f6f7f0f2a10"`, "host": `"b.example."`, "live_at": `"2026-01-02T15:04:05Z"`, "created_at": `"2026-01-02T15:04:05Z"`,
}

// bodies are those of good, without what the server gives, but for up to four fields,
// so that a good part of them is right.
func bodies(t *rapid.T) string {
	members := maps.Clone(good)
	delete(members, "id")
	delete(members, "created_at")
	names := slices.Sorted(maps.Keys(good))
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		switch name := rapid.SampledFrom(names).Draw(t, "name"); rapid.IntRange(0, 2).Draw(t, name) {
		case 0:
			members[name] = values(t, name)
		case 1:
			members[name] = good[name]
		default:
			delete(members, name)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "extra") == 0 {
		members[rapid.SampledFrom([]string{"Name", "secret", "", "x", "Secret"}).Draw(t, "extra name")] = `"x"`
	}
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, _ := json.Marshal(name)
		parts = append(parts, string(key)+":"+members[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestABodyIsAcceptedExactlyWhenItsSchemaAcceptsIt(t *testing.T) {
	t.Parallel()
	api, _ := serve(t)
	for method, name := range map[string]string{"POST": "CreateSample", "PUT": "UpdateSample"} {
		validator := compile(t, api.OpenAPI().Components.Schemas, name)
		accepted := 0
		rapid.Check(t, func(t *rapid.T) {
			body := bodies(t)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			verdict := validator.Validate(value)
			w := send(api, method, "/samples", body)
			if (w.Code == 200) != (verdict == nil) || (w.Code != 200 && w.Code != 422) {
				t.Fatalf("%s %s\nhandler: %d %s\nschema: %v", method, body, w.Code, w.Body, verdict)
			}
			if verdict == nil {
				accepted++
			}
		})
		if accepted == 0 {
			t.Errorf("%s: no generated body was acceptable, so the property was not tested", method)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"name":"Ada","email":"ada@example.com","tags":["a"],"live_at":"2016-12-31T23:59:60Z"}`)
	f.Add(`{"name":"\ud83d\ude00","rank":1e3,"score":1e-999}`)
	f.Add("{\"name\":\"\xff\\u0000\"}")
	f.Add(`[{"a":null}]`)
	f.Fuzz(func(t *testing.T, body string) {
		if !json.Valid([]byte(body)) {
			return
		}
		var c Create[Sample]
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.problems) > 0 {
			return
		}
		v := c.Value()
		v.CreatedAt = stored.CreatedAt
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("an accepted body can't be written out: %v", err)
		}
		var u Update[Sample]
		if err := json.Unmarshal(raw, &u); err != nil || len(u.problems) > 0 {
			t.Fatalf("an accepted body can't be written back: %s: %v", raw, u.problems)
		}
	})
}
