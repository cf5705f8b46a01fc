package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

func (e *devEnv) drop(name string) {
	e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
	delete(e.values, name)
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
	var text bytes.Buffer
	for _, name := range e.names {
		fmt.Fprintf(&text, "%s=%s\n", name, quote(e.values[name]))
	}
	if err := replaceFile(filepath.Join(dir, devEnvFile), text.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", devEnvFile, err)
	}
	return nil
}

// replaceFile writes a file of mode 0600 that is there whole or not at all.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
