package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// uuidForm is how an example of a UUID looks.
var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// describedSchemas calls f with each schema of the description, parameters' and those
// inside others included, as JSON.
func describedSchemas(t *testing.T, f func(where string, schema map[string]any)) {
	t.Helper()
	raw, err := json.Marshal(described(t))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, typed := v["type"]; typed || v["example"] != nil {
				f(where, v)
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if key != "examples" && key != "example" {
					walk(where+"/"+key, v[key])
				}
			}
		case []any:
			for _, item := range v {
				name := ""
				if o, ok := item.(map[string]any); ok {
					name, _ = o["name"].(string)
				}
				walk(where+"/"+name, item)
			}
		}
	}
	walk("", doc["paths"])
	walk("", doc["components"])
}

// noUUIDs are fields and parameters whose example is a UUID, but that take other texts.
var noUUIDs = []string{"/session_id", "/Idempotency-Key"}

func TestWhatIsAUUIDIsDescribedAsOne(t *testing.T) {
	t.Parallel()
	found := 0
	describedSchemas(t, func(where string, s map[string]any) {
		examples, _ := s["examples"].([]any)
		schema := s
		if inner, ok := s["schema"].(map[string]any); ok { // a parameter
			examples, schema = append(examples, s["example"]), inner
		}
		for _, example := range examples {
			if text, ok := example.(string); !ok || !uuidForm.MatchString(text) || slices.ContainsFunc(noUUIDs, func(suffix string) bool { return strings.HasSuffix(where, suffix) }) {
				continue
			}
			found++
			if schema["format"] != "uuid" {
				t.Errorf("%s has a UUID as example, and format %v", where, schema["format"])
			}
		}
	})
	if found < 30 {
		t.Errorf("only %d UUIDs are described", found)
	}
}

func TestWhatIsNoUUIDIsNobodysID(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	for _, path := range []string{"/api/admin/sites/7", "/api/admin/sites/7/stats/summary", "/api/admin/sites/7/keys"} {
		s.send(t, "GET", path, "").wants(t, path, http.StatusNotFound, "not_found")
	}
}

// TestEveryPatternCanBePrinted: generators write patterns into sources, and not all of
// them escape what has to be.
func TestEveryPatternCanBePrinted(t *testing.T) {
	t.Parallel()
	found := 0
	describedSchemas(t, func(where string, s map[string]any) {
		pattern, ok := s["pattern"].(string)
		if !ok {
			return
		}
		found++
		for _, c := range pattern {
			if c < ' ' || c > '~' || strings.ContainsRune("\"'", c) {
				t.Errorf("%s: a pattern with %q: %s", where, c, pattern)
			}
		}
		if bound := strings.HasPrefix(pattern, "^[0-9]{4}-"); bound && strings.ContainsAny(pattern, `\/`) {
			t.Errorf("%s: a pattern with a slash: %s", where, pattern)
		}
	})
	if found < 50 {
		t.Errorf("only %d patterns are described", found)
	}
}

func TestBoundsOfARangeHaveThePatternThatTheServerDemands(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	blog := s.create(t, `{"name":"Blog","domain":"blog.example"}`)
	patterns := map[string]string{}
	for path, item := range described(t).Paths {
		if strings.Contains(path, "/stats/") && item.Get != nil {
			for _, p := range item.Get.Parameters {
				if p.Name == "from" || p.Name == "to" {
					raw, err := json.Marshal(p.Schema)
					if err != nil {
						t.Fatal(err)
					}
					var schema struct{ Pattern string }
					if err := json.Unmarshal(raw, &schema); err != nil {
						t.Fatal(err)
					}
					patterns[path+" "+p.Name] = schema.Pattern
				}
			}
		}
	}
	if len(patterns) < 30 {
		t.Errorf("only %d ends of ranges are described", len(patterns))
	}
	for value, want := range map[string]bool{
		"2026-01-02": true, "2026-01-02T03:04:05Z": true, "2026-01-02t03:04:05.678+05:30": true,
		"yesterday": false, "2026-1-2": false, "2026-01-02 03:04:05Z": false, "2026-01-02T03:04:05": false, "2026-01-02T03:04Z": false, "2026-01-02T03:04:05,5Z": false, "20260102": false,
	} {
		a := s.send(t, "GET", "/api/admin/sites/"+blog.ID+"/stats/summary?to=2026-02-01&from="+url.QueryEscape(value), "")
		if taken := a.status == http.StatusOK; taken != want {
			t.Errorf("from=%s: %d %s", value, a.status, a.text)
		}
		for where, pattern := range patterns {
			if matched, err := regexp.MatchString(pattern, value); err != nil || pattern == "" || matched != want {
				t.Errorf("%s: %q matches %s: %t, %v", where, value, pattern, matched, err)
			}
		}
	}
}

func TestADomainIsDescribedAsTheHostThatTheServerDemands(t *testing.T) {
	t.Parallel()
	s := newSiteAPI(t, limits{})
	validator := served(t, described(t), "CreateSite")
	for domain, want := range map[string]bool{
		"example.com": true, "Blog.Example.": true, "bücher.example": true, "127.0.0.1": true, "::1": true, "localhost": true,
		"https://example.com": false, "example.com:8080": false, "example.com/blog": false, "a b": false, " example.com": false, "a..b": false, "-a.example": false, "*.example.com": false, "a_b.example": false,
	} {
		raw, err := json.Marshal(map[string]string{"name": "Blog", "domain": domain})
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		a := s.send(t, "POST", "/api/admin/sites", string(raw))
		if taken, valid := a.status == http.StatusCreated, validator.Validate(value) == nil; taken != want || valid != want {
			t.Errorf("%q: %d %s, valid %t", domain, a.status, a.text, valid)
		}
	}
}

// TestABulkReplayIsStartedWatchedAndCancelled has what the server does with it.
func TestAnEmptyBulkReplayIsRefusedByItsSchemaToo(t *testing.T) {
	t.Parallel()
	validator := served(t, described(t), "WebhookReplayRequest")
	for body, want := range map[string]bool{`{}`: false, `{"provider":"payment"}`: true} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Validate(value); (err == nil) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}
