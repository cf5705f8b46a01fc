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
	authNone authKind = iota
	authBearer
	authAPIKey
	authBasic
)

// auth is a request's: the value is the token of authBearer; authAPIKey is a name
// and value in "header" or "query", authBasic a user name and password.
type auth struct {
	kind            authKind
	in, name, value string
	inherited       bool // from the collection
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
	if v.Signature != nil {
		return auth{} // the script does it
	}
	for _, alternative := range alternatives {
		for _, name := range slices.Sorted(maps.Keys(alternative)) {
			s := d.Components.SecuritySchemes[name]
			variable := cmp.Or(v.Credential, s.Hints.Variable, name)
			switch {
			case s.isBearer():
				variable = cmp.Or(v.Credential, s.Hints.Variable, tokenVariable)
				return auth{kind: authBearer, value: "{{" + variable + "}}", inherited: variable == d.bearerVariable()}
			case s.Type == "apiKey" && s.In != "cookie":
				return auth{kind: authAPIKey, in: s.In, name: s.Name, value: "{{" + variable + "}}"}
			case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
				return auth{kind: authBasic, name: "{{" + variable + "User}}", value: "{{" + variable + "Password}}"}
			}
		}
	}
	return auth{}
}
