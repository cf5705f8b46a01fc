package identity

import "slices"

// Scope is one thing that an API token may do, within its owner's role.
type Scope string

// The scopes. None contains another.
const (
	// Read is to call operations that change nothing.
	Read Scope = "read"
	// Write is to call operations that change something.
	Write Scope = "write"
	// Administer is wanted, besides Read or Write, by operations for ADMIN alone, and
	// by what only an ADMIN does in others: see Principal.Administers.
	Administer Scope = "admin"
	// AI is to call language models, which costs money.
	AI Scope = "ai"
)

var allScopes = [...]Scope{Read, Write, Administer, AI}

// Valid reports whether s is one of the scopes.
func (s Scope) Valid() bool { return slices.Contains(allScopes[:], s) }

// Scopes is a set of scopes; the zero value is empty.
type Scopes uint8

// NewScopes makes a set; what is no scope is left out.
func NewScopes(list ...Scope) Scopes {
	var set Scopes
	for _, s := range list {
		if i := slices.Index(allScopes[:], s); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// Has reports whether all of list are in the set.
func (s Scopes) Has(list ...Scope) bool {
	wanted := NewScopes(list...)
	return s&wanted == wanted
}

// List returns the set's scopes in the order in which they are declared.
func (s Scopes) List() []Scope {
	list := []Scope{}
	for _, scope := range allScopes {
		if s.Has(scope) {
			list = append(list, scope)
		}
	}
	return list
}
