package app

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook"
)

// CheckedProvider is a webhook provider as a start would register it.
type CheckedProvider struct {
	Name, SecretEnv     string
	Preset              string // "" for none
	Verifier, Extractor string
	Challenge           string // its method, "" for none
	// Unset are variables that need a value before deliveries are taken, or sent on.
	Unset []webhook.Unset
}

// CheckConfig reads the configuration file as a start does, without a database. Its
// error names everything in the file that would stop the start.
func CheckConfig(c config.Config, x Extensions, lookupEnv func(name string) string) ([]CheckedProvider, error) {
	file, err := config.ReadFile(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	_, aiErr := aigateway.ParseYAML(cmp.Or(file.Path, "WAYPOST_CONFIG"), file.Data)
	registry, err := newRegistry(c, lookupEnv, x)
	if err := errors.Join(err, aiErr); err != nil {
		return nil, err
	}
	unset := map[string][]webhook.Unset{}
	for _, u := range registry.Unset(lookupEnv) {
		unset[u.Provider] = append(unset[u.Provider], u)
	}
	var list []CheckedProvider
	for _, p := range registry.Providers() {
		checked := CheckedProvider{Name: p.Name, SecretEnv: p.SecretEnv, Preset: p.Preset, Challenge: p.Challenge.Method, Unset: unset[p.Name]}
		checked.Verifier, checked.Extractor = p.Names()
		list = append(list, checked)
	}
	return list, nil
}

// State says in a few words whether the provider's deliveries would be taken, and sent on.
func (p CheckedProvider) State() string {
	if len(p.Unset) == 0 {
		return "ready"
	}
	said := make([]string, len(p.Unset))
	for i, u := range p.Unset {
		said[i] = fmt.Sprintf("%s: %s", u.Variable, u.Reason)
	}
	return strings.Join(said, "; ")
}
