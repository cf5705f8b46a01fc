package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"
)

// File is the file that WAYPOST_CONFIG names. Each section is read by the area
// that it configures.
type File struct {
	Path string
	Data []byte // YAML
}

// maxFile bounds the file's size in bytes.
const maxFile = 1 << 20

// ReadFile reads the file; without a name it is empty. Sections that nobody reads
// are an error.
func ReadFile(path string) (File, error) {
	if path == "" {
		return File{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("WAYPOST_CONFIG: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("WAYPOST_CONFIG: %w", err)
	case len(data) > maxFile:
		return File{}, fmt.Errorf("WAYPOST_CONFIG: %s is larger than %d bytes", path, maxFile)
	}
	var sections map[string]yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&sections); err != nil && !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("WAYPOST_CONFIG: %s is not a YAML mapping of sections: %w", path, readableYAML(err))
	}
	for name, node := range sections {
		if name != "webhooks" && name != "ai" {
			return File{}, fmt.Errorf("WAYPOST_CONFIG: %s:%d: unknown section %q; %sthe sections are ai and webhooks", path, node.Line, name, Suggest(name, []string{"ai", "webhooks"}))
		}
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("WAYPOST_CONFIG: %s holds more than one document", path)
	}
	return File{Path: path, Data: data}, nil
}
