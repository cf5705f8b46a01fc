package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/waypost/waypost/internal/apidoc/model/modeltest"
	"github.com/waypost/waypost/internal/identity"
)

// served compiles a schema of the API's description.
func served(t *testing.T, doc *huma.OpenAPI, name string) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"components": doc.Components})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return modeltest.CompilePattern(p) })
	if err := c.AddResource("doc.json", tree); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("doc.json#/components/schemas/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// modelValues are candidates for the fields of every model, as JSON; most of them
// fit some field and are absurd for others.
func modelValues() *rapid.Generator[string] {
	quoted := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"null", "true", "false", "0", "1", "1.5", "-1", "{}", "[]", `[""]`, `["a"]`, `["a",null]`, `["a",1]`, `"\u0000"`, `""`,
			`"a b"`, `"https://blog.example"`, `"blog.example:80"`, `"BLOG.example."`, `"bücher.example"`, `"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`, `"::1"`,
			`"ADMIN"`, `"EDITOR"`, `"admin"`, `"UTC"`, `"2026-01-02T15:04:05Z"`, `"yesterday"`,
		}),
		rapid.Map(rapid.StringN(0, 4, -1), quoted),
		rapid.Map(rapid.StringOfN(rapid.SampledFrom([]rune(" \t\u00a0\u0085\u2003\u200b\u200d\u2028\u202e\u2066\u3000\ufeffx")), 0, 3, -1), quoted),
		rapid.Map(rapid.SampledFrom([]int{99, 100, 101, 200, 201}), func(n int) string { return quoted(strings.Repeat("é", n)) }),
		rapid.Map(rapid.StringMatching(`[a-z]{1,8}(\.[a-z]{1,3})?@[a-z0-9-]{1,5}(\.[a-z]{1,3})?`), quoted),
		rapid.Map(rapid.SampledFrom([]int{9, 10, 11}), func(n int) string { return "[" + strings.Repeat(`"tag",`, n-1) + `"tag"]` }),
	)
}

// modelBodies are good, JSON by field, without what the server gives, but for up to
// four fields, so that a good part of them is right.
func modelBodies(good map[string]string, generated ...string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		members := maps.Clone(good)
		for _, name := range generated {
			delete(members, name)
		}
		names := slices.Sorted(maps.Keys(good))
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			switch name := rapid.SampledFrom(names).Draw(t, "name"); rapid.IntRange(0, 2).Draw(t, name) {
			case 0:
				members[name] = modelValues().Draw(t, name+" value")
			case 1:
				members[name] = good[name]
			default:
				delete(members, name)
			}
		}
		if rapid.IntRange(0, 19).Draw(t, "extra") == 0 {
			members[rapid.SampledFrom([]string{"password", "Email", "", "is_admin"}).Draw(t, "extra name")] = `"x"`
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			key, _ := json.Marshal(name)
			parts = append(parts, string(key)+":"+members[name])
		}
		return "{" + strings.Join(parts, ",") + "}"
	})
}

// modelOperation is an operation that takes a model.
type modelOperation struct {
	method, path, schema string
	good                 map[string]string
	generated            []string
	send                 func(t *testing.T, method, path, body string) answer
	// world are fields whose values a schema can't tell, as it can't tell what is
	// unique: the names that registries gave out.
	world []string
}

func (o modelOperation) check(t *testing.T, doc *huma.OpenAPI) {
	validator, outer := served(t, doc, o.schema), t
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		body := modelBodies(o.good, o.generated...).Draw(t, "body")
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		verdict := validator.Validate(value)
		a := o.send(outer, o.method, o.path, body)
		taken := a.status < 300 || a.status == http.StatusConflict && a.body.Error.Code == "email_taken"
		if !taken && a.status != http.StatusUnprocessableEntity {
			t.Fatalf("%s %s\n%d %s", o.method, body, a.status, a.text)
		}
		if taken != (verdict == nil) && (taken || !o.onlyOfTheWorld(a)) {
			t.Fatalf("%s %s\nhandler: %d %s\nschema: %v", o.method, body, a.status, a.text, verdict)
		}
		if taken {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no generated body was acceptable, so the property was not tested")
	}
}

func (o modelOperation) onlyOfTheWorld(a answer) bool {
	for field := range a.body.Error.Details {
		if !slices.Contains(o.world, strings.TrimPrefix(field, "body.")) {
			return false
		}
	}
	return len(a.body.Error.Details) > 0
}

func TestEveryModelIsTakenExactlyWhenItsServedSchemaTakesIt(t *testing.T) {
	t.Parallel()
	doc := described(t)
	p := newPeople(t)
	admin := p.add(t, "admin@example.com", identity.Admin)
	asAdmin := func(t *testing.T, method, path, body string) answer { return p.send(t, method, path, body, admin) }
	p.add(t, "member@example.com", identity.User)
	asAdmin(t, "POST", "/api/posts", `{"title":"First","body":"Text"}`).wants(t, "a post", 200, "")
	sites := newSiteAPI(t, limits{})
	asKeeper := func(t *testing.T, method, path, body string) answer { return sites.send(t, method, path, body) }
	blog := sites.create(t, `{"name":"Blog","domain":"blog.example"}`)

	made := map[string]string{"id": "1", "created_at": `"2026-01-02T15:04:05Z"`, "updated_at": `"2026-01-02T15:04:05Z"`}
	with := func(fields map[string]string) map[string]string { maps.Copy(fields, made); return fields }
	user := with(map[string]string{"first_name": `"Ada"`, "last_name": `"Lovelace"`, "email": `"ada@example.com"`, "role": `"USER"`, "active": "true"})
	post := with(map[string]string{"title": `"Notes"`, "body": `"Text"`, "tags": `["a"]`, "author_id": "1"})
	place := with(map[string]string{"name": `"Blog"`, "domain": `"blog.example"`, "timezone": `"Europe/Lisbon"`, "site_key": `"wps_x"`})
	place["id"] = `"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
	userPath := "/api/users/" + p.id(t, "member@example.com")
	generated := []string{"id", "created_at", "updated_at", "author_id", "site_key"}
	for name, o := range map[string]modelOperation{
		"create a user": {"POST", "/api/users", "CreateUser", user, generated, asAdmin, nil},
		"replace it":    {"PUT", userPath, "UpdateUser", user, generated, asAdmin, nil},
		"patch it":      {"PATCH", userPath, "UpdateUser", user, generated, asAdmin, nil},
		"create a post": {"POST", "/api/posts", "CreatePost", post, generated, asAdmin, nil},
		"replace that":  {"PUT", "/api/posts/1", "UpdatePost", post, generated, asAdmin, nil},
		"patch that":    {"PATCH", "/api/posts/1", "UpdatePost", post, generated, asAdmin, nil},
		"create a site": {"POST", "/api/admin/sites", "CreateSite", place, generated, asKeeper, []string{"domain", "timezone"}},
		"patch a site":  {"PATCH", "/api/admin/sites/" + blog.ID, "UpdateSite", place, generated, asKeeper, []string{"domain", "timezone"}},
	} {
		t.Run(name, func(t *testing.T) { o.check(t, doc) })
	}
}
