package apidoc

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/internal/apidoc/model"
)

type ticket struct {
	Seat string `json:"seat" example:"12A"`
}

type confirmation struct {
	Number int `json:"number" example:"7"`
}

// everything says all that can be said of an operation.
func everything() *Operation {
	return Describe().
		ID("book-seat").Summary("Book a seat").Description("Once.").Tags("Seats").Deprecated(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Security("bearer").
		Path("train", "", "Its number.", "ICE 1").Query("class", 0, "First or second.", 2).Header("X-Agent", "", "Who books.", "a").
		Body(ticket{}).BodyExample("window", ticket{"1A"}).
		Response(201, confirmation{}, "Booked.").ResponseExample(201, "first", confirmation{1}).ResponseHeader(201, "Location", "", "Where.").
		Response(409, nil, "").
		Extension("x-colour", "red")
}

// operationAt returns one operation of the description as JSON values.
func operationAt(t *testing.T, d *Docs, path, method string) map[string]any {
	t.Helper()
	raw, err := d.Bytes(JSON)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	item, _ := doc["paths"].(map[string]any)[path].(map[string]any)
	op, _ := item[method].(map[string]any)
	responses, _ := op["responses"].(map[string]any)
	for status, response := range responses {
		responses[status] = resolveResponse(doc, response.(map[string]any))
	}
	return op
}

const everythingJSON = `{
	"operationId": "book-seat", "summary": "Book a seat", "description": "Once.", "tags": ["Seats"], "deprecated": true,
	"security": [{"bearer": []}], "x-colour": "red",
	"parameters": [
		{"name": "train", "in": "path", "required": true, "description": "Its number.", "example": "ICE 1", "schema": {"type": "string"}},
		{"name": "class", "in": "query", "description": "First or second.", "example": 2, "schema": {"type": "integer", "format": "int64"}},
		{"name": "X-Agent", "in": "header", "description": "Who books.", "example": "a", "schema": {"type": "string"}}
	],
	"requestBody": {"required": true, "content": {"application/json": {
		"schema": {"$ref": "#/components/schemas/Ticket"}, "examples": {"window": {"value": {"seat": "1A"}}}}}},
	"responses": {
		"201": {"description": "Booked.", "headers": {"Location": {"description": "Where.", "schema": {"type": "string"}}}, "content": {"application/json": {
			"schema": {"$ref": "#/components/schemas/Confirmation"}, "examples": {"first": {"value": {"number": 1}}}}}},
		"409": {"description": "Conflict"}
	}
}`

func TestAnOverrideReachesTheDescriptionWhole(t *testing.T) {
	t.Parallel()
	var want map[string]any
	if err := json.Unmarshal([]byte(everythingJSON), &want); err != nil {
		t.Fatal(err)
	}
	builder := &Overrides{}
	*builder.Operation("POST", "/trains/{train}") = *everything()
	for name, o := range map[string]Options{
		"builder":    {Routes: []Route{{Method: "POST", Path: "/trains/{train}"}}, Overrides: builder},
		"middleware": {Routes: []Route{{Method: "POST", Path: "/trains/{train:[0-9]+}", Operation: OperationOf(http.NotFoundHandler(), everything().Middleware)}}},
		"handler":    {Routes: []Route{{Method: "POST", Path: "/trains/{train}", Operation: OperationOf(everything().Middleware(http.NotFoundHandler()))}}},
	} {
		o.Auth = BearerJWT()
		d := newDocs(t, o)
		if diff := cmp.Diff(want, operationAt(t, d, "/trains/{train}", "post")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, form := range []Form{JSON30, Markdown, Postman, Insomnia, InsomniaV5} {
			if raw, err := d.Bytes(form); err != nil || !strings.Contains(string(raw), "Book a seat") || !strings.Contains(string(raw), "1A") {
				t.Errorf("%s: the %s form does not say it (%v)", name, form, err)
			}
		}
	}
}

func TestAnOverrideChangesOnlyWhatItSays(t *testing.T) {
	t.Parallel()
	_, api := live(t)
	before := operationAt(t, newDocs(t, Options{API: api.OpenAPI()}), "/api/articles", "post")
	o := &Overrides{}
	o.Operation("POST", "/api/articles").Summary("Write").Response(402, confirmation{}, "Pay first.").Body(model.Update[Picture]{})
	after := operationAt(t, newDocs(t, Options{API: api.OpenAPI(), Overrides: o}), "/api/articles", "post")
	if after["summary"] != "Write" || after["operationId"] != before["operationId"] || after["responses"].(map[string]any)["402"] == nil {
		t.Errorf("%v", after)
	}
	body, _ := json.Marshal(after["requestBody"])
	if !strings.Contains(string(body), "#/components/schemas/UpdatePicture") {
		t.Errorf("the body is %s", body)
	}
	delete(after["responses"].(map[string]any), "402")
	if diff := cmp.Diff(before["responses"], after["responses"]); diff != "" {
		t.Error(diff)
	}
}

func TestTheBuilderWinsOverTheRouteAndTheInnerOverTheOuter(t *testing.T) {
	t.Parallel()
	builder := &Overrides{}
	builder.Operation("GET", "/x").Description("builder")
	outer := Describe().Summary("outer").Description("outer").Tags("Outer").Query("a", "", "outer", nil).Response(200, nil, "outer").Response(404, nil, "outer")
	inner := Describe().Summary("inner").Description("inner").Query("a", "", "inner", nil).Query("b", "", "inner", nil).Response(200, nil, "inner")
	noise := func(h http.Handler) http.Handler { return h }
	carried := OperationOf(http.NotFoundHandler(), outer.Middleware, noise, inner.Middleware)
	op := operationAt(t, newDocs(t, Options{Overrides: builder, Routes: []Route{{Method: "GET", Path: "/x", Operation: carried}}}), "/x", "get")
	text, _ := json.Marshal(op)
	want := `{"description":"builder","operationId":"get-x",` +
		`"parameters":[{"description":"inner","in":"query","name":"a","schema":{"type":"string"}},{"description":"inner","in":"query","name":"b","schema":{"type":"string"}}],` +
		`"responses":{"200":{"description":"inner"},"404":{"description":"outer"}},"summary":"inner","tags":["Outer"]}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	if OperationOf(http.NotFoundHandler(), noise) != nil {
		t.Error("a route that says nothing says something")
	}
}

func TestWhatAnOverrideCannotMeanFailsTheStart(t *testing.T) {
	t.Parallel()
	_, api := live(t)
	for want, o := range map[string]*Operation{
		"there is no such route":          nil,
		"600 is no HTTP status":           Describe().Response(600, nil, ""),
		"a body needs a type":             Describe().Body(nil),
		"a body that is not there":        Describe().BodyExample("x", 1),
		"a response 200 without a body":   Describe().Response(200, nil, "").ResponseExample(200, "x", 1),
		"a response 200 that is not ther": Describe().ResponseHeader(200, "X", "", ""),
		"does not begin with x-":          Describe().Extension("colour", 1),
		`security scheme "key"`:           Describe().Security("key"),
		"is there twice":                  Describe().ID("create-article"),
	} {
		builder, path := &Overrides{}, "/api/articles/{id}"
		if o == nil {
			o, path = Describe(), "/api/articles/{number}"
		}
		*builder.Operation("GET", path) = *o
		if _, err := New(Options{API: api.OpenAPI(), Overrides: builder}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	wrongMethod := &Overrides{}
	wrongMethod.Operation("PUT", "/api/articles").Summary("x")
	if _, err := New(Options{API: api.OpenAPI(), Overrides: wrongMethod}); err == nil {
		t.Error("an override of a method that the path has not was accepted")
	}
}

func TestAHiddenRouteIsNotDescribed(t *testing.T) {
	t.Parallel()
	o := &Overrides{}
	o.Operation("POST", "/api/articles").Hidden()
	p := parse(t, newDocs(t, Options{Overrides: o, Routes: []Route{{Method: "GET", Path: "/page", Operation: Describe().Hidden()}}}))
	if p.Paths["/page"] != nil || p.Paths["/api/articles"] != nil || p.Paths["/api/articles/{id}"] == nil {
		t.Errorf("%v", keys(p.Paths))
	}
}

func TestWebhooksGoWithThePathThatTakesThem(t *testing.T) {
	t.Parallel()
	o := Options{
		Routes:   []Route{{Method: "POST", Path: "/hooks/{name}"}},
		Webhooks: []Webhook{{Name: "sale", ReceivedAt: "/hooks/{name}", Operation: Describe().ID("sale").Tags("Sales").Body(ticket{}).Response(200, nil, "")}},
	}
	raw, _ := newDocs(t, o).Bytes(JSON)
	if !strings.Contains(string(raw), `"webhooks"`) || !strings.Contains(string(raw), `"Ticket"`) {
		t.Error("the webhook is missing")
	}
	o.ExcludePrefixes = []string{"/hooks"}
	raw, _ = newDocs(t, o).Bytes(JSON)
	for _, gone := range []string{"webhooks", "Ticket", "Sales"} {
		if strings.Contains(string(raw), `"`+gone+`"`) {
			t.Errorf("%s is still there", gone)
		}
	}
	if _, err := New(Options{API: liveAPI(t), Webhooks: []Webhook{{Name: "empty"}}}); err == nil {
		t.Error("a webhook that says nothing was accepted")
	}
}

func liveAPI(t *testing.T) *huma.OpenAPI {
	_, api := live(t)
	return api.OpenAPI()
}
