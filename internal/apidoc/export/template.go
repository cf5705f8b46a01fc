package export

import (
	"regexp"
	"slices"
	"strings"
)

// placeholder is a variable {{name}} or a value of its own for each sending
// {{$name}}, in Postman's notation, which is also ours.
var placeholder = regexp.MustCompile(`\{\{(\$?[A-Za-z][A-Za-z0-9_]*)\}\}`)

// dialect is what tells the tools apart, whose script interfaces are alike
// otherwise.
type dialect struct {
	object string // global of scripts
	// fixBody puts the request's body with every placeholder replaced into body, and
	// into the request.
	fixBody string
	// variable is the expression for a variable's value, %s its name; what is not set may
	// come as its placeholder. setHeader is the call that sets a header.
	variable, setHeader string
}

var (
	// postman's scripts are written so that Bruno, which translates them, does the same:
	// what it has no word for is asked of its own req, which Postman does not have.
	postman = dialect{
		object: "pm", variable: `pm.variables.replaceIn("{{%s}}")`, setHeader: "pm.request.headers.upsert",
		fixBody: `const bruno = typeof req !== "undefined";
const body = pm.variables.replaceIn(bruno ? req.getBody({ raw: true }) : pm.request.body.raw);
if (bruno) req.setBody(body);
else pm.request.body.update({ mode: "raw", raw: body });`,
	}
	insomnia = dialect{
		object: "insomnia", variable: `insomnia.variables.get("%s")`, setHeader: "insomnia.request.upsertHeader",
		fixBody: `const body = insomnia.request.body.raw
  .replace(/\{\{ _\.(\w+) \}\}/g, (_, name) => insomnia.variables.get(name))
  .replace(/\{% uuid 'v4' %\}/g, () => require("uuid").v4())
  .replace(/\{% now 'unix', '' %\}/g, Math.floor(Date.now() / 1000))
  .replace(/\{% now 'iso-8601', '' %\}/g, new Date().toISOString());
insomnia.request.body.update({ mode: "raw", raw: body });`,
	}
)

// insomniaTags are Insomnia's for values of their own.
var insomniaTags = map[string]string{
	"$guid":         "{% uuid 'v4' %}",
	"$timestamp":    "{% now 'unix', '' %}",
	"$isoTimestamp": "{% now 'iso-8601', '' %}",
}

// forInsomnia puts a text into Insomnia's notation.
func forInsomnia(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := strings.Trim(p, "{}")
		if tag, ok := insomniaTags[name]; ok {
			return tag
		}
		return "{{ _." + name + " }}"
	})
}

// variables are the names that the request refers to, in no order of meaning but
// a stable one.
func (r *request) variables() []string {
	texts := []string{r.auth.name, r.auth.value}
	for _, s := range r.path {
		texts = append(texts, s.literal)
		if s.param != nil {
			texts = append(texts, s.param.value)
		}
	}
	fields := slices.Concat(r.query, r.header)
	if r.body != nil {
		texts = append(texts, r.body.text)
		fields = append(fields, r.body.form...)
	}
	for _, f := range fields {
		texts = append(texts, f.value)
	}
	var names []string
	for _, t := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(t, -1) {
			if m[1][0] != '$' {
				names = append(names, m[1])
			}
		}
	}
	if r.signature != nil {
		names = append(names, r.signature.Secret)
	}
	if r.totp != nil {
		names = append(names, r.totp.Secret, r.totp.Code)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
