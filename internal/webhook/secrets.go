package webhook

import (
	"strings"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// Unset is a variable that a provider, or one of its targets, needs, and what is wrong with
// it.
type Unset struct {
	Provider, Variable string
	// Target is whose secret it is, "" for the provider's own.
	Target string
	// Reason says what is wrong and what it means, and never shows the value.
	Reason string
}

// Unset lists the variables of providers that are empty or that hold no key of the
// provider's scheme, in the order of registration, and then those of targets, by provider
// and name. lookup returns a variable's value, "" when it is unset.
func (r *Registry) Unset(lookup func(name string) string) []Unset {
	var list []Unset
	for _, p := range r.Providers() {
		secret := lookup(p.SecretEnv)
		checked, checks := p.Verifier.(interface{ CheckSecret([]byte) error })
		switch {
		case strings.TrimSpace(secret) == "":
			list = append(list, Unset{Provider: p.Name, Variable: p.SecretEnv, Reason: "it is not set, so every delivery is refused"})
		case checks && checked.CheckSecret([]byte(secret)) != nil:
			list = append(list, Unset{Provider: p.Name, Variable: p.SecretEnv, Reason: "it holds no key in base64, so every delivery is refused"})
		}
		if token := p.Challenge.TokenEnv; token != "" && strings.TrimSpace(lookup(token)) == "" {
			list = append(list, Unset{Provider: p.Name, Variable: token, Reason: "it is not set, so every challenge is refused"})
		}
	}
	providers, names := r.sortedTargets()
	for i, provider := range providers {
		p := r.targets[targetKey{provider, names[i]}]
		u := Unset{Provider: provider, Target: names[i], Variable: p.target.SecretEnv}
		secret := p.o.LookupSecret(u.Variable)
		switch {
		case strings.TrimSpace(secret) == "":
			u.Reason = "it is not set, so every forward to the target " + u.Target + " fails"
		case signature.Standard{}.CheckSecret([]byte(secret)) != nil:
			u.Reason = "it holds no key in base64, so every forward to the target " + u.Target + " fails"
		default:
			continue
		}
		list = append(list, u)
	}
	return list
}
