package e2e_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/waypost/waypost/e2e/outside"
)

// crawler visits every page of the desk by the links of the others.
type crawler struct {
	*visitor
	// password is that of each of names, which are addresses of administrators.
	password string
	names    []string
	screens  map[string]screen
	visited  map[string]int      // how often each kind of page was, lately
	seen     map[string]string   // each kind of page that was visited: an address of it
	done     map[string]bool     // pages and forms
	shown    map[string]bool     // the labels whose scripts were shown as text
	forms    []*submission       // found and not yet sent
	queue    [][2]string         // a page, and what leads there
	acted    map[string][]string // what was done, by act: the answers
	met      map[string]bool     // screens
	deep     int                 // how many values behind its path a page may have that is like one visited before
}

// submission is a form's button, as a browser sends it.
type submission struct {
	page, method, action, key string
	values                    url.Values
	danger                    bool
}

func crawl(v *visitor, password string, names ...string) *crawler {
	v.t.Helper()
	c := &crawler{visitor: v, password: password, names: names, screens: screens(v.t), visited: map[string]int{}, seen: map[string]string{}, done: map[string]bool{}, shown: map[string]bool{}, acted: map[string][]string{}, met: map[string]bool{}, deep: 1}
	c.enter()
	return c
}

func (c *crawler) enter() {
	c.t.Helper()
	for _, name := range c.names {
		if a := c.signIn(name, c.password); a.Status == http.StatusSeeOther {
			return
		}
	}
	c.t.Fatal("nobody can sign in any more")
}

// kind is the pattern of a path below /admin, with its act: "/jobs/{id}", "cancel".
func (c *crawler) kind(path string) (screen, act string) {
	given := strings.Split(strings.TrimPrefix(path, "/admin"), "/")
	best := -1
	for pattern, shown := range c.screens {
		for _, name := range append([]string{""}, shown.acts...) {
			parts := strings.Split(pattern, "/")
			if name != "" {
				parts = append(parts, name)
			}
			if n := match(parts, given); n > best {
				best, screen, act = n, pattern, name
			}
		}
	}
	return screen, act
}

// match counts the parts of a path that are as in a pattern; -1 when it has another form.
func match(pattern, path []string) int {
	if len(pattern) != len(path) {
		return -1
	}
	n := 0
	for i, part := range pattern {
		switch {
		case part == path[i]:
			n++
		case !strings.HasPrefix(part, "{"):
			return -1
		}
	}
	return n
}

// perKind is how many pages are visited that differ in their ids and values only.
const perKind = 4

// visit reads a page, and everything that it leads to, once.
func (c *crawler) visit(start string) {
	c.t.Helper()
	c.queue = append(c.queue, [2]string{start, "the address bar"})
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		u, err := url.Parse(next[0])
		if err != nil {
			c.t.Errorf("%s leads to %q: %v", next[1], next[0], err)
			continue
		}
		screen, act := c.kind(u.Path)
		kind := cmp.Or(screen+act, strings.TrimPrefix(u.Path, "/admin")) + " " + strings.Join(slices.Sorted(maps.Keys(u.Query())), ",")
		_, known := c.met[screen]
		if c.done[next[0]] || c.visited[kind] >= perKind || len(u.Query()) > c.deep && known {
			continue
		}
		c.met[screen] = true
		c.done[next[0]] = true
		c.visited[kind]++
		c.seen[kind] = u.RequestURI()
		a := c.ask("GET", u.RequestURI(), "")
		if a.Status != http.StatusOK {
			c.t.Errorf("%s leads to %s: %d %s %.300s", next[1], next[0], a.Status, a.Header.Get("Location"), a.Body)
			continue
		}
		if strings.HasPrefix(u.Path, "/admin") && strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			c.read(u, a.Body, strings.Contains(a.Header.Get("Content-Security-Policy"), "nonce-"))
		}
	}
}

// read takes a page apart: what it leads to, what it sends, and whether something in it
// is an element that was to be text. What is shown in a frame is a mail: it is styled by
// itself, and leads outside.
func (c *crawler) read(at *url.URL, body []byte, page bool) {
	c.t.Helper()
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	ids, fragments := map[string]bool{}, []string{}
	for n := range doc.Descendants() {
		c.look(at, n, page)
		if n.Type != html.ElementNode || !page {
			continue
		}
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				c.t.Errorf("%s has two elements with the id %q", at, id)
			}
			ids[id] = true
		}
		for _, name := range []string{"href", "src", "data-hx-get"} {
			to := attribute(n, name)
			if n.Data == "svg" || to == "" {
				continue
			}
			if strings.HasPrefix(to, "#") {
				fragments = append(fragments, to[1:])
				continue
			}
			target, err := at.Parse(to)
			if err != nil || target.Host != "" {
				c.t.Errorf("%s leads to %s, outside or nowhere: %v", at, to, err)
				continue
			}
			target.Fragment = ""
			c.queue = append(c.queue, [2]string{target.String(), at.String()})
		}
		if n.Data == "form" {
			c.collect(at, n)
		}
	}
	for _, id := range fragments {
		if !ids[id] {
			c.t.Errorf("%s leads to #%s, which is not there", at, id)
		}
	}
}

// look fails for a script that became one, and notes the labels of those that are text.
func (c *crawler) look(at *url.URL, n *html.Node, page bool) {
	c.t.Helper()
	texts := []string{}
	switch n.Type {
	case html.TextNode:
		texts = append(texts, n.Data)
		if n.Parent.Data == "script" && strings.TrimSpace(n.Data) != "" {
			c.t.Errorf("%s has a script of its own: %s", at, n.Data)
		}
	case html.ElementNode:
		for _, a := range n.Attr {
			texts = append(texts, a.Val)
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" && page || a.Key == "srcdoc" || strings.HasPrefix(strings.TrimSpace(strings.ToLower(a.Val)), "javascript:") {
				c.t.Errorf("%s has <%s %s=%q>", at, n.Data, a.Key, a.Val)
			}
		}
	}
	if strings.HasPrefix(at.Path, "/admin/database") {
		return // shows every row: what another page shows of it is to be seen there
	}
	for _, text := range texts {
		for _, part := range strings.Split(text, `alert(`)[1:] {
			label, _, _ := strings.Cut(strings.TrimLeft(part, `\"`), `"`)
			c.shown[strings.TrimRight(label, `\`)] = true
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// collect notes what each button of a form sends.
func (c *crawler) collect(at *url.URL, f *html.Node) {
	c.t.Helper()
	action, err := at.Parse(attribute(f, "action"))
	if err != nil {
		c.t.Errorf("%s: %v", at, err)
		return
	}
	values, buttons := url.Values{}, []*html.Node{}
	for n := range f.Descendants() {
		name := attribute(n, "name")
		switch {
		case n.Type != html.ElementNode || has(n, "disabled"):
		case n.Data == "button":
			buttons = append(buttons, n)
		case name == "":
		case n.Data == "textarea":
			values.Add(name, cmp.Or(textOf(n), filled(n)))
		case n.Data == "select":
			values.Add(name, selected(n))
		case n.Data == "input":
			if kind := attribute(n, "type"); kind != "checkbox" && kind != "radio" || has(n, "checked") {
				values.Add(name, cmp.Or(attribute(n, "value"), filled(n)))
			}
		}
	}
	if len(buttons) == 0 {
		c.t.Errorf("%s has a form without a button", at)
	}
	screen, act := c.kind(action.Path)
	for _, b := range buttons {
		sent := maps.Clone(values)
		if name := attribute(b, "name"); name != "" {
			sent.Set(name, attribute(b, "value"))
		}
		s := &submission{page: at.String(), method: strings.ToUpper(attribute(f, "method")), action: action.RequestURI(), values: sent, danger: strings.Contains(attribute(b, "class"), "danger")}
		s.key = strings.Join([]string{cmp.Or(screen, action.Path), act, textOf(b), attribute(b, "value")}, " ")
		c.forms = append(c.forms, s)
	}
}

// filled is what somebody writes into a field that must not be empty.
func filled(n *html.Node) string {
	name := attribute(n, "name")
	switch {
	case !has(n, "required"):
		return ""
	case attribute(n, "type") == "email":
		return "somebody@example.com"
	case name == "domain":
		return "new.example.com"
	case name == "query":
		return "select 1"
	case attribute(n, "type") == "number":
		return "1"
	}
	return "Something"
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func selected(n *html.Node) string {
	value, first := "", true
	for o := range n.Descendants() {
		if o.Data == "option" && (first || has(o, "selected")) {
			value, first = attribute(o, "value"), false
		}
	}
	return value
}

// send sends each form that was found and is like none sent before.
func (c *crawler) send(which func(*submission) bool) (sent int) {
	c.t.Helper()
	found := c.forms
	c.forms = nil
	for _, s := range found {
		if _, elsewhere := seldom[c.act(s)]; elsewhere || c.done[s.key] || !which(s) {
			c.forms = append(c.forms, s)
			continue
		}
		c.done[s.key] = true
		sent++
		c.submit(s)
	}
	return sent
}

// act names what a form does as seldom does.
func (c *crawler) act(s *submission) string {
	path, _, _ := strings.Cut(s.action, "?")
	screen, act := c.kind(path)
	return screen + " " + act
}

func (c *crawler) submit(s *submission) {
	c.t.Helper()
	var a outside.Answer
	if s.method != http.MethodPost {
		path, _, _ := strings.Cut(s.action, "?")
		a = c.ask("GET", path+"?"+s.values.Encode(), "")
	} else {
		a = c.ask("POST", s.action, s.values.Encode())
	}
	to := a.Header.Get("Location")
	said := fmt.Sprintf("%d %s", a.Status, to)
	switch {
	case a.Status == http.StatusSeeOther && strings.HasPrefix(to, "/admin/sign-in"):
		c.enter()
	case a.Status == http.StatusSeeOther:
		followed := c.ask("GET", to, "")
		if followed.Status == http.StatusSeeOther && strings.HasPrefix(followed.Header.Get("Location"), "/admin/sign-in") {
			c.enter() // it ended the session
		} else if followed.Status != http.StatusOK {
			c.t.Errorf("%q on %s ends at %s: %d", s.key, s.page, to, followed.Status)
		} else {
			c.visit(to)
		}
	case a.Status != http.StatusOK && c.outlived(s, a.Status):
		said = "gone"
	case a.Status != http.StatusOK:
		c.t.Errorf("%q on %s: %s %v: %d %.1500s", s.key, s.page, s.action, s.values, a.Status, a.Body)
	}
	if act := c.act(s); s.method == http.MethodPost {
		c.acted[act] = append(c.acted[act], said)
	}
}

// outlived reports whether a form is no longer on its page: what it was about went on
// meanwhile. A page that asks once more is the question alone.
func (c *crawler) outlived(s *submission, status int) bool {
	c.t.Helper()
	if at, _, _ := strings.Cut(s.page, "?"); at == s.action {
		return status == http.StatusNotFound
	}
	a := c.ask("GET", s.page, "")
	u, err := url.Parse(s.page)
	if err != nil || a.Status != http.StatusOK {
		return a.Status == http.StatusNotFound
	}
	former, queue := c.forms, c.queue
	c.forms = nil
	c.read(u, a.Body, true)
	c.queue = queue
	gone := !slices.ContainsFunc(c.forms, func(f *submission) bool { return f.key == s.key && f.action == s.action })
	c.forms = former
	return gone
}

// again forgets which pages were visited, because what they show has changed.
func (c *crawler) again() {
	c.t.Helper()
	maps.DeleteFunc(c.done, func(key string, _ bool) bool { return strings.HasPrefix(key, "/") && !strings.Contains(key, " ") })
	clear(c.visited)
	c.visit("/admin")
}

// seldom are the pages and acts that are there now and then only, or need what no page
// shows, each with what does them for certain.
var seldom = map[string]string{
	"/webhooks/replays/{id} cancel": "a replay of nothing is over at once; the tests of internal/webhook cancel one",
	"/two-factor enable":            "needs a code of an authenticator; the tests of internal/pages have one, as for the next three",
	"/two-factor recovery-codes":    "",
	"/two-factor/off":               "",
	"/two-factor/off confirm":       "",
	"/security clear-reports":       "reports are stored a minute later; the tests of internal/security forget them",
}

// Abuse case 54, for every label; and everything that can be done on the pages is done.
func TestEveryPageLeadsSomewhereShowsScriptsAsTextAndDoesWhatItsButtonsSay(t *testing.T) {
	t.Parallel()
	s := strew(t)
	for _, name := range []string{"second@example.com", "third@example.com"} {
		if code, _, errOut := command(t, []string{"DATABASE_URL=" + s.database}, outside.Password, "user", "create", "--email", name, "--first-name", "An", "--last-name", "Other", "--role", "admin"); code != 0 {
			t.Fatal(errOut)
		}
	}
	c := crawl(&visitor{t: t, url: s.url}, outside.Password, "root@example.com", "second@example.com", "third@example.com")
	s.waitFor(t, "the refused delivery on its page", func() bool {
		return strings.Contains(string(c.ask("GET", "/admin/webhooks/rejected", "").Body), "unknown_provider")
	})
	for _, path := range append(s.unlinked, "/admin") {
		c.visit(path)
	}
	for _, label := range s.labels {
		if !c.shown[label] {
			t.Errorf("the script stored as %s is on no page", label)
		}
	}
	for c.send(func(s *submission) bool { return !s.danger && s.action != "/admin/sign-out" }) > 0 {
		c.again()
	}
	for c.send(func(s *submission) bool { return s.action != "/admin/sign-out" }) > 0 {
		c.again()
	}
	c.send(func(*submission) bool { return true })
	for path := range c.screens {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.seen)), func(kind string) bool { return strings.HasPrefix(kind, path+" ") }) {
			if _, elsewhere := seldom[path]; !elsewhere {
				t.Errorf("no page leads to %q", path)
			}
		}
	}
	for path, shown := range c.screens {
		for _, act := range shown.acts {
			key := path + " " + act
			if _, elsewhere := seldom[key]; !elsewhere && len(c.acted[key]) == 0 {
				t.Errorf("%s was not done", key)
			}
		}
	}
	t.Logf("%d kinds of pages, %d acts", len(c.seen), len(c.acted))
}
