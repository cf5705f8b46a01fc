package app

import (
	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/internal/apidoc"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/webhook"
)

// Extensions are what the owner of a fork adds to Waypost. They are given in
// cmd/waypost/extensions.go and reach every command; the zero value adds nothing.
type Extensions struct {
	// Providers send webhooks, beside the built-in ones and those of WAYPOST_CONFIG.
	Providers []webhook.Registration
	// Bindings tie handlers to providers' events.
	Bindings []webhook.Binding
	// Overrides replaces texts of operations in the description and in everything
	// derived from it; nil for no overrides. A method and path that no route has fail
	// the start.
	Overrides func(*apidoc.Overrides)
	// Resources returns more operations; nil for none. When the operations are only
	// described, and never called, s is empty. So don't use its fields in Resources
	// itself, only in the operations' handlers.
	Resources func(s *Services) []api.Resource
	// Periodic returns more periodic tasks, Workers the workers of more kinds of jobs;
	// nil for none.
	Periodic func(s *Services) []jobs.Periodic
	Workers  func(s *Services) []jobs.Worker
}
