package webhook

import (
	_ "embed"
	"maps"
	"slices"
	"sync"

	"github.com/waypost/waypost/internal/config"
)

// presetsFile holds what each preset stands for, in the words of the configuration
// file: it can be read, copied and changed there.
//
//go:embed presets.yaml
var presetsFile []byte

// presets returns the table of presetsFile, by name.
var presets = sync.OnceValue(func() map[string]presetYAML {
	table := map[string]presetYAML{}
	if err := config.ReadSection("presets.yaml", presetsFile, &table); err != nil {
		panic(err) // a test reads it
	}
	return table
})

// Presets lists the names that `preset:` takes, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets())) }

// Preset is the registration of a well-known service: see presets.yaml for what each
// name stands for. ok is false for a name that is none.
func Preset(preset, name, secretEnv string) (registration Registration, ok bool) {
	if _, ok := presets()[preset]; !ok {
		return Registration{}, false
	}
	r, err := providerYAML{Name: name, SecretEnv: secretEnv, Preset: preset}.registration()
	return r, err == nil
}
