package truth_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/identity"
)

// somebodyElse has what is another's to all who call.
const somebodyElse = "somebody else"

// everyScopeSet are all sets of the scopes of API tokens but the empty one.
func everyScopeSet() [][]string {
	all := []string{"read", "write", "admin", "ai"}
	var sets [][]string
	for bits := 1; bits < 1<<len(all); bits++ {
		var set []string
		for i, s := range all {
			if bits&(1<<i) != 0 {
				set = append(set, s)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// everyCaller are people and service accounts of all roles, and an API token with each set
// of scopes of each.
func (w *world) everyCaller(t *testing.T) []caller {
	t.Helper()
	w.people[somebodyElse] = w.newPerson(t, "else@example.com", identity.User)
	w.credentials[somebodyElse] = w.people[somebodyElse].credentials
	w.newPerson(t, "root@example.com", identity.Admin) // so that nobody else is the last
	var list []caller
	for _, role := range []string{callerUser, callerEditor, callerAdmin} {
		list = append(list, w.personCallers(t, role)...)
		if slices.ContainsFunc(w.described.operations, func(o *operation) bool { return o.id == "create-service-account-token" }) {
			list = append(list, w.serviceCallers(t, role)...)
		}
	}
	return list
}

// personCallers are a person and its API tokens. Only an ADMIN gives the scope admin, so
// that the others were ADMINs when they gave it.
func (w *world) personCallers(t *testing.T, role string) []caller {
	t.Helper()
	email := w.people[role].email
	w.setRole(t, email, identity.Admin)
	h := holder{name: role, role: role, credentials: func() []string { return w.credentials[role] }}
	h.id = w.idOf(t, h.credentials())["id"]
	list := []caller{{holder: h, signed: h.credentials}}
	for _, scopes := range everyScopeSet() {
		made := outside.Bearer(w.makeToken(t, role, scopes).Token)
		list = append(list, caller{holder: h, token: true, scopes: scopes, signed: func() []string { return made }})
	}
	w.setRole(t, email, identity.Role(role))
	return list
}

// serviceCallers are the API tokens of a service account. Its role decides which scopes it
// gets, so that it was an ADMIN's too.
func (w *world) serviceCallers(t *testing.T, role string) []caller {
	t.Helper()
	const accounts = "/api/admin/service-accounts"
	var made struct{ Data struct{ ID json.Number } }
	w.must(t, "POST", accounts, w.credentials[callerAdmin], map[string]any{"name": "Bot " + w.next(), "role": "ADMIN"}).Into(t, &made)
	h := holder{name: "a service account " + role, role: role, id: made.Data.ID.String(), service: true}
	var list []caller
	for _, scopes := range everyScopeSet() {
		var token struct{ Data struct{ Token string } }
		w.must(t, "POST", accounts+"/"+h.id+"/tokens", w.credentials[callerAdmin], map[string]any{"name": "A bot", "scopes": scopes}).Into(t, &token)
		signed := outside.Bearer(token.Data.Token)
		h.credentials = func() []string { return signed } // in the end, with all scopes
		list = append(list, caller{holder: h, token: true, scopes: scopes, signed: h.credentials})
	}
	for i := range list {
		list[i].holder = h
	}
	w.must(t, "PATCH", accounts+"/"+h.id, w.credentials[callerAdmin], map[string]string{"role": role})
	return list
}

func (w *world) setRole(t *testing.T, email string, role identity.Role) {
	t.Helper()
	if _, err := w.accounts.SetRole(t.Context(), email, role); err != nil {
		t.Fatal(err)
	}
}

// callAbout is a call of an operation about something of h's, or of somebody else's, which is
// made for it. It is signed by nobody.
func (w *world) callAbout(t *testing.T, o *operation, about string, h holder) request {
	t.Helper()
	if about == "another's" || about == "anybody's" {
		p := w.people[somebodyElse]
		h = holder{name: somebodyElse, id: w.idOf(t, p.credentials)["id"], credentials: func() []string { return p.credentials }}
	}
	r := w.valid(t, o, h.name)
	r.caller, r.credentials = callerNobody, []string{}
	one := strings.Contains(o.path, "{id}")
	switch {
	case o.path == "/api/uploads" && o.method == http.MethodGet:
		r.query = url.Values{"owner_id": {h.id}}
	case o.id == "complete-upload":
		r.params = w.stageAs(t, h.credentials(), "Notes on the engine.", "")
	case o.id == "get-upload-thumbnail":
		r.params = w.pictureAs(t, h.name, h.credentials())
	case strings.HasPrefix(o.path, "/api/uploads/") && one:
		r.params = w.uploadAs(t, h.credentials(), "text/plain", "Notes on the engine.")
	case o.path == "/api/blogs/{id}" && about == "draft":
		r.params = w.makeDraft(t)
	case o.path == "/api/users/{id}" && o.method != http.MethodDelete:
		w.ofAccount(&r, o, about, h)
	case one && (about == "own" || about == "another's") && !strings.HasPrefix(o.path, "/api/auth/"):
		r.params = w.createdAs(t, o.path, h.credentials())
	}
	return r
}

// ofAccount makes r a call about an account, which changes a name, or its role. Another's is
// always a new one.
func (w *world) ofAccount(r *request, o *operation, about string, h holder) {
	if about != "another's" {
		r.params = map[string]string{"id": h.id}
	}
	switch {
	case o.method == http.MethodGet:
	case about == "own standing":
		other := map[string]string{callerUser: "EDITOR", callerEditor: "USER", callerAdmin: "EDITOR"}[h.role]
		r.body = []byte(outside.JSON(map[string]string{"role": other}))
	default:
		r.body = []byte(`{"first_name":"Augusta"}`)
	}
}

// makeDraft is a blog that is not published.
func (w *world) makeDraft(t *testing.T) map[string]string {
	t.Helper()
	slug := "draft-" + w.next()
	w.must(t, "POST", "/api/blogs", w.credentials[callerEditor], map[string]any{"title": "A draft", "content": "Text", "slug": slug})
	return map[string]string{"id": slug}
}
