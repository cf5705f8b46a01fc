package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/webhook/signature"
)

// Declared is what a configuration file declares: providers, and targets that
// their events are forwarded to.
type Declared struct {
	Providers []Registration
	Forwards  []ForwardTarget
}

// ForwardTarget is a handler of the file: events of one type, or with the empty
// type all those without a handler of their own, are posted to a URL, signed.
type ForwardTarget struct {
	Provider, EventType string
	URL                 string
	SecretEnv           string // the variable with the signing secret
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
	providerYAML struct {
		Name      string        `yaml:"name"`
		SecretEnv string        `yaml:"secret_env"`
		Verifier  verifierYAML  `yaml:"verifier"`
		Extractor extractorYAML `yaml:"extractor"`
		BodyLimit string        `yaml:"body_limit"`
	}
	verifierYAML struct {
		Type   string `yaml:"type"`
		Header string `yaml:"header"`
	}
	extractorYAML struct {
		Type      string `yaml:"type"`
		TypeField string `yaml:"type_field"`
		IDField   string `yaml:"id_field"`
	}
	handlerYAML struct {
		Provider string `yaml:"provider"`
		Event    string `yaml:"event"`
		Forward  struct {
			URL       string `yaml:"url"`
			SecretEnv string `yaml:"secret_env"`
		} `yaml:"forward"`
	}
)

// ParseYAML reads the section "webhooks" of a configuration file. Its error names
// each faulty entry by file, line and name, and shows no value that may be a
// secret.
func ParseYAML(file string, data []byte) (Declared, error) {
	var parsed fileYAML
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&parsed); err != nil && !errors.Is(err, io.EOF) {
		return Declared{}, fmt.Errorf("%s: %w", file, readable(err))
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return Declared{}, fmt.Errorf("%s: %w", file, readable(err))
	}
	var declared Declared
	var errs []error
	seen := map[string]bool{}
	providerLines, handlerLines := entryLines(&document, "providers"), entryLines(&document, "handlers")
	for i, p := range parsed.Webhooks.Providers {
		registration, err := p.registration()
		if err == nil {
			err = (&Registry{providers: map[string]Registration{}}).checkProvider(registration)
		}
		if err == nil && seen[p.Name] {
			err = errors.New("registered twice")
		}
		seen[p.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: webhook provider %q: %w", file, providerLines(i), p.Name, err))
			continue
		}
		declared.Providers = append(declared.Providers, registration)
	}
	for i, h := range parsed.Webhooks.Handlers {
		target := ForwardTarget{Provider: h.Provider, EventType: h.Event, URL: h.Forward.URL, SecretEnv: h.Forward.SecretEnv}
		if err := target.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: webhook handler of provider %q, event %q: %w", file, handlerLines(i), h.Provider, h.Event, err))
			continue
		}
		declared.Forwards = append(declared.Forwards, target)
	}
	return declared, errors.Join(errs...)
}

func (p providerYAML) registration() (Registration, error) {
	verifier, err := p.Verifier.verifier()
	if err != nil {
		return Registration{}, err
	}
	extractor, err := p.Extractor.extractor()
	if err != nil {
		return Registration{}, err
	}
	limit, err := parseSize(p.BodyLimit)
	if err != nil {
		return Registration{}, err
	}
	return Registration{Name: p.Name, SecretEnv: p.SecretEnv, Verifier: verifier, Extractor: extractor, BodyLimit: limit}, nil
}

func (v verifierYAML) verifier() (Verifier, error) {
	switch v.Type {
	case "hmac":
		return signature.HMAC{Header: v.Header}, nil
	case "timestamped-hmac":
		s := Payment().Verifier.(signature.Timestamped)
		if v.Header != "" {
			s.Header = v.Header
		}
		return s, nil
	case "code-host":
		s := CodeHost().Verifier.(signature.HMAC)
		if v.Header != "" {
			s.Header = v.Header
		}
		return s, nil
	case "standard-webhooks":
		if v.Header != "" {
			return nil, errors.New("verifier: standard-webhooks has fixed headers; leave header out")
		}
		return signature.Standard{}, nil
	}
	return nil, errors.New("verifier: its type is not one of hmac, timestamped-hmac, code-host, standard-webhooks")
}

func (e extractorYAML) extractor() (Extractor, error) {
	if e.Type != "json" && (e.TypeField != "" || e.IDField != "") {
		return nil, errors.New("extractor: only json takes type_field and id_field")
	}
	switch e.Type {
	case "json":
		return BodyFields{Type: e.TypeField, ID: e.IDField}, nil
	case "payment":
		return Payment().Extractor, nil
	case "code-host":
		return CodeHost().Extractor, nil
	case "standard-webhooks":
		return StandardFields{}, nil
	}
	return nil, errors.New("extractor: its type is not one of json, payment, code-host, standard-webhooks")
}

// check leaves the provider's existence to the registry, which knows them all.
func (t ForwardTarget) check() error {
	u, err := url.Parse(t.URL)
	switch {
	case t.URL == "":
		return errors.New("forward: no url")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("forward: its url is not an absolute http(s) URL")
	case u.User != nil:
		return errors.New("forward: its url holds a user; leave it out, since deliveries are signed instead")
	case t.SecretEnv == "":
		return errors.New("forward: no secret_env, the name of the variable with the signing secret")
	case !variableName.MatchString(t.SecretEnv) || strings.HasPrefix(strings.ToLower(t.SecretEnv), "whsec_"):
		return errors.New("forward: its secret_env is not a valid name of an environment variable")
	}
	return nil
}

var size = regexp.MustCompile(`^([0-9]{1,12}) ?(|B|kB|KB|KiB|MB|MiB)$`)

var units = map[string]int64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20}

// parseSize reads a number of bytes with its unit; nothing is 0, the default.
func parseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	m := size.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("body_limit: write a number of bytes, or one with a unit: 512KiB, 1MiB, 2MB")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n == 0 || n > maxBodyLimit/units[m[2]] {
		return 0, fmt.Errorf("body_limit: it is 1 to %d bytes", maxBodyLimit)
	}
	return n * units[m[2]], nil
}

// entryLines tells the line of the ith entry of a list in the section "webhooks".
func entryLines(document *yaml.Node, list string) func(i int) int {
	node := document
	if len(document.Content) > 0 {
		node = document.Content[0]
	}
	for _, name := range []string{"webhooks", list} {
		node = child(node, name)
	}
	return func(i int) int {
		if i >= len(node.Content) {
			return node.Line
		}
		return node.Content[i].Line
	}
}

// child returns a mapping's value of that name, an empty node when it has none.
func child(mapping *yaml.Node, name string) *yaml.Node {
	if mapping.Kind == yaml.AliasNode {
		mapping = mapping.Alias
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			if v := mapping.Content[i+1]; v.Kind != yaml.AliasNode {
				return v
			}
			return mapping.Content[i+1].Alias
		}
	}
	return &yaml.Node{}
}

var (
	goType = regexp.MustCompile(` (in type|into) \S+`)
	quoted = regexp.MustCompile("(?s) `.*?`")
)

// readable takes Go's types and the file's values out of the library's messages.
func readable(err error) error {
	text := goType.ReplaceAllString(quoted.ReplaceAllString(err.Error(), ""), "")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n  ", "")
	text = strings.NewReplacer("not found", "is unknown", "cannot unmarshal !!", "the wrong kind of value: ").Replace(text)
	return errors.New(text)
}
