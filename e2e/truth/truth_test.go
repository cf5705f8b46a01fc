// Package truth_test holds what the service says of itself against what it does.
package truth_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/waypost/waypost/e2e/outside"
)

// request is one call of an operation.
type request struct {
	name   string
	caller string
	// credentials, when set, are instead of the caller's own.
	credentials []string
	// at, when set, is another service's URL instead of the world's.
	at     string
	params map[string]string // of the path
	query  url.Values
	// malformed, when set, is the query string instead of query.
	malformed string
	body      []byte // nil for none
	header    []string
}

// TestTheDescriptionIsTrue walks every operation as every kind of caller, with
// valid and with broken input. It fails on a status, error code, media type,
// header or field that is not documented, on a documented status or header that
// never occurs, on an access that is not as described, and on a change that the audit
// log doesn't have.
func TestTheDescriptionIsTrue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := readDescription(t, outside.Do(t, "GET", w.url+"/docs/openapi.json", "").Body)
	w.described = d
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(specials)), maps.Keys(limits)) {
		if !slices.ContainsFunc(d.operations, func(o *operation) bool { return o.id == name }) {
			t.Errorf("there is no operation %s to make special calls of", name)
		}
	}
	var trail auditTrail
	for _, o := range d.operations {
		t.Run(o.method+" "+o.path, func(t *testing.T) {
			w.signInAgain(t)
			var seen sightings
			call := func(r request) outside.Answer {
				t.Helper()
				a := w.send(t, o, r)
				seen.add(a)
				trail.add(o, r, a)
				wrong := append(d.check(o, a), o.checkKept(w, r, a)...)
				if r.name == valid {
					wrong = append(wrong, o.checkAccess(r.caller, a)...)
				}
				for _, what := range wrong {
					t.Errorf("%s, as %s: %s", r.name, r.caller, what)
				}
				if a.Status < 400 && o.method != http.MethodGet && strings.HasPrefix(o.path, "/api/auth/") {
					w.signInAgain(t)
				}
				return a
			}
			w.walk(t, o, call)
			for _, what := range d.unseen(o, seen) {
				t.Error(what)
			}
		})
	}
	trail.check(t, w)
}

const valid = "valid"

// walk makes all calls of one operation: a valid one and broken ones by each
// caller, and those that its rarer statuses need.
func (w *world) walk(t *testing.T, o *operation, call func(request) outside.Answer) {
	t.Helper()
	for _, caller := range w.callers() {
		call(w.valid(t, o, caller))
	}
	w.choose(t, o, call)
	w.repeat(t, o, call)
	for _, caller := range w.callers() {
		may := slices.Contains(w.whoMay(o), caller)
		whole := w.valid(t, o, caller)
		for _, b := range o.breakages(whole.body) {
			if b.name == tooLarge && !may {
				continue // they take long, and the others are no different
			}
			r := whole
			if may {
				r = w.valid(t, o, caller) // the call before may have spent what it names
			}
			r.name = b.name
			b.apply(&r)
			call(r)
		}
	}
	for _, set := range []calls{specials, limits} {
		if special, ok := set[o.id]; ok {
			special(t, w, call)
		}
	}
}

// choose gives the query's parameters the values that are documented, and takes
// a list's second page.
func (w *world) choose(t *testing.T, o *operation, call func(request) outside.Answer) {
	t.Helper()
	with := func(name, value string) outside.Answer {
		r := w.valid(t, o, w.whoMay(o)[0])
		r.name = name + " is " + value
		r.query.Set(name, value)
		return call(r)
	}
	for _, p := range o.doc.Parameters {
		switch {
		case p.In != "query":
		case p.Name == "cursor":
			var page struct {
				Meta struct {
					NextCursor string `json:"next_cursor"`
				}
			}
			with("limit", "1").Into(t, &page)
			if page.Meta.NextCursor != "" {
				with("cursor", page.Meta.NextCursor)
			}
		default:
			for _, value := range p.choices() {
				with(p.Name, value)
			}
		}
	}
}

// valid is a call that should succeed for a caller who may.
func (w *world) valid(t *testing.T, o *operation, caller string) request {
	t.Helper()
	r := request{name: valid, caller: caller, params: map[string]string{}, query: url.Values{}}
	prepare, prepared := preparations[o.id]
	if params, ok := w.fixture(t, o.path); ok {
		r.params = params
	} else if !prepared {
		r.params = w.created(t, o.path)
	}
	r.body, r.header = o.exampleBody(t)
	if prepared {
		prepare(t, w, &r)
	}
	return r
}

// browser stays where it is told to go elsewhere.
var browser = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send makes the call, signed as its caller.
func (w *world) send(t *testing.T, o *operation, r request) outside.Answer {
	t.Helper()
	path := o.path
	for name, value := range r.params {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	target := w.url + path
	switch {
	case r.at != "":
		target = r.at + path
	case kinds[r.caller].enrolls:
		target = w.strictURL + path
	}
	switch {
	case r.malformed != "":
		target += "?" + r.malformed
	case len(r.query) > 0:
		target += "?" + r.query.Encode()
	}
	credentials := r.credentials
	if credentials == nil {
		credentials = w.credentials[r.caller]
	}
	header := slices.Concat(r.header, credentials)
	if finish, ok := signatures[o.id]; ok {
		header = append(header, finish(r)...)
	}
	// Set, not add: a broken media type replaces the right one.
	last := map[string]string{}
	for i := 0; i < len(header); i += 2 {
		last[http.CanonicalHeaderKey(header[i])] = header[i+1]
	}
	var pairs []string
	for name, value := range last {
		pairs = append(pairs, name, value)
	}
	a := outside.Exchange(t, browser, o.method, target, string(r.body), pairs...)
	if a.Status == http.StatusInternalServerError {
		t.Errorf("%s, as %s: the service failed: %s", r.name, r.caller, w.log.lastError())
	}
	return a
}
