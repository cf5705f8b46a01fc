package aigateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/identity"
)

// The section of the file, in its own words.
type (
	fileYAML struct {
		AI struct {
			Upstreams []upstreamYAML `yaml:"upstreams"`
			Models    []modelYAML    `yaml:"models"`
			Limits    limitsYAML     `yaml:"limits"`
		} `yaml:"ai"`
		// Sections of other readers.
		Rest map[string]yaml.Node `yaml:",inline"`
	}
	upstreamYAML struct {
		Name         string `yaml:"name"`
		Kind         string `yaml:"kind"`
		BaseURL      string `yaml:"base_url"`
		KeyEnv       string `yaml:"key_env"`
		AllowPrivate bool   `yaml:"allow_private"`
	}
	modelYAML struct {
		Name      string       `yaml:"name"`
		Targets   []targetYAML `yaml:"targets"`
		Price     *priceYAML   `yaml:"price"`
		Roles     []string     `yaml:"roles"`
		MaxOutput *int64       `yaml:"max_output"`
	}
	targetYAML struct {
		Upstream string     `yaml:"upstream"`
		Model    string     `yaml:"model"`
		Price    *priceYAML `yaml:"price"`
		Roles    []string   `yaml:"roles"`
	}
	priceYAML struct {
		Input  yaml.Node `yaml:"input"`
		Output yaml.Node `yaml:"output"`
	}
	limitsYAML struct {
		RPM     *int64    `yaml:"rpm"`
		TPM     *int64    `yaml:"tpm"`
		Budget  yaml.Node `yaml:"budget"`
		Period  string    `yaml:"period"`
		Timeout string    `yaml:"timeout"`
	}
)

// ParseYAML reads the section "ai" of a configuration file; without one there are no
// models. Its error names each faulty entry by file, line and name, says what to write,
// and shows no value that may be a secret.
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
	for i, y := range parsed.AI.Upstreams {
		u, err := y.upstream()
		if _, twice := declared.upstream(y.Name); err == nil && twice {
			err = errors.New("there is another of that name")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: ai upstream %q: %w", file, lines("ai", "upstreams", i), y.Name, err))
		}
		declared.Upstreams = append(declared.Upstreams, u)
	}
	for i, y := range parsed.AI.Models {
		m, err := y.model(declared)
		if err == nil && slices.ContainsFunc(declared.Models, func(other Model) bool { return other.Name == m.Name }) {
			err = errors.New("there is another of that name")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: ai model %q: %w", file, lines("ai", "models", i), y.Name, err))
		}
		declared.Models = append(declared.Models, m)
	}
	if declared.Limits, err = parsed.AI.Limits.limits(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: ai limits: %w", file, lines("ai", "limits"), err))
	}
	if err := errors.Join(errs...); err != nil {
		return Declared{}, err
	}
	return declared, nil
}

var (
	upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// modelName is a name that clients write, and that paths can hold.
	modelName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (y upstreamYAML) upstream() (Upstream, error) {
	u := Upstream{Name: y.Name, Kind: Kind(y.Kind), BaseURL: strings.TrimRight(y.BaseURL, "/"), KeyEnv: y.KeyEnv, AllowPrivate: y.AllowPrivate}
	address, err := url.Parse(y.BaseURL)
	switch {
	case !upstreamName.MatchString(y.Name):
		return u, errors.New("name: write 1 to 64 letters, digits, dots, hyphens and underscores")
	case u.Kind != OpenAI && u.Kind != Anthropic:
		return u, errors.New("kind: write openai or anthropic")
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return u, errors.New("base_url: write an absolute http(s) URL, such as https://api.example.com/v1")
	case address.User != nil:
		return u, errors.New("base_url: it holds a user; write the name of a variable with the key into key_env")
	case address.RawQuery != "" || address.Fragment != "":
		return u, errors.New("base_url: leave out what is after the path")
	case y.KeyEnv != "" && !variableName.MatchString(y.KeyEnv):
		return u, errors.New("key_env: write the name of the environment variable that has the key, not the key")
	}
	return u, nil
}

func (y modelYAML) model(d Declared) (Model, error) {
	m := Model{Name: y.Name, MaxOutput: defaultMaxOutput}
	if !modelName.MatchString(y.Name) {
		return m, errors.New("name: write 1 to 128 letters, digits and .:@/+-_, beginning with a letter or a digit")
	}
	if y.MaxOutput != nil {
		m.MaxOutput = *y.MaxOutput
	}
	if m.MaxOutput < 1 || m.MaxOutput > 10_000_000 {
		return m, errors.New("max_output: write how many tokens an answer may have, 1 to 10000000")
	}
	if y.Price == nil {
		return m, errors.New("price: write what a million tokens cost, such as {input: 0.15, output: 0.60}, or zeros")
	}
	price, err := y.Price.price()
	if err != nil {
		return m, err
	}
	if m.Roles, err = rolesOf(y.Roles); err != nil {
		return m, err
	}
	if len(m.Roles) == 0 {
		m.Roles = identity.Roles()
	}
	if len(y.Targets) == 0 {
		return m, errors.New("targets: write at least one, such as {upstream: main, model: small-1}")
	}
	for i, t := range y.Targets {
		target, err := t.target(d, m, price)
		if err != nil {
			return m, fmt.Errorf("target %d: %w", i+1, err)
		}
		m.Targets = append(m.Targets, target)
	}
	return m, nil
}

func (y targetYAML) target(d Declared, m Model, price Price) (Target, error) {
	t := Target{Upstream: y.Upstream, Model: y.Model, Price: price, Roles: m.Roles}
	if _, ok := d.upstream(y.Upstream); !ok {
		return t, fmt.Errorf("upstream: there is none of the name %q", y.Upstream)
	}
	if y.Model == "" || len(y.Model) > 256 {
		return t, errors.New("model: write its name at the upstream")
	}
	var err error
	if y.Price != nil {
		if t.Price, err = y.Price.price(); err != nil {
			return t, err
		}
	}
	own, err := rolesOf(y.Roles)
	if len(own) > 0 {
		t.Roles = own
	}
	return t, err
}

func rolesOf(names []string) ([]identity.Role, error) {
	var list []identity.Role
	for _, n := range names {
		if !identity.Role(n).Valid() {
			return nil, fmt.Errorf("roles: %q is not one of USER, EDITOR, ADMIN", n)
		}
		list = append(list, identity.Role(n))
	}
	return list, nil
}

func (y priceYAML) price() (Price, error) {
	var p Price
	for _, part := range []struct {
		name string
		node yaml.Node
		to   *Money
	}{{"input", y.Input, &p.Input}, {"output", y.Output, &p.Output}} {
		m, err := parseMoney(cmp.Or(part.node.Value, "0"), 6)
		if err != nil || part.node.Kind != 0 && part.node.Kind != yaml.ScalarNode || m > maxPrice*one {
			return p, fmt.Errorf("price: %s: write what a million tokens cost, 0 to %d with at most 6 decimals", part.name, maxPrice)
		}
		*part.to = m / 1_000_000
	}
	return p, nil
}

func (y limitsYAML) limits() (Limits, error) {
	l := DefaultLimits()
	if y.RPM != nil {
		if *y.RPM < 1 || *y.RPM > 1_000_000 {
			return l, errors.New("rpm: write how many calls an account may make a minute, 1 to 1000000")
		}
		l.RPM = int32(*y.RPM)
	}
	if y.TPM != nil {
		if *y.TPM < 1 || *y.TPM > 1_000_000_000_000 {
			return l, errors.New("tpm: write how many tokens an account may use a minute, 1 to 1000000000000")
		}
		l.TPM = *y.TPM
	}
	if y.Budget.Kind != 0 {
		var err error
		if l.Budget, err = parseMoney(y.Budget.Value, 6); err != nil || y.Budget.Kind != yaml.ScalarNode {
			return l, errors.New("budget: write an amount of 0 to 1000000 with at most 6 decimals, such as 5.00")
		}
	}
	if y.Period != "" {
		if l.Period = Period(y.Period); !slices.Contains([]Period{Day, Week, Month}, l.Period) {
			return l, errors.New("period: write day, week or month")
		}
	}
	if y.Timeout != "" {
		d, err := time.ParseDuration(y.Timeout)
		if err != nil || d < time.Millisecond || d > time.Hour {
			return l, errors.New("timeout: write a time of up to an hour, such as 60s")
		}
		l.Timeout = d
	}
	return l, nil
}
