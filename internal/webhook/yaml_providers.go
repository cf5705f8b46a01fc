package webhook

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/webhook/signature"
)

// A provider of the file, in its own words. Except for the example, every member is
// text, so that what is not given is empty.
type (
	providerYAML struct {
		Name       string `yaml:"name"`
		SecretEnv  string `yaml:"secret_env"`
		Preset     string `yaml:"preset"`
		presetYAML `yaml:",inline"`
		BodyLimit  string `yaml:"body_limit"`
	}
	// presetYAML is what a preset stands for.
	presetYAML struct {
		Verifier  verifierYAML  `yaml:"verifier"`
		Extractor extractorYAML `yaml:"extractor"`
		Challenge challengeYAML `yaml:"challenge"`
		About     aboutYAML     `yaml:"about"`
	}
	verifierYAML struct {
		Type            string `yaml:"type"`
		Header          string `yaml:"header"`
		Prefix          string `yaml:"prefix"`
		Digest          string `yaml:"digest"`
		Encoding        string `yaml:"encoding"`
		Separator       string `yaml:"separator"`
		Template        string `yaml:"template"`
		TimestampHeader string `yaml:"timestamp_header"`
		TimestampPrefix string `yaml:"timestamp_prefix"`
		TimestampField  string `yaml:"timestamp_field"`
		TimestampUnit   string `yaml:"timestamp_unit"`
		Tolerance       string `yaml:"tolerance"`
		IDHeader        string `yaml:"id_header"`
		Key             string `yaml:"key"`
	}
	extractorYAML struct {
		Type       string `yaml:"type"`
		TypeField  string `yaml:"type_field"`
		IDField    string `yaml:"id_field"`
		TypeHeader string `yaml:"type_header"`
		IDHeader   string `yaml:"id_header"`
	}
	challengeYAML struct {
		Method     string `yaml:"method"`
		Field      string `yaml:"field"`
		TokenField string `yaml:"token_field"`
		TokenEnv   string `yaml:"token_env"`
		IfField    string `yaml:"if_field"`
		IfValue    string `yaml:"if_value"`
	}
	aboutYAML struct {
		Service string `yaml:"service"`
		Event   string `yaml:"event"`
	}
)

// registration is a provider that the registry takes, unless its name is taken.
func (p providerYAML) registration() (Registration, error) {
	parts := p.presetYAML
	if p.Preset != "" {
		preset, ok := presets()[p.Preset]
		if !ok {
			return Registration{}, unknownWord("preset", "it", p.Preset, Presets())
		}
		parts = parts.over(preset)
	}
	verifier, err := parts.Verifier.verifier()
	if err != nil {
		return Registration{}, err
	}
	extractor, err := parts.Extractor.extractor()
	if err != nil {
		return Registration{}, err
	}
	limit, err := parseSize(p.BodyLimit)
	if err != nil {
		return Registration{}, err
	}
	r := Registration{
		Name: p.Name, SecretEnv: p.SecretEnv, Preset: p.Preset, Verifier: verifier, Extractor: extractor, BodyLimit: limit,
		Challenge: Challenge(parts.Challenge), About: parts.About.about(),
	}
	return r, (&Registry{providers: map[string]Registration{}}).checkProvider(r)
}

// unknownWord is the error of a word that is none of those allowed. The word is not
// shown: it may be a secret in the wrong place.
func unknownWord(where, what, word string, allowed []string) error {
	return fmt.Errorf("%s: %s is not one of %s%s", where, what, strings.Join(allowed, ", "), strings.TrimRight("; "+config.Suggest(word, allowed), "; "))
}

// over is p where it says something, and else the preset. A part with a type of its own
// is complete in itself.
func (p presetYAML) over(preset presetYAML) presetYAML {
	if p.Verifier.Type == "" {
		p.Verifier = overlaid(preset.Verifier, p.Verifier)
	}
	if p.Extractor.Type == "" {
		p.Extractor = overlaid(preset.Extractor, p.Extractor)
	}
	if p.Challenge.Method == "" {
		p.Challenge = overlaid(preset.Challenge, p.Challenge)
	}
	p.About = overlaid(preset.About, p.About)
	return p
}

// overlaid is base with the texts of top that are not empty.
func overlaid[T any](base, top T) T {
	to, from := reflect.ValueOf(&base).Elem(), reflect.ValueOf(top)
	for i := range from.NumField() {
		if text := from.Field(i).String(); text != "" {
			to.Field(i).SetString(text)
		}
	}
	return base
}

var verifierTypes = []string{"hmac", "token", "timestamped-hmac", "code-host", "standard-webhooks"}

func (v verifierYAML) verifier() (Verifier, error) {
	only := func(allowed verifierYAML) error {
		if v != allowed {
			return fmt.Errorf("verifier: %s takes no more than %s; hmac takes all the others", v.Type, strings.Join(given(allowed), ", "))
		}
		return nil
	}
	withHeader := verifierYAML{Type: v.Type, Header: v.Header}
	switch v.Type {
	case "hmac":
		s, err := v.scheme()
		return s, err
	case "token":
		allowed := withHeader
		allowed.Prefix = v.Prefix
		return signature.Token{Header: v.Header, Prefix: v.Prefix}, only(allowed)
	case "timestamped-hmac":
		s := Payment().Verifier.(signature.Timestamped)
		if v.Header != "" {
			s.Header = v.Header
		}
		return s, only(withHeader)
	case "code-host":
		s := CodeHost().Verifier.(signature.HMAC)
		if v.Header != "" {
			s.Header = v.Header
		}
		return s, only(withHeader)
	case "standard-webhooks":
		if v != (verifierYAML{Type: v.Type}) {
			return nil, errors.New("verifier: standard-webhooks is complete; leave header out, and all else")
		}
		return signature.Standard{}, nil
	}
	return nil, unknownWord("verifier", "its type", v.Type, verifierTypes)
}

// given lists the members of a verifier that are not empty.
func given(v verifierYAML) []string {
	var names []string
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		if value.Field(i).String() != "" {
			names = append(names, value.Type().Field(i).Tag.Get("yaml"))
		}
	}
	return names
}

// scheme is the general scheme that the members say; Validate has the rest of its rules.
func (v verifierYAML) scheme() (signature.Scheme, error) {
	s := signature.Scheme{
		Header: v.Header, Digest: signature.Digest(v.Digest), Encoding: signature.Encoding(v.Encoding), Prefix: v.Prefix, Separator: v.Separator,
		Template: v.Template, TimestampHeader: v.TimestampHeader, TimestampPrefix: v.TimestampPrefix, TimestampField: v.TimestampField,
		Milliseconds: v.TimestampUnit == "ms", IDHeader: v.IDHeader, Key: signature.Key(v.Key),
	}
	if !slices.Contains([]string{"", "s", "ms"}, v.TimestampUnit) {
		return s, errors.New("verifier: timestamp_unit: it is not one of s, ms")
	}
	if v.Tolerance != "" {
		d, err := time.ParseDuration(v.Tolerance)
		if err != nil || d <= 0 {
			return s, errors.New("verifier: tolerance: write a duration, such as 300s or 5m")
		}
		s.Tolerance = d
	}
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("verifier: %w", err)
	}
	return s, nil
}

var extractorTypes = []string{"json", "headers", "form", "payment", "code-host", "standard-webhooks"}

func (e extractorYAML) extractor() (Extractor, error) {
	f := Fields{TypeField: e.TypeField, IDField: e.IDField, TypeHeader: e.TypeHeader, IDHeader: e.IDHeader, Form: e.Type == "form"}
	alone := e == extractorYAML{Type: e.Type}
	switch e.Type {
	case "json", "form":
		return f, f.Validate()
	case "headers":
		if f.TypeField+f.IDField != "" {
			return nil, errors.New("extractor: headers takes type_header and id_header; json and form also take type_field and id_field")
		}
		return f, f.Validate()
	case "payment", "code-host", "standard-webhooks":
		if !alone {
			return nil, fmt.Errorf("extractor: %s has fixed places; only json, form and headers take type_field, id_field, type_header and id_header", e.Type)
		}
		return map[string]Extractor{"payment": Payment().Extractor, "code-host": CodeHost().Extractor, "standard-webhooks": StandardFields{}}[e.Type], nil
	}
	return nil, unknownWord("extractor", "its type", e.Type, extractorTypes)
}

func (a aboutYAML) about() About {
	about := About{EventType: a.Event}
	if a.Service != "" {
		about.Summary = "An event of " + a.Service
	}
	return about
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
