// Package config reads and validates configuration: environment variables, and
// the flags that mirror them. Nothing else reads the environment, except for the
// webhook secrets, which are looked up at the moment a delivery arrives.
package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config is every setting. A field's tags are its documentation: the variable,
// the flag (none for secrets, which would show in the process list), the
// default and the meaning.
type Config struct {
	Addr            string         `env:"WAYPOST_ADDR" flag:"addr" for:"server" envDefault:"127.0.0.1:8080" help:"Address to listen on; port 0 picks a free one"`
	URL             string         `env:"WAYPOST_URL" flag:"url" for:"server" help:"The service's public URL, used in links, tokens and the API description; required by serve, made from the address by dev"`
	TrustedProxies  []netip.Prefix `env:"WAYPOST_TRUSTED_PROXIES" flag:"trusted-proxies" for:"server" help:"Proxies (addresses or CIDR ranges, separated by commas) whose X-Forwarded-For is believed"`
	RequestTimeout  time.Duration  `env:"WAYPOST_REQUEST_TIMEOUT" flag:"request-timeout" for:"server" envDefault:"30s" help:"Longest time that one request may take"`
	ShutdownTimeout time.Duration  `env:"WAYPOST_SHUTDOWN_TIMEOUT" flag:"shutdown-timeout" for:"server" envDefault:"20s" help:"Longest wait for requests and jobs in flight when stopping"`
	HonorDoNotTrack bool           `env:"WAYPOST_HONOR_DNT" flag:"honor-dnt" for:"server" envDefault:"true" help:"Count nothing for visitors who send DNT: 1 or Sec-GPC: 1"`
	LogLevel        string         `env:"WAYPOST_LOG_LEVEL" flag:"log-level" for:"server" envDefault:"info" help:"debug, info, warn or error"`
	LogFormat       string         `env:"WAYPOST_LOG_FORMAT" flag:"log-format" for:"server" help:"json or text; by default text in dev and json elsewhere"`

	DatabaseURL      string `env:"DATABASE_URL" help:"PostgreSQL connection string; without it dev and --data-dir use a private server"`
	DatabaseOwnerURL string `env:"WAYPOST_DATABASE_OWNER_URL" help:"Connection string of the database's owner, for migrations; default DATABASE_URL"`
	MaxConns         int32  `env:"WAYPOST_DATABASE_MAX_CONNS" flag:"database-max-conns" for:"server" envDefault:"16" help:"Largest number of database connections"`
	DataDir          string `env:"WAYPOST_DATA_DIR" flag:"data-dir" for:"database" envDefault:".waypost" help:"Where dev keeps its private PostgreSQL and dev.env; other commands attach to it there"`
	PostgresBin      string `env:"WAYPOST_POSTGRES_BIN" flag:"postgres-bin" for:"database" help:"Directory of PostgreSQL's programs for the private server; found by itself when unset"`

	SecretKey         string `env:"WAYPOST_SECRET_KEY" help:"32 bytes or more that wrap signing keys; required by serve"`
	SecretKeyPrevious string `env:"WAYPOST_SECRET_KEY_PREVIOUS" help:"The former secret key, which still unwraps while keys are rotated"`

	Dev Dev
}

// Dev is what dev seeds; a value that is set wins over one that dev makes up.
type Dev struct {
	AdminEmail     string `env:"WAYPOST_ADMIN_EMAIL" help:"dev: the seeded ADMIN's e-mail address"`
	AdminPassword  string `env:"WAYPOST_ADMIN_PASSWORD" help:"dev: the seeded ADMIN's password"`
	SiteKey        string `env:"ANALYTICS_SITE_KEY" help:"dev: the demo site's public key"`
	APIKey         string `env:"ANALYTICS_API_KEY" help:"dev: the demo site's secret reading key"`
	PaymentSecret  string `env:"PAYMENT_WEBHOOK_SECRET" help:"Secret of the webhook provider payment; PAYMENT_WEBHOOK_SECRET_PREVIOUS is accepted too"`
	CodehostSecret string `env:"CODEHOST_WEBHOOK_SECRET" help:"Secret of the webhook provider codehost; CODEHOST_WEBHOOK_SECRET_PREVIOUS is accepted too"`
}

// minSecretKey is the least length of WAYPOST_SECRET_KEY in bytes.
const minSecretKey = 32

// ServeErrors lists what serve lacks, one sentence per variable, each naming it.
func (c Config) ServeErrors() []string {
	var missing []string
	if c.DatabaseURL == "" {
		missing = append(missing, "DATABASE_URL is not set: give PostgreSQL's connection string, such as postgres://waypost@db.internal/waypost")
	}
	switch u, err := url.Parse(c.URL); {
	case c.URL == "":
		missing = append(missing, "WAYPOST_URL is not set: give the public URL of this service, such as https://api.example.com")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		missing = append(missing, "WAYPOST_URL is not an absolute http(s) URL")
	}
	switch {
	case c.SecretKey == "":
		missing = append(missing, "WAYPOST_SECRET_KEY is not set: give 32 random bytes or more, such as the output of `openssl rand -base64 48`")
	case len(c.SecretKey) < minSecretKey:
		missing = append(missing, fmt.Sprintf("WAYPOST_SECRET_KEY is weak: %d bytes, where %d or more are needed; `openssl rand -base64 48` makes one", len(c.SecretKey), minSecretKey))
	case strings.Count(c.SecretKey, c.SecretKey[:1]) == len(c.SecretKey):
		missing = append(missing, "WAYPOST_SECRET_KEY is weak: it repeats one character; `openssl rand -base64 48` makes one")
	}
	if c.SecretKeyPrevious != "" && len(c.SecretKeyPrevious) < minSecretKey {
		missing = append(missing, "WAYPOST_SECRET_KEY_PREVIOUS is shorter than any key that was ever accepted")
	}
	return missing
}

// OwnerURL is the connection string for migrations.
func (c Config) OwnerURL() string {
	if c.DatabaseOwnerURL != "" {
		return c.DatabaseOwnerURL
	}
	return c.DatabaseURL
}
