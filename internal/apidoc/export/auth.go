package export

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// authKind says how a request shows who sends it.
type authKind int

const (
	authNone   authKind = iota
	authBearer          // the collection's own
	authAPIKey
	authBasic
)

// auth is a request's. For authAPIKey it is a name and value in "header" or
// "query", for authBasic a user name and password.
type auth struct {
	kind            authKind
	in, name, value string
}

func (s securityScheme) isBearer() bool {
	return s.Type == "http" && strings.EqualFold(s.Scheme, "bearer") || s.Type == "oauth2" || s.Type == "openIdConnect"
}

// bearerVariable names the variable of the description's first bearer scheme.
func (d *description) bearerVariable() string {
	for _, name := range slices.Sorted(maps.Keys(d.Components.SecuritySchemes)) {
		if s := d.Components.SecuritySchemes[name]; s.isBearer() {
			return cmp.Or(s.Hints.Variable, tokenVariable)
		}
	}
	return ""
}

// auth returns the first of the operation's alternatives that the tools know.
func (d *description) auth(o located, v Variant) auth {
	alternatives := d.Security
	if o.Security != nil {
		alternatives = *o.Security
	}
	for _, alternative := range alternatives {
		for _, name := range slices.Sorted(maps.Keys(alternative)) {
			s := d.Components.SecuritySchemes[name]
			if v.Signature != nil && strings.EqualFold(s.Name, v.Signature.Header) {
				continue // the script does it
			}
			variable := cmp.Or(s.Hints.Variable, name)
			switch {
			case s.isBearer():
				return auth{kind: authBearer}
			case s.Type == "apiKey" && s.In != "cookie":
				return auth{kind: authAPIKey, in: s.In, name: s.Name, value: "{{" + variable + "}}"}
			case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
				return auth{kind: authBasic, name: "{{" + variable + "User}}", value: "{{" + variable + "Password}}"}
			}
		}
	}
	return auth{}
}
