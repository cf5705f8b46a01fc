package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// newRegistry holds the providers that are built in, those of x and those of the
// configuration file, and the handlers of all.
func newRegistry(c config.Config, lookupSecret func(string) string, x Extensions) (*webhook.Registry, error) {
	file, err := config.ReadFile(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	declared, err := webhook.ParseYAML(file.Path, file.Data)
	if err != nil {
		return nil, fmt.Errorf("WAYPOST_CONFIG: %w", err)
	}
	providers, bindings := slices.Concat(webhook.BuiltIn(), x.Providers, declared.Providers), slices.Clone(x.Bindings)
	for _, targets := range declared.Forwards {
		b, err := webhook.ForwardAll(targets, webhook.ForwardOptions{LookupSecret: lookupSecret})
		if err != nil {
			return nil, err
		}
		bindings = append(bindings, b)
	}
	registry, err := webhook.NewRegistry(providers, bindings...)
	if err != nil && c.ConfigFile != "" {
		return nil, fmt.Errorf("with WAYPOST_CONFIG %s: %w", c.ConfigFile, err)
	}
	return registry, err
}

// warnOfSecrets names the providers that can take no delivery, and the targets that can be
// sent none, until somebody sets a variable.
func warnOfSecrets(ctx context.Context, registry *webhook.Registry, lookupSecret func(string) string, logger *slog.Logger) {
	for _, u := range registry.Unset(lookupSecret) {
		if u.Target != "" {
			logger.WarnContext(ctx, "a webhook target's variable needs a value", "provider", u.Provider, "target", u.Target, "variable", u.Variable, "reason", u.Reason)
			continue
		}
		logger.WarnContext(ctx, "a webhook provider's variable needs a value", "provider", u.Provider, "variable", u.Variable, "reason", u.Reason)
	}
}
