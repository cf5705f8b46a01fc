package webhook

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/config"
)

// Declared is what a configuration file declares: providers, and targets that
// their events are forwarded to.
type Declared struct {
	Providers []Registration
	Forwards  [][]ForwardTarget // those of one handler together
}

// The section of the file, in its own words.
type (
	fileYAML struct {
		Webhooks struct {
			Providers []providerYAML `yaml:"providers"`
			Handlers  []handlerYAML  `yaml:"handlers"`
		} `yaml:"webhooks"`
		// Sections of other readers.
		Rest map[string]yaml.Node `yaml:",inline"`
	}
	handlerYAML struct {
		Provider string `yaml:"provider"`
		Event    string `yaml:"event"`
		// One target, or a list of targets with names.
		Forward config.OneOrMany[forwardYAML] `yaml:"forward"`
	}
	forwardYAML struct {
		Name        string            `yaml:"name"`
		URL         string            `yaml:"url"`
		SecretEnv   string            `yaml:"secret_env"`
		Attempts    int               `yaml:"attempts"`
		Timeout     string            `yaml:"timeout"`
		Concurrency int               `yaml:"concurrency"`
		Rate        string            `yaml:"rate"`
		Headers     map[string]string `yaml:"headers"`
		PassHeaders bool              `yaml:"pass_headers"`
	}
)

// ParseYAML reads the section "webhooks" of a configuration file. Its error names
// each faulty entry by file, line and name, and shows no value that may be a
// secret.
func ParseYAML(file string, data []byte) (Declared, error) {
	var parsed fileYAML
	if err := config.ReadSection(file, data, &parsed); err != nil {
		return Declared{}, err
	}
	lines, err := config.LinesOf(data)
	if err != nil {
		return Declared{}, fmt.Errorf("%s: %w", file, err)
	}
	var declared Declared
	var errs []error
	seen := map[string]bool{}
	for i, p := range parsed.Webhooks.Providers {
		registration, err := p.registration()
		if err == nil && seen[p.Name] {
			err = errors.New("registered twice")
		}
		seen[p.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: webhook provider %q: %w", file, lines("webhooks", "providers", i), p.Name, err))
			continue
		}
		declared.Providers = append(declared.Providers, registration)
	}
	for i, h := range parsed.Webhooks.Handlers {
		targets, err := h.targets()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: webhook handler of provider %q, event %q: %w", file, lines("webhooks", "handlers", i), h.Provider, h.Event, err))
			continue
		}
		declared.Forwards = append(declared.Forwards, targets)
	}
	return declared, errors.Join(errs...)
}
