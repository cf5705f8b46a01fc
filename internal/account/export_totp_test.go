package account

import "github.com/waypost/waypost/internal/account/oauth"

// MatchStep is matchStep.
var MatchStep = matchStep

// Admit is what of an identity goes into the database.
func Admit(id oauth.Identity) (email string, verified bool, firstName, lastName string) {
	o := outsiderOf(id)
	return o.email, o.verified, o.firstName, o.lastName
}
