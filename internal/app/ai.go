package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/config"
)

// openAI opens the gateway with the models of the configuration file, and in dev one that
// needs no service.
func (s *Services) openAI(o Options, metrics prometheus.Registerer) error {
	file, err := config.ReadFile(o.Config.ConfigFile)
	if err != nil {
		return err
	}
	declared, err := aigateway.ParseYAML(file.Path, file.Data)
	if err != nil {
		return fmt.Errorf("WAYPOST_CONFIG: %w", err)
	}
	if o.EchoModel {
		declared = declared.WithEcho()
	}
	s.AI, err = aigateway.New(aigateway.Options{
		DB: o.Areas.Requests, Declared: declared, LookupKey: o.LookupSecret, Logger: o.Logger, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	s.closers.add("AI gateway", within(o.Config.ShutdownTimeout, s.AI.Close))
	return nil
}
