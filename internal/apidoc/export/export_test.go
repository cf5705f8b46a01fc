package export_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/apidoc/export"
)

// The forms, as functions of a description.
var (
	postman    = form((*export.Collections).Postman)
	insomnia   = form((*export.Collections).Insomnia)
	insomniaV5 = form((*export.Collections).InsomniaV5)
)

func form(write func(*export.Collections) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(description []byte) ([]byte, error) {
		c, err := export.Read(description)
		if err != nil {
			return nil, err
		}
		return write(c)
	}
}

var forms = map[string]func([]byte) ([]byte, error){
	"Postman": postman, "Insomnia": insomnia, "InsomniaV5": insomniaV5,
}

// bookshop is a description with one of everything that exports deal with.
func bookshop(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/bookshop.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// changed is the bookshop with one text replaced by another.
func changed(t testing.TB, old, changed string) []byte {
	t.Helper()
	raw := string(bookshop(t))
	if !strings.Contains(raw, old) {
		t.Fatalf("the bookshop has no %s", old)
	}
	return []byte(strings.Replace(raw, old, changed, 1))
}

func decoded[T any](t testing.TB, form func([]byte) ([]byte, error), raw []byte, decode func([]byte, any) error) T {
	t.Helper()
	out, err := form(raw)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := decode(out, &v); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return v
}

func strictJSON(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func strictYAML(raw []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	return d.Decode(v)
}

func TestEqualDescriptionsGiveEqualBytes(t *testing.T) {
	t.Parallel()
	raw := bookshop(t)
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for name, form := range forms {
		first, err := form(raw)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if again, _ := form(raw); !bytes.Equal(first, again) {
				t.Fatalf("%s differs between two calls", name)
			}
		}
	}
}

func TestWhatHintsCannotMeanIsAnError(t *testing.T) {
	t.Parallel()
	for want, raw := range map[string][]byte{
		`a parameter "carriers", which is not documented`:      changed(t, `{"carrier": "courier"}`, `{"carriers": "courier"}`),
		`status 418, which is not documented`:                  changed(t, `{"order": 200}`, `{"status": [204, 418]}`),
		`an example "train", which is not documented`:          changed(t, `"example": "courier"`, `"example": "train"`),
		`deliver: a variant has no name`:                       changed(t, `"name": "courier", "summary"`, `"summary"`),
		`reading the description`:                              []byte("openapi: 3.1.0"),
		`list-books: a capture "bookId": "data.id" is no JSON`: changed(t, `"operationId": "list-books"`, `"operationId": "list-books", "x-waypost-export": {"capture": {"bookId": "data.id"}}`),
		`deliver: a signature needs`:                           changed(t, `"secret": "postSecret", `, ""),
		`a variable "postal code" is no name`:                  changed(t, `"name": "postSecret"`, `"name": "postal code"`),
		`deliver: two variants have the name "post"`:           changed(t, `"name": "courier", "summary"`, `"name": "post", "summary"`),
		`sign-out: a credential "my token" is no name`:         changed(t, `{"order": 200}`, `{"credential": "my token"}`),
		`sign-out: a one-time password needs`:                  changed(t, `{"order": 200}`, `{"totp": {"secret": "totpSecret"}}`),
	} {
		for name, form := range forms {
			if _, err := form(raw); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
	}
}

func TestStripLeavesADescriptionWithoutHints(t *testing.T) {
	t.Parallel()
	raw := bookshop(t)
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	export.Strip(doc)
	stripped, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stripped, []byte(export.Extension)) {
		t.Errorf("hints are left in %s", stripped)
	}
	if !bytes.Contains(stripped, []byte(`"operationId":"sign-in"`)) {
		t.Error("more than hints is gone")
	}
	export.Strip(map[string]any{"paths": nil}) // nothing to do
}

func TestBothToolsGetTheSameRequestsInTheSameOrder(t *testing.T) {
	t.Parallel()
	raw := bookshop(t)
	var fromPostman, fromV4, fromV5 []string
	for _, i := range requestsOf(decoded[collection](t, postman, raw, strictJSON).Item) {
		fromPostman = append(fromPostman, i.Request.Method+" "+i.Name)
	}
	for _, r := range decoded[v4Export](t, insomnia, raw, strictJSON).inOrder() {
		fromV4 = append(fromV4, r.Method+" "+r.Name)
	}
	for _, i := range v5Requests(decoded[v5File](t, insomniaV5, raw, strictYAML).Collection) {
		fromV5 = append(fromV5, i.Method+" "+i.Name)
	}
	want := []string{
		"POST Sign in", "POST Receive a delivery (post)", "POST Receive from the courier",
		"GET List books", "POST Add a book", "GET One book", "POST Search", "PUT Upload a cover",
		"GET Message of the day", "POST set-motd", "DELETE Remove a book", "DELETE Sign out",
	}
	for name, got := range map[string][]string{"Postman": fromPostman, "v4": fromV4, "v5": fromV5} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestADescriptionWithoutHintsStillGivesRequests(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"openapi":"3.0.3","info":{"title":"","version":""},"paths":{"/":{"get":{"responses":{"200":{"description":""}}}}}}`)
	c := decoded[collection](t, postman, raw, strictJSON)
	got := requestsOf(c.Item)
	if len(got) != 1 || got[0].Name != "get /" || got[0].Request.URL.Raw != "{{baseUrl}}/" || c.Auth.Type != "noauth" {
		t.Errorf("%+v", c)
	}
	for name, form := range forms {
		if _, err := form(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzExport: whatever a description says, an export is a document or an error.
func FuzzExport(f *testing.F) {
	f.Add(bookshop(f))
	f.Add([]byte(`{"paths":{"/{a}/b{c}":{"get":{"parameters":[{"in":"path","name":"a"},null],"responses":{"200":null,"2XX":{}},"requestBody":null}}}}`))
	f.Add([]byte(`{"components":{"schemas":{"A":{"allOf":[{"$ref":"#/components/schemas/A"}],"properties":{"x":null}}}},"paths":{"/":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, form := range forms {
			out, err := form(raw)
			if err != nil {
				continue
			}
			var v any
			if name == "InsomniaV5" {
				err = yaml.Unmarshal(out, &v)
			} else {
				err = json.Unmarshal(out, &v)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func noDuplicates(t *testing.T, ids []string) {
	t.Helper()
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("ids are there twice: %v", ids)
	}
}
