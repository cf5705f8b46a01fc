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
func (r *Receiver) ProviderStates(ctx context.Context, after string, limit int) ([]ProviderState, error) {
	var states []ProviderState
	var names []string
	byName := slices.SortedFunc(slices.Values(r.o.Registry.Providers()), func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range byName {
		if p.Name <= after || len(states) == limit {
			continue
		}
		set := func(variable string) bool { return strings.TrimSpace(r.o.LookupSecret(variable)) != "" }
		names = append(names, p.Name)
		states = append(states, ProviderState{
			Name: p.Name, SecretEnv: p.SecretEnv, SecretSet: set(p.SecretEnv), PreviousSecretSet: set(p.SecretEnv + "_PREVIOUS"),
			Verifier: verifierName(p.Verifier), Extractor: extractorName(p.Extractor), BodyLimit: p.BodyLimit,
			EventTypes: r.o.Registry.eventTypes(p.Name),
		})
	}
	counts, err := r.store.queries.CountWebhooksByStatus(ctx, r.o.AdminDB.Direct(), names)
	if err != nil {
		return nil, db.Translate(err)
	}
	streaks, err := r.streaks(ctx)
	if err != nil {
		return nil, db.Translate(err)
	}
	for i := range states {
		s := &states[i]
		s.FailureStreak = streaks[s.Name].Streak
		for _, c := range counts {
			if c.Provider != s.Name {
				continue
			}
			s.Pending, s.Failed, s.Processed = c.Pending, c.Failed, c.Total-c.Pending-c.Failed
			if c.Total > 0 {
				s.LastDelivery = &c.LastDelivery
			}
		}
	}
	return states, nil
}

// CountProviders returns the number of registered providers.
func (r *Receiver) CountProviders() int64 { return int64(len(r.o.Registry.providers)) }

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

func verifierName(v Verifier) string {
	switch v := v.(type) {
	case signature.Timestamped:
		return "timestamped-hmac"
	case signature.Standard:
		return "standard-webhooks"
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
	switch e.(type) {
	case BodyFields:
		return "json"
	case HeaderFields:
		return "headers"
	}
	return "function"
}
