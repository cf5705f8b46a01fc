package webhook

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// ProviderState is a registration and what became of its deliveries.
type ProviderState struct {
	Name string
	// SecretEnv is the variable's name; the flags say whether it and the one of its
	// predecessor are set.
	SecretEnv                    string
	SecretSet, PreviousSecretSet bool
	Preset                       string // "" for none
	Verifier, Extractor          string // as the configuration file names them, or "function"
	BodyLimit                    int64  // bytes
	EventTypes                   []string
	Pending, Processed, Failed   int64
	LastDelivery                 *time.Time
	// FailureStreak is how many of the newest handled events in a row are failing.
	FailureStreak int64
}

// ProviderStates returns up to limit registered providers by name, from behind the
// name after.
func (a *Admin) ProviderStates(ctx context.Context, after string, limit int) ([]ProviderState, error) {
	var states []ProviderState
	var names []string
	byName := slices.SortedFunc(slices.Values(a.o.Registry.Providers()), func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range byName {
		if p.Name <= after || len(states) == limit {
			continue
		}
		set := func(variable string) bool { return strings.TrimSpace(a.o.LookupSecret(variable)) != "" }
		names = append(names, p.Name)
		states = append(states, ProviderState{
			Name: p.Name, SecretEnv: p.SecretEnv, SecretSet: set(p.SecretEnv), PreviousSecretSet: set(p.SecretEnv + "_PREVIOUS"),
			Preset: p.Preset, Verifier: verifierName(p.Verifier), Extractor: extractorName(p.Extractor), BodyLimit: p.BodyLimit,
			EventTypes: a.o.Registry.eventTypes(p.Name),
		})
	}
	counts, err := a.totals.count(ctx, a.store.queries, a.o.AdminDB, names, a.o.Now())
	if err != nil {
		return nil, err
	}
	streaks, err := a.streaks(ctx)
	if err != nil {
		return nil, db.Translate(err)
	}
	for i := range states {
		s := &states[i]
		s.FailureStreak = streaks[s.Name].Streak
		c := counts[s.Name]
		s.Pending, s.Failed, s.Processed, s.LastDelivery = c.pending, c.failed, c.processed, c.last
	}
	return states, nil
}

// CountProviders returns the number of registered providers.
func (a *Admin) CountProviders() int64 { return int64(len(a.o.Registry.providers)) }

// eventTypes lists the types with a handler, "" for the catch-all.
func (r *Registry) eventTypes(provider string) []string {
	types := []string{}
	for key := range r.handlers {
		if key.provider == provider {
			types = append(types, key.eventType)
		}
	}
	slices.Sort(types)
	return types
}

// Names returns what the configuration file calls the verifier and the extractor, or
// "function".
func (r Registration) Names() (verifier, extractor string) {
	return verifierName(r.Verifier), extractorName(r.Extractor)
}

func verifierName(v Verifier) string {
	switch v := v.(type) {
	case signature.Timestamped:
		return "timestamped-hmac"
	case signature.Standard:
		return "standard-webhooks"
	case signature.Scheme:
		return "hmac"
	case signature.Token:
		return "token"
	case signature.HMAC:
		if v.Prefix == "" {
			return "hmac"
		}
		return "code-host"
	}
	return "function"
}

func extractorName(e Extractor) string {
	switch e {
	case Payment().Extractor:
		return "payment"
	case CodeHost().Extractor:
		return "code-host"
	case StandardFields{}:
		return "standard-webhooks"
	}
	switch e := e.(type) {
	case Fields:
		switch {
		case e.Form:
			return "form"
		case e.TypeField+e.IDField == "":
			return "headers"
		}
		return "json"
	case BodyFields:
		return "json"
	case HeaderFields:
		return "headers"
	}
	return "function"
}
