package truth_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waypost/waypost/e2e/outside"
	"github.com/waypost/waypost/internal/identity"
)

// documentedRow is a row of the documentation's table of who reaches whose things: what
// the calls of operations, when they are about something, are answered to whom.
type documentedRow struct {
	number, about string
	nobody        string
	byRole        map[string]string // "yes" or a status
	service       string            // service accounts: "yes", "as its role" or a status
	scopes        []string          // that an API token needs
	siteKey       string
	operations    []string            // "GET /api/users"
	letIn         map[string][]string // roles by set of scopes, its names joined with spaces
}

// readAccessTable reads the table as people do, from the page.
func readAccessTable(t *testing.T) []documentedRow {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "<!-- access -->\n")
	text, _, found := strings.Cut(text, "<!-- /access -->")
	first, second, both := strings.Cut(text, "\n\n")
	if !found || !both {
		t.Fatal("docs/security.md has no table of access")
	}
	var rows []documentedRow
	heads, lines := cells(first)
	roles := heads[2 : len(heads)-4]
	for _, line := range lines {
		r := documentedRow{nobody: line[1], byRole: map[string]string{}, letIn: map[string][]string{}}
		r.number, r.about, _ = strings.Cut(line[0], ", ")
		for i, role := range roles {
			r.byRole[role] = line[2+i]
		}
		rest := line[2+len(roles):]
		r.service, r.scopes, r.siteKey = rest[0], quotedIn(rest[1]), rest[2]
		for _, group := range quotedIn(rest[3]) {
			words := strings.Fields(group)
			for _, method := range words[:len(words)-1] {
				r.operations = append(r.operations, method+" "+words[len(words)-1])
			}
		}
		if len(r.operations) == 0 { // the same as above, about something else
			r.operations = rows[len(rows)-1].operations
		}
		rows = append(rows, r)
	}
	heads, lines = cells(second)
	for _, line := range lines {
		i := slices.IndexFunc(rows, func(r documentedRow) bool { return r.number+", "+r.about == line[0] })
		for n, set := range heads[1:] {
			rows[i].letIn[strings.Join(quotedIn(set), " ")] = strings.Fields(line[n+1])
		}
	}
	return rows
}

// cells are a Markdown table's head and its rows.
func cells(table string) ([]string, [][]string) {
	var all [][]string
	for line := range strings.Lines(table) {
		var row []string
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		all = append(all, row)
	}
	return all[0], all[2:]
}

// holder is an account: a person or a service account.
type holder struct {
	name, role, id string
	// credentials are such that it may do everything that an account of its kind can do.
	credentials func() []string
	service     bool
}

// caller is an account, or its bot, and what it signs its calls with.
type caller struct {
	holder
	token  bool // an API token, with scopes
	scopes []string
	signed func() []string
}

func (c caller) String() string {
	if !c.token {
		return c.name
	}
	return c.name + "'s API token with " + strings.Join(c.scopes, " ")
}

// want is what the page says of a caller, in the order that the page gives: a status, 200
// for who may.
func (r documentedRow) want(o *operation, c caller) int {
	verdict := r.byRole[c.role]
	switch {
	case verdict == strconv.Itoa(http.StatusUnauthorized):
		return statusOf(verdict)
	case !c.token:
		return statusOf(verdict)
	}
	base := "write"
	if o.method == http.MethodGet {
		base = "read"
	}
	if slices.Equal(r.scopes, []string{"ai"}) {
		base = "ai"
	}
	switch {
	case len(r.scopes) == 0 || !slices.Contains(c.scopes, base):
		return http.StatusForbidden
	case c.service && r.service != "as its role":
		return statusOf(r.service)
	case verdict != "yes":
		return statusOf(verdict)
	case !slices.Contains(r.letIn[strings.Join(known(c.scopes, r.letIn), " ")], c.role):
		return http.StatusForbidden
	}
	return http.StatusOK
}

// known leaves out the scopes that the second table has no column for.
func known(scopes []string, columns map[string][]string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return columns[s] == nil })
}

func statusOf(verdict string) int {
	if verdict == "yes" {
		return http.StatusOK
	}
	status, _ := strconv.Atoi(verdict)
	return status
}

// got is what an answer says of the access: 200 for who came through, also where the
// operation's own work could not be done.
func got(a outside.Answer) int {
	if a.Status < http.StatusBadRequest || a.Status == http.StatusConflict {
		return http.StatusOK
	}
	return a.Status
}

// TestTheDocumentedAccessIsTrue calls every operation as every account and with every
// API token, about own and others' things, and holds the answers against the table in
// docs/security.md, which is generated from what the operations declare.
func TestTheDocumentedAccessIsTrue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.described = readDescription(t, outside.Do(t, "GET", w.url+"/docs/openapi.json", "").Body)
	rows := readAccessTable(t)
	callers := w.everyCaller(t)
	var trail auditTrail
	for _, o := range w.described.operations {
		name := o.method + " " + o.path
		t.Run(name, func(t *testing.T) {
			for _, row := range rows {
				if !slices.Contains(row.operations, name) || row.nobody == "yes" && len(row.scopes) == 0 {
					continue // the other walk calls as everybody what everybody may
				}
				for _, about := range row.meant(o) {
					w.holdRow(t, o, row, about, callers, &trail)
				}
			}
		})
	}
	trail.checkEach(t, w) // what is refused leaves nothing
}

// signedItself are operations whose access is no account's: whoever calls signs the request, or
// its page has a site's public key.
var signedItself = []string{"receive-webhook", "collect-hit"}

func TestTheDocumentedAccessIsOfEveryOperation(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "api", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var there, documented []string
	for _, o := range readDescription(t, b).operations {
		if !slices.Contains(signedItself, o.id) {
			there = append(there, o.method+" "+o.path)
		}
	}
	for _, row := range readAccessTable(t) {
		documented = append(documented, row.operations...)
	}
	slices.Sort(there)
	slices.Sort(documented)
	if diff := cmp.Diff(there, slices.Compact(documented)); diff != "" {
		t.Errorf("docs/security.md: %s", diff)
	}
}

// What the page says, and the order in which it decides.
func TestTheDocumentedAccessIsReadAsThePageSays(t *testing.T) {
	t.Parallel()
	rows := readAccessTable(t)
	for _, c := range []struct {
		operation, about, role, scopes string // "-" for an access token
		want                           int
	}{
		{"PATCH /api/users/{id}", "another's", "ADMIN", "-", 200},
		{"PATCH /api/users/{id}", "another's", "ADMIN", "read write", 403},
		{"PATCH /api/users/{id}", "another's", "ADMIN", "write admin", 200},
		{"PATCH /api/users/{id}", "another's", "ADMIN", "write admin ai", 200},
		{"PATCH /api/users/{id}", "another's", "ADMIN", "admin", 403},
		{"PATCH /api/users/{id}", "another's", "USER", "-", 404},
		{"PATCH /api/users/{id}", "another's", "USER", "write", 404},
		{"PATCH /api/users/{id}", "another's", "USER", "read ai", 403},
		{"PATCH /api/users/{id}", "own", "USER", "write", 200},
		{"PATCH /api/users/{id}", "own standing", "ADMIN", "write", 403},
		{"PATCH /api/users/{id}", "own standing", "ADMIN", "write admin", 200},
		{"PATCH /api/users/{id}", "own standing", "EDITOR", "write admin", 422},
		{"DELETE /api/posts/{id}", "another's", "USER", "-", 403},
		{"DELETE /api/posts/{id}", "another's", "EDITOR", "write", 200},
		{"GET /api/blogs/{id}", "draft", "USER", "read", 404},
		{"GET /api/blogs/{id}", "draft", "EDITOR", "write", 403},
		{"POST /api/auth/tokens", "own", "ADMIN", "read write admin ai", 403},
		{"DELETE /api/auth/sessions/{id}", "another's", "ADMIN", "-", 404},
		{"GET /api/users", "anybody's", "EDITOR", "read admin", 403},
		{"GET /api/users", "anybody's", "ADMIN", "ai", 403},
		{"GET /api/auth/me", "own", "USER bot", "read", 403},
		{"GET /api/users/{id}", "own", "ADMIN bot", "read admin", 404},
		{"GET /api/users/{id}", "own", "ADMIN bot", "write", 403},
		{"GET /api/users/{id}", "another's", "ADMIN bot", "read admin", 200},
		{"GET /api/posts", "anybody's", "USER bot", "read", 200},
		{"POST /api/auth/logout", "own", "USER bot", "write", 403},
		{"GET /api/stats/summary", "the service's", "ADMIN", "read", 401},
	} {
		method, path, _ := strings.Cut(c.operation, " ")
		i := slices.IndexFunc(rows, func(r documentedRow) bool { return r.about == c.about && slices.Contains(r.operations, c.operation) })
		if i < 0 {
			t.Errorf("%s has no row about %s", c.operation, c.about)
			continue
		}
		role, bot := strings.CutSuffix(c.role, " bot")
		who := caller{holder: holder{role: role, service: bot}, token: c.scopes != "-", scopes: strings.Fields(c.scopes)}
		if got := rows[i].want(&operation{method: method, path: path}, who); got != c.want {
			t.Errorf("%s about %s, as %s with %s: the page says %d, want %d", c.operation, c.about, c.role, c.scopes, got, c.want)
		}
	}
}

// meant are whose things a call is to be about, so that the row is true.
func (r documentedRow) meant(o *operation) []string {
	if r.about == "anybody's" && strings.HasPrefix(o.path, "/api/posts/") {
		return []string{"own", "another's"}
	}
	return []string{r.about}
}

// holdRow makes the calls of one operation about one thing. What is refused uses nothing up,
// so that one thing will do for these.
func (w *world) holdRow(t *testing.T, o *operation, row documentedRow, about string, callers []caller, trail *auditTrail) {
	t.Helper()
	kept := map[string]request{}
	if a := w.send(t, o, w.callAbout(t, o, about, callers[0].holder)); got(a) != statusOf(row.nobody) {
		t.Errorf("about %s, as nobody: %d %s, want %s", about, a.Status, a.ErrorCode(), row.nobody)
	}
	for _, c := range callers {
		want := row.want(o, c)
		r, ok := kept[c.name]
		if !ok || want == http.StatusOK {
			r = w.callAbout(t, o, about, c.holder)
			kept[c.name] = r
		}
		r.name, r.caller, r.credentials = "about "+about, c.String(), c.signed()
		a := w.send(t, o, r)
		trail.add(o, r, a)
		if got := got(a); got != want {
			t.Errorf("about %s, as %s: %d %s, want %d", about, c, a.Status, a.ErrorCode(), want)
		}
		if want == http.StatusOK {
			w.undo(t, o, about, c)
		}
	}
}

// undo takes back what would shut somebody out of the next calls.
func (w *world) undo(t *testing.T, o *operation, about string, c caller) {
	t.Helper()
	if about == "own standing" {
		w.setRole(t, w.people[c.role].email, identity.Role(c.role))
	}
	if o.method != http.MethodGet && strings.HasPrefix(o.path, "/api/auth/") {
		w.signInAgain(t)
	}
}
