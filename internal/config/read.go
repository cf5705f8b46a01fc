package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/caarlos0/env/v11"
)

const prefix = "WAYPOST_"

// maxShutdownDelay is the longest WAYPOST_SHUTDOWN_DELAY.
const maxShutdownDelay = 5 * time.Minute

// maxRefreshGrace is the longest WAYPOST_REFRESH_GRACE.
const maxRefreshGrace = 10 * time.Second

// Setting is one line of `waypost help config`.
type Setting struct {
	Variable string
	Flag     string // "" for what belongs in the environment only
	For      string // "server", "database" or "import", several with commas: the commands that take the flag
	Switch   bool   // true or false: the flag alone means true
	Default  string
	Help     string
}

// Settings lists every setting in the order of the struct.
func Settings() []Setting { return settingsOf(reflect.TypeFor[Config]()) }

func settingsOf(t reflect.Type) []Setting {
	var list []Setting
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		if f.Type.Kind() == reflect.Struct && f.Tag.Get("env") == "" {
			list = append(list, settingsOf(f.Type)...)
			continue
		}
		list = append(list, Setting{
			Variable: f.Tag.Get("env"), Flag: f.Tag.Get("flag"), For: f.Tag.Get("for"),
			Default: f.Tag.Get("envDefault"), Help: f.Tag.Get("help"), Switch: f.Type.Kind() == reflect.Bool,
		})
	}
	return list
}

// Read makes a Config of environ ("NAME=value" each, as os.Environ gives) and of
// flags, which map a variable's name to the value given on the command line and
// win. An unknown WAYPOST_ variable is an error that names the nearest known one.
func Read(environ []string, flags map[string]string) (Config, error) {
	values := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && value != "" {
			values[name] = value
		}
	}
	if err := checkNames(values); err != nil {
		return Config{}, err
	}
	for name, value := range flags {
		values[name] = value
	}
	c := Config{dataDirGiven: values["WAYPOST_DATA_DIR"] != ""}
	err := env.ParseWithOptions(&c, env.Options{
		Environment: values,
		FuncMap: map[reflect.Type]env.ParserFunc{
			reflect.TypeFor[[]netip.Prefix](): parsePrefixes, reflect.TypeFor[bool](): parseSwitch, reflect.TypeFor[time.Duration](): parseDuration,
		},
	})
	if err != nil {
		return Config{}, readable(err)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	var errs []error
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		errs = append(errs, fmt.Errorf("WAYPOST_LOG_LEVEL: %q is not one of debug, info, warn, error", c.LogLevel))
	}
	if !slices.Contains([]string{"", "json", "text"}, c.LogFormat) {
		errs = append(errs, fmt.Errorf("WAYPOST_LOG_FORMAT: %q is neither json nor text", c.LogFormat))
	}
	if !slices.Contains([]string{"primary", "alternate"}, c.Docs.UI) {
		errs = append(errs, fmt.Errorf("WAYPOST_DOCS_UI: %q is neither primary nor alternate", c.Docs.UI))
	}
	if !slices.Contains([]string{"on", "off"}, c.MCP) {
		errs = append(errs, fmt.Errorf("WAYPOST_MCP: %q is neither on nor off", c.MCP))
	}
	if c.RequestTimeout <= 0 {
		errs = append(errs, errors.New("WAYPOST_REQUEST_TIMEOUT must be positive"))
	}
	if c.ShutdownDelay != nil && (*c.ShutdownDelay < 0 || *c.ShutdownDelay > maxShutdownDelay) {
		errs = append(errs, fmt.Errorf("WAYPOST_SHUTDOWN_DELAY must be 0s to %s", maxShutdownDelay))
	}
	if c.ShutdownTimeout <= 0 {
		errs = append(errs, errors.New("WAYPOST_SHUTDOWN_TIMEOUT must be positive"))
	}
	for name, rate := range map[string]int{"WAYPOST_KEY_RATE": c.KeyRate, "WAYPOST_SITE_RATE": c.SiteRate, "WAYPOST_ADDRESS_RATE": c.AddressRate} {
		if rate < 0 {
			errs = append(errs, fmt.Errorf("%s can't be negative", name))
		}
	}
	if c.Webhooks.RetentionDays < 0 || c.Webhooks.RetentionDays > 36500 {
		errs = append(errs, errors.New("WAYPOST_WEBHOOK_RETENTION_DAYS must be 0 to 36500"))
	}
	if c.Webhooks.LedgerDays < 0 || c.Webhooks.LedgerDays > 36500 {
		errs = append(errs, errors.New("WAYPOST_WEBHOOK_LEDGER_DAYS must be 0 to 36500"))
	}
	if c.Statistics.RetentionMonths < 0 || c.Statistics.RetentionMonths > 1200 {
		errs = append(errs, errors.New("WAYPOST_STATS_RETENTION_MONTHS must be 0 to 1200"))
	}
	if c.Statistics.ImportSecretDays < 0 || c.Statistics.ImportSecretDays > 36500 {
		errs = append(errs, errors.New("WAYPOST_IMPORT_SECRET_DAYS must be 0 to 36500"))
	}
	if c.Audit.RetentionDays < 0 || c.Audit.RetentionDays > 36500 {
		errs = append(errs, errors.New("WAYPOST_AUDIT_RETENTION_DAYS must be 0 to 36500"))
	}
	if c.Pages.SessionMax < time.Minute || c.Pages.SessionIdle < time.Minute || c.Pages.SessionIdle > c.Pages.SessionMax {
		errs = append(errs, errors.New("WAYPOST_PAGES_SESSION_IDLE and WAYPOST_PAGES_SESSION_MAX must be 1m or more, the former at most the latter"))
	}
	if c.Accounts.RefreshGrace < 0 || c.Accounts.RefreshGrace > maxRefreshGrace {
		errs = append(errs, fmt.Errorf("WAYPOST_REFRESH_GRACE must be from 0s to %s", maxRefreshGrace))
	}
	if c.StatsTimeout <= 0 {
		errs = append(errs, errors.New("WAYPOST_STATS_TIMEOUT must be positive"))
	}
	if c.MaxConns < 1 {
		errs = append(errs, errors.New("WAYPOST_DATABASE_MAX_CONNS must be positive"))
	}
	if c.DatabaseDirectURL != "" && !c.DatabasePooled {
		errs = append(errs, errors.New("WAYPOST_DATABASE_DIRECT_URL leads past a pooler: set WAYPOST_DATABASE_POOLED=true as well, or leave both out"))
	}
	return errors.Join(append(errs, c.Telemetry.validate(), c.Webhooks.validate(), c.OAuth.validate(), c.Mail.validate(), c.Uploads.validate())...)
}

func (w Webhooks) validate() error {
	if w.BodyMemory < 0 || w.BodyMemory > 1<<20 {
		return errors.New("WAYPOST_WEBHOOK_BODY_MEMORY must be 0 to 1048576 MiB")
	}
	if w.AlertStreak < 1 {
		return errors.New("WAYPOST_WEBHOOK_ALERT_STREAK must be 1 or more")
	}
	if w.AlertURL == "" {
		return nil
	}
	if u, err := url.Parse(w.AlertURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("WAYPOST_WEBHOOK_ALERT_URL is not an absolute http(s) URL")
	}
	key := strings.TrimRight(strings.TrimPrefix(w.AlertSecret, "whsec_"), "=")
	if _, err := base64.RawStdEncoding.DecodeString(key); err != nil || key == "" {
		return errors.New("WAYPOST_WEBHOOK_ALERT_SECRET must be a key in base64 when WAYPOST_WEBHOOK_ALERT_URL is set, such as the output of `openssl rand -base64 32`")
	}
	return nil
}

// parsePrefixes reads ranges separated by commas; a bare address is a range of one.
func parsePrefixes(list string) (any, error) {
	var prefixes []netip.Prefix
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if a, err := netip.ParseAddr(s); err == nil {
			prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a CIDR range", s)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// parseSwitch reads what is on or off.
func parseSwitch(s string) (any, error) {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return nil, fmt.Errorf("%q is neither true nor false", s)
	}
	return on, nil
}

// parseDuration reads a length of time.
func parseDuration(s string) (any, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no length of time such as 500ms, 30s or 2h", s)
	}
	return d, nil
}

// checkNames catches a misspelt variable, which would otherwise be ignored.
func checkNames(values map[string]string) error {
	var known, unknown []string
	for _, s := range Settings() {
		known = append(known, s.Variable)
	}
	for name := range values {
		if strings.HasPrefix(name, prefix) && !slices.Contains(known, name) && !injected(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	var errs []error
	for _, name := range unknown {
		nearest := slices.MinFunc(known, func(a, b string) int {
			return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
		})
		errs = append(errs, fmt.Errorf("unknown variable %s; did you mean %s? `waypost help config` lists all", name, nearest))
	}
	return errors.Join(errs...)
}

// injected tells the variables that container orchestrators set for a service that is
// called waypost, in the form of Docker's links: WAYPOST_PORT, WAYPOST_PORT_8080_TCP_ADDR,
// WAYPOST_SERVICE_HOST, WAYPOST_SERVICE_PORT_HTTP.
func injected(name string) bool {
	return name == prefix+"PORT" || strings.HasPrefix(name, prefix+"PORT_") || strings.HasPrefix(name, prefix+"SERVICE_")
}

// readable names the variable where the library names the struct's field.
func readable(err error) error {
	aggregate, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return err
	}
	var errs []error
	for _, e := range aggregate.Errors {
		p, ok := errors.AsType[env.ParseError](e)
		if !ok {
			errs = append(errs, e)
			continue
		}
		name := p.Name
		for _, t := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Telemetry](), reflect.TypeFor[Docs](), reflect.TypeFor[Accounts](), reflect.TypeFor[OAuth](), reflect.TypeFor[Mail](), reflect.TypeFor[Webhooks](), reflect.TypeFor[Uploads](), reflect.TypeFor[Dev]()} {
			if f, ok := t.FieldByName(p.Name); ok {
				name = f.Tag.Get("env")
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, p.Err))
	}
	return errors.Join(errs...)
}
