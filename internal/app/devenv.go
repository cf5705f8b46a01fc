package app

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// devEnvFile is where dev writes the values that it made up, below the data
// directory, for people and scripts to source.
const devEnvFile = "dev.env"

// devEnv is an ordered list of NAME=value lines.
type devEnv struct {
	names  []string
	values map[string]string
}

func (e *devEnv) get(name string) string { return e.values[name] }

func (e *devEnv) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// readDevEnv reads what an earlier dev wrote; no file is no values.
func readDevEnv(dir string) (*devEnv, error) {
	e := &devEnv{values: map[string]string{}}
	f, err := os.Open(filepath.Join(dir, devEnvFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", devEnvFile, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "=")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		e.set(name, unquote(value))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", devEnvFile, err)
	}
	return e, nil
}

// write replaces the file in one step, readable by its owner alone.
func (e *devEnv) write(dir string) error {
	f, err := os.CreateTemp(dir, devEnvFile+".*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", devEnvFile, err)
	}
	defer os.Remove(f.Name())
	for _, name := range e.names {
		fmt.Fprintf(f, "%s=%s\n", name, quote(e.values[name]))
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", devEnvFile, err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, devEnvFile)); err != nil {
		return fmt.Errorf("write %s: %w", devEnvFile, err)
	}
	return nil
}

var plainValue = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]*$`)

// quote makes a shell word of s: itself when plain, else in single quotes.
func quote(s string) string {
	if plainValue.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func unquote(s string) string {
	if len(s) < 2 || s[0] != '\'' || s[len(s)-1] != '\'' {
		return s
	}
	return strings.ReplaceAll(s[1:len(s)-1], `'\''`, "'")
}
