package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/httpedge"
)

// How a page that could not do what it was asked for comes back: with what was typed,
// and with what is wrong next to it.

// renewal is how often a live page renews itself.
const renewal = 5 * time.Second

// settled is data of a live page that won't change.
type settled interface{ settled() bool }

func isSettled(data any) bool {
	s, ok := data.(settled)
	return ok && s.settled()
}

// formed is data with forms. The fields that forms returns are those that the template
// shows, not copies of them.
type formed interface{ forms() []Form }

// refuse shows the screen of an act that failed once more. Where that can't be shown
// either, such as when it was of something that is gone, a page of its own says why.
func (d *desk) refuse(w http.ResponseWriter, r *http.Request, s Section, screen Screen, a Act, failure error) {
	if screen.Read == nil {
		d.fail(w, r, failure)
		return
	}
	back := *r
	back.Method, back.URL = http.MethodGet, &url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"+a.Name)}
	data, err := screen.Read(&back)
	if err != nil {
		d.fail(w, r, failure)
		return
	}
	d.again(w, r, s, screen, data, failure)
}

// again shows data with what is wrong with the form that was sent.
func (d *desk) again(w http.ResponseWriter, r *http.Request, s Section, screen Screen, data any, failure error) {
	status, problem := failed(w, r, failure)
	v := d.view(r, s, screen.Title, data)
	v.Wrong = problem
	if errors.Is(failure, account.ErrReauthenticate) {
		v.SignIn = DeskPath + "/sign-in?next=" + url.QueryEscape(path.Dir(r.URL.Path))
	}
	details := httpedge.NewEnvelope(failure, "").Err.Details
	sent := ""
	if r.Method == http.MethodPost {
		sent = r.URL.Path
	}
	if f, ok := data.(formed); ok {
		for _, form := range f.forms() {
			if form.Action == sent && form.restore(r.PostForm, details) {
				v.Wrong = "Some of this can't be taken; it says below what."
			}
		}
	}
	d.render(w, status, screen.View, v)
}

// Form is a form that changes something.
type Form struct {
	// Action is the path that it is sent to; "" for a filter.
	Action string
	Fields []Field
	Button string
	// Line shows it in one line where there is room.
	Line bool
}

// restore puts what was typed, if anything was sent, into the form's fields and what is
// wrong next to them. It reports whether all that is wrong found its field.
func (f Form) restore(typed url.Values, details map[string]string) bool {
	found := 0
	for i := range f.Fields {
		field := &f.Fields[i]
		if typed != nil {
			field.Value, field.Values = typed.Get(field.Name), typed[field.Name]
		}
		if rule, ok := details[field.Name]; ok {
			field.Problem = rule
			found++
		}
	}
	return found > 0 && found == len(details)
}

// Has reports whether a field of several values has one of them.
func (f Field) Has(value string) bool { return slices.Contains(f.Values, value) }

// Anchor is what tells the field from others on its page.
func (f Field) Anchor() string { return cmp.Or(f.ID, f.Name) }

// InputKind is the type of its input.
func (f Field) InputKind() string { return cmp.Or(f.Kind, "text") }
