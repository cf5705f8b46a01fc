package api

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waypost/waypost/internal/identity"
)

// Names of the security schemes in the description.
const (
	schemeBearer  = "bearer"
	schemeSiteKey = "siteKey"
)

// accessKey holds an operation's Access in its metadata, for the guard and for
// the tests that walk every operation.
const accessKey = "waypost.access"

// Access says who may call an operation. An operation without one is refused at
// start-up: deny by default.
type Access struct {
	scheme string
	roles  []identity.Role
}

// public needs no credential.
func public() Access { return Access{} }

// signedIn needs any active account.
func signedIn() Access { return Access{scheme: schemeBearer, roles: identity.Roles()} }

// roles needs an active account with one of r.
func roles(r ...identity.Role) Access { return Access{scheme: schemeBearer, roles: r} }

// siteKey needs a secret API key of a site.
func siteKey() Access { return Access{scheme: schemeSiteKey} }

// access attaches a to op: the guard enforces it, the description shows it.
func access(op huma.Operation, a Access) huma.Operation {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[accessKey] = a
	op.Security = []map[string][]string{}
	if a.scheme == "" {
		return op
	}
	op.Security = append(op.Security, map[string][]string{a.scheme: {}})
	op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden)
	if a.scheme == schemeBearer {
		if len(a.roles) < len(identity.Roles()) {
			op.Description = strings.TrimSpace(op.Description + "\n\n" + roleSentence(a.roles))
		}
	}
	return op
}

func roleSentence(allowed []identity.Role) string {
	names := make([]string, len(allowed))
	for i, r := range allowed {
		names[i] = "`" + string(r) + "`"
	}
	return "Role needed: " + strings.Join(names, " or ") + "."
}
