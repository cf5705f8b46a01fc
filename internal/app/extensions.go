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
	// Overrides says more about operations than they say of themselves, in the
	// description and all that is made from it; nil for nothing. A wrong method or
	// path is an error at start.
	Overrides func(*apidoc.Overrides)
	// Resources returns more operations; nil for none. s is empty where they are only
	// described, so it must be kept for when they are called.
	Resources func(s *Services) []api.Resource
	// Periodic returns more work that runs by itself, Workers what works more kinds of
	// jobs; nil for none.
	Periodic func(s *Services) []jobs.Periodic
	Workers  func(s *Services) []jobs.Worker
}
