package app

import (
	"fmt"
	"time"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// newRegistry holds the providers that are built in and those of the configuration
// file, and the handlers of both.
func newRegistry(c config.Config, lookupSecret func(string) string, bindings []webhook.Binding) (*webhook.Registry, error) {
	file, err := config.ReadFile(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	declared, err := webhook.ParseYAML(file.Path, file.Data)
	if err != nil {
		return nil, fmt.Errorf("WAYPOST_CONFIG: %w", err)
	}
	providers := append([]webhook.Registration{webhook.Payment(), webhook.CodeHost()}, declared.Providers...)
	for _, target := range declared.Forwards {
		b, err := webhook.Forward(target, webhook.ForwardOptions{LookupSecret: lookupSecret})
		if err != nil {
			return nil, err
		}
		bindings = append(bindings[:len(bindings):len(bindings)], b)
	}
	registry, err := webhook.NewRegistry(providers, bindings...)
	if err != nil && c.ConfigFile != "" {
		return nil, fmt.Errorf("with WAYPOST_CONFIG %s: %w", c.ConfigFile, err)
	}
	return registry, err
}

func (a *App) buildWebhooks(o Options) (*webhook.Receiver, *webhook.Alerts, error) {
	registry, err := newRegistry(o.Config, o.LookupSecret, o.Bindings)
	if err != nil {
		return nil, nil, err
	}
	receiver, err := webhook.NewReceiver(webhook.Options{
		DB: o.Areas.Deliveries, AdminDB: o.Areas.Requests, Registry: registry, LookupSecret: o.LookupSecret, Logger: o.Logger,
		Jobs: a.services.Queue, Retention: time.Duration(o.Config.Webhooks.RetentionDays) * 24 * time.Hour,
		Metrics: a.metrics.Registerer(), BodyMemory: int64(o.Config.Webhooks.BodyMemory) << 20,
	})
	if err != nil {
		return nil, nil, err
	}
	a.closers.add("webhook receiver", a.within(receiver.Close))
	alerts, err := webhook.NewAlerts(webhook.AlertOptions{
		DB: o.Areas.Background, Registry: registry, Logger: o.Logger, Jobs: a.services.Queue,
		Streak: max(o.Config.Webhooks.AlertStreak, 1), URL: o.Config.Webhooks.AlertURL, Secret: o.Config.Webhooks.AlertSecret,
	})
	return receiver, alerts, err
}
