package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// What the truth test's walk holds against the table of access for every operation, by rule.
func TestAToolIsOpenToWhomSomethingIsNotRefused(t *testing.T) {
	t.Parallel()
	admins := roles(identity.Admin)
	bot := func(role identity.Role, scopes ...identity.Scope) identity.Principal {
		p := identity.Token(1, role, 2, identity.NewScopes(scopes...))
		p.Service = true
		return p
	}
	enrolling := identity.Account(1, identity.Admin, "s")
	enrolling.MustEnroll = true
	for name, c := range map[string]struct {
		access Access
		method string
		p      identity.Principal
		want   bool
	}{
		"public":                               {public(), "GET", identity.Account(1, identity.User, "s"), true},
		"public, for a token without scopes":   {public(), "GET", identity.Token(1, identity.User, 2, 0), true},
		"a role":                               {admins, "GET", identity.Account(1, identity.Admin, "s"), true},
		"another role":                         {admins, "GET", identity.Account(1, identity.Editor, "s"), false},
		"a token with the scopes":              {admins, "GET", identity.Token(1, identity.Admin, 2, identity.NewScopes("read", "admin")), true},
		"a token without one":                  {admins, "GET", identity.Token(1, identity.Admin, 2, identity.NewScopes("read", "write")), false},
		"a token that reads":                   {signedIn(), "POST", identity.Token(1, identity.Admin, 2, identity.NewScopes("read")), false},
		"in person":                            {inPerson(), "GET", identity.Account(1, identity.User, "s"), true},
		"in person, for a token":               {inPerson(), "GET", identity.Token(1, identity.User, 2, ^identity.Scopes(0)), false},
		"of a person, for a service account":   {signedIn().ofPerson(), "GET", bot(identity.Admin, "read", "admin"), false},
		"of accounts, for a service account":   {signedIn().ofAccounts(), "GET", bot(identity.User, "read"), false},
		"of accounts, for an ADMIN's service":  {signedIn().ofAccounts(), "GET", bot(identity.Admin, "read", "admin"), true},
		"of accounts, without the scope admin": {signedIn().ofAccounts(), "GET", bot(identity.Admin, "read"), false},
		"of one's own account":                 {signedIn().ofAccounts(), "PATCH", identity.Token(1, identity.Admin, 2, identity.NewScopes("write")), true},
		"before a second factor":               {signedIn(), "GET", enrolling, false},
		"while enrolling":                      {signedIn().whileEnrolling(), "GET", enrolling, true},
		"a site's key":                         {siteKey(), "GET", identity.Account(1, identity.Admin, "s"), false},
		"for people":                           {signedIn().forPeople(signingIn), "GET", identity.Account(1, identity.Admin, "s"), false},
	} {
		op := access(huma.Operation{OperationID: "a", Method: c.method, Path: "/a", Responses: map[string]*huma.Response{"200": {Content: map[string]*huma.MediaType{"application/json": {}}}}}, c.access)
		item := &huma.PathItem{Get: &op}
		if c.method != http.MethodGet {
			item = &huma.PathItem{Post: &op}
		}
		if c.method == http.MethodPatch {
			item = &huma.PathItem{Patch: &op}
		}
		tools := Tools(&huma.OpenAPI{Paths: map[string]*huma.PathItem{"/a": item}})
		if got := tools[0].OpenTo(c.p); len(tools) != 1 || got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatIsNoJSONIsNoTool(t *testing.T) {
	t.Parallel()
	answers := func(status string, media ...string) map[string]*huma.Response {
		content := map[string]*huma.MediaType{}
		for _, m := range media {
			content[m] = &huma.MediaType{}
		}
		return map[string]*huma.Response{status: {Content: content}, "500": {Content: map[string]*huma.MediaType{"text/html": {}}}}
	}
	form := &huma.RequestBody{Content: map[string]*huma.MediaType{"multipart/form-data": {}}}
	for name, c := range map[string]struct {
		path string
		op   huma.Operation
		want string
	}{
		"JSON":         {"/a", huma.Operation{Responses: answers("200", "application/json")}, ""},
		"JSON or else": {"/a", huma.Operation{Responses: answers("200", "application/json", "text/csv")}, ""},
		"nothing":      {"/a", huma.Operation{Responses: answers("204")}, ""},
		"lines":        {"/a", huma.Operation{Responses: answers("200", "application/x-ndjson")}, givesNoJSON},
		"a redirect":   {"/a", huma.Operation{Responses: answers("302")}, givesNoJSON},
		"a form":       {"/a", huma.Operation{Responses: answers("200", "application/json"), RequestBody: form}, takesNoJSON},
		"a model":      {"/api/ai/v1/models", huma.Operation{Responses: answers("200", "application/json")}, forModels},
	} {
		op := access(c.op, signedIn())
		tools := Tools(&huma.OpenAPI{Paths: map[string]*huma.PathItem{c.path: {Post: &op}}})
		if tools[0].Withheld != c.want {
			t.Errorf("%s: %q, want %q", name, tools[0].Withheld, c.want)
		}
	}
}

// asked counts how often it is asked.
type asked int

func (n *asked) Authenticate(context.Context, string) (identity.Principal, error) {
	*n++
	return identity.Account(1, identity.User, "s"), nil
}

// A call of a tool is one request of its account, and each further one in it another.
func TestACallersFirstRequestWithinAnotherAsksNoMore(t *testing.T) {
	t.Parallel()
	var n asked
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	if _, _, err := Caller(&n)(r); fault.KindOf(err) != fault.Unauthenticated || n != 0 {
		t.Errorf("without a token: %v, asked %d times", err, n)
	}
	r.Header.Set("Authorization", "Bearer a")
	r, _, err := Caller(&n)(r)
	if err != nil || n != 1 {
		t.Fatalf("%v, asked %d times", err, n)
	}
	for i, c := range []struct {
		token string
		want  asked
	}{{"b", 2}, {"a", 2}, {"a", 3}, {"b", 4}} {
		if _, err := authenticate(r.Context(), &n, c.token); err != nil || n != c.want {
			t.Errorf("request %d: %v, asked %d times, want %d", i, err, n, c.want)
		}
	}
}
