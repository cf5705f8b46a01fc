// Package config reads and validates configuration: environment variables, and
// the flags that mirror them. Nothing else reads the environment, except for the
// webhook secrets, which are looked up at the moment a delivery arrives.
package config

import (
	"cmp"
	"net/netip"
	"net/url"
	"time"
)

// Config is every setting. A field's tags are its documentation: the variable,
// the flag (none for secrets, which would show in the process list), the
// default and the meaning.
type Config struct {
	Addr            string         `env:"WAYPOST_ADDR" flag:"addr" for:"server" envDefault:"127.0.0.1:8080" help:"Address to listen on; port 0 picks a free one"`
	URL             string         `env:"WAYPOST_URL" flag:"url" for:"server" help:"The service's public URL, used in links, tokens and the API description; required by serve; dev makes it from the address"`
	TrustedProxies  []netip.Prefix `env:"WAYPOST_TRUSTED_PROXIES" flag:"trusted-proxies" for:"server" help:"Proxies (addresses or CIDR ranges, separated by commas) whose X-Forwarded-For is believed"`
	RequestTimeout  time.Duration  `env:"WAYPOST_REQUEST_TIMEOUT" flag:"request-timeout" for:"server" envDefault:"30s" help:"Longest time that one request may take"`
	ShutdownTimeout time.Duration  `env:"WAYPOST_SHUTDOWN_TIMEOUT" flag:"shutdown-timeout" for:"server" envDefault:"20s" help:"Longest wait for requests and jobs in flight when stopping"`
	ShutdownDelay   *time.Duration `env:"WAYPOST_SHUTDOWN_DELAY" flag:"shutdown-delay" for:"server" help:"How long, when stopping, requests are still taken while readiness answers 503, so that proxies look elsewhere first; 5s for serve, 0s for dev"`
	HonorDoNotTrack bool           `env:"WAYPOST_HONOR_DNT" flag:"honor-dnt" for:"server" envDefault:"true" help:"Count nothing for visitors who send DNT: 1 or Sec-GPC: 1"`
	GeoIPDatabase   string         `env:"WAYPOST_GEOIP_DATABASE" flag:"geoip-database" for:"server,import" help:"Country database in MaxMind's format (.mmdb); without one visitors have no country"`
	StatsTimeout    time.Duration  `env:"WAYPOST_STATS_TIMEOUT" flag:"stats-timeout" for:"server" envDefault:"25s" help:"Longest time that one statistics query may take; at most five sixths of the request timeout"`
	KeyRate         int            `env:"WAYPOST_KEY_RATE" flag:"key-rate" for:"server" envDefault:"12000" help:"Requests per minute with one of a site's secret keys; 0 means no limit"`
	SiteRate        int            `env:"WAYPOST_SITE_RATE" flag:"site-rate" for:"server" envDefault:"600000" help:"Hits per minute that the pages of one site may report; 0 means no limit"`
	AddressRate     int            `env:"WAYPOST_ADDRESS_RATE" flag:"address-rate" for:"server" envDefault:"12000" help:"Hits per minute that may come from one network address; 0 means no limit"`
	MCP             string         `env:"WAYPOST_MCP" flag:"mcp" for:"server" envDefault:"on" help:"on or off: whether assistants are offered the operations as tools, at /mcp"`
	LogLevel        string         `env:"WAYPOST_LOG_LEVEL" flag:"log-level" for:"server" envDefault:"info" help:"debug, info, warn or error"`
	LogFormat       string         `env:"WAYPOST_LOG_FORMAT" flag:"log-format" for:"server" help:"json or text; by default text in dev and json elsewhere"`

	DatabaseURL       string `env:"DATABASE_URL" help:"PostgreSQL connection string; without it dev creates a private server in the data directory, and other commands use that server"`
	DatabaseOwnerURL  string `env:"WAYPOST_DATABASE_OWNER_URL" help:"Connection string of the database's owner, for migrations; default WAYPOST_DATABASE_DIRECT_URL, or DATABASE_URL"`
	DatabaseViewerURL string `env:"WAYPOST_DATABASE_VIEWER_URL" help:"Connection string of the role waypost_viewer, for the console of the database page; without it the page shows how to turn the console on, and dev uses a role of its own"`
	MaxConns          int32  `env:"WAYPOST_DATABASE_MAX_CONNS" flag:"database-max-conns" for:"server" envDefault:"26" help:"Maximum number of database connections of this process, 12 or more, 13 with the database console; they are divided among deliveries, collection, statistics that read events, jobs, the audit log and everything else"`
	DatabasePooled    bool   `env:"WAYPOST_DATABASE_POOLED" flag:"database-pooled" for:"server,database" help:"DATABASE_URL leads through a connection pooler, such as PgBouncer in transaction mode: nothing is left to a session"`
	DatabaseDirectURL string `env:"WAYPOST_DATABASE_DIRECT_URL" help:"Connection string past the pooler, for jobs, which listen for new ones, and for migrations without WAYPOST_DATABASE_OWNER_URL; without it processes look for jobs once a second"`
	DataDir           string `env:"WAYPOST_DATA_DIR" flag:"data-dir" for:"database" envDefault:".waypost" help:"Where dev keeps its private PostgreSQL and dev.env; other commands work on the database there, and take this or DATABASE_URL, not both"`
	PostgresBin       string `env:"WAYPOST_POSTGRES_BIN" flag:"postgres-bin" for:"database" help:"Directory of PostgreSQL's programs for the private server; dev finds it by itself when unset"`

	SecretKey         string `env:"WAYPOST_SECRET_KEY" help:"Secret of 32 bytes or more that encrypts the signing keys, two-factor secrets, the links of mails that wait, and the salts and import secrets of statistics; required by serve, and by import"`
	SecretKeyPrevious string `env:"WAYPOST_SECRET_KEY_PREVIOUS" help:"The former secret key, which can still decrypt while you change WAYPOST_SECRET_KEY"`

	ConfigFile string `env:"WAYPOST_CONFIG" flag:"config" for:"server" help:"YAML file that declares webhook providers and handlers, and the language models of the AI gateway"`

	Telemetry  Telemetry
	Accounts   Accounts
	Pages      Pages
	OAuth      OAuth
	Mail       Mail
	Webhooks   Webhooks
	Statistics Statistics
	Uploads    Uploads
	Audit      Audit
	Docs       Docs
	Dev        Dev

	dataDirGiven bool
}

// DataDirGiven reports whether somebody named the data directory, by its flag or
// its variable, so that it is not the default.
func (c Config) DataDirGiven() bool { return c.dataDirGiven }

// Accounts are the settings of sign-in.
type Accounts struct {
	RefreshGrace    time.Duration `env:"WAYPOST_REFRESH_GRACE" flag:"refresh-grace" for:"server" envDefault:"0s" help:"For how long a refresh token may be used a second time, up to 10s, for clients that refresh twice at once; with 0s a second use ends the session"`
	RequireAdmin2FA bool          `env:"WAYPOST_REQUIRE_ADMIN_2FA" flag:"require-admin-2fa" for:"server" help:"Administrators without two-factor authentication can do nothing but set it up"`
}

// Pages are the settings of the operator pages.
type Pages struct {
	SessionMax  time.Duration `env:"WAYPOST_PAGES_SESSION_MAX" flag:"pages-session-max" for:"server" envDefault:"12h" help:"Longest time that a sign-in at the operator pages lasts"`
	SessionIdle time.Duration `env:"WAYPOST_PAGES_SESSION_IDLE" flag:"pages-session-idle" for:"server" envDefault:"30m" help:"A sign-in at the operator pages ends after this time without a request"`
}

// Webhooks are the settings of the memory for deliveries, of the retention of
// events, and of the alert about a provider whose events keep failing.
type Webhooks struct {
	BodyMemory    int           `env:"WAYPOST_WEBHOOK_BODY_MEMORY" flag:"webhook-body-memory" for:"server" envDefault:"0" help:"MiB of memory that webhook bodies may take at any moment; deliveries beyond that are refused with 503; 0 means 64, or twice the largest body_limit if that is more"`
	AlertStreak   int           `env:"WAYPOST_WEBHOOK_ALERT_STREAK" flag:"webhook-alert-streak" for:"server" envDefault:"5" help:"An alert is raised when this many of a provider's newest webhook events in a row have failed"`
	AlertWait     time.Duration `env:"WAYPOST_WEBHOOK_ALERT_WAIT" flag:"webhook-alert-wait" for:"server" envDefault:"1h" help:"An alert is raised when a webhook event has had no outcome for this long; 0s means never"`
	AlertRefused  int           `env:"WAYPOST_WEBHOOK_ALERT_REFUSED" flag:"webhook-alert-refused" for:"server" envDefault:"10" help:"An alert is raised when this many deliveries of a provider, and no other, were refused for their signature; 0 means never"`
	AlertRate     int           `env:"WAYPOST_WEBHOOK_ALERT_RATE" flag:"webhook-alert-rate" for:"server" envDefault:"50" help:"An alert is raised when this many percent of a provider's webhook events of the last hour fail, of 20 or more; 0 means never"`
	AlertURL      string        `env:"WAYPOST_WEBHOOK_ALERT_URL" help:"URL that alerts are posted to, as signed Standard Webhooks deliveries; without it an alert is only a line in the log"`
	RetentionDays int           `env:"WAYPOST_WEBHOOK_RETENTION_DAYS" flag:"webhook-retention-days" for:"server" envDefault:"0" help:"After how many days the payloads, headers and errors of handled webhook events are emptied; the events' rows stay; 0 means never"`
	LedgerDays    int           `env:"WAYPOST_WEBHOOK_LEDGER_DAYS" flag:"webhook-ledger-days" for:"server" envDefault:"0" help:"After how many days the rows of handled webhook events are deleted; a delivery that is repeated later than that is taken as a new one; 0 means never"`
	AlertSecret   string        `env:"WAYPOST_WEBHOOK_ALERT_SECRET" help:"The alert's signing secret: a key in base64, with or without whsec_ before it"`
}

// Statistics are the settings of how long statistics keep what they are made of.
type Statistics struct {
	RetentionMonths  int `env:"WAYPOST_STATS_RETENTION_MONTHS" flag:"stats-retention-months" for:"server" envDefault:"0" help:"For how many months before the current one single visits are kept; what was counted of them stays; a site's retention_months goes before it; 0 means for ever"`
	ImportSecretDays int `env:"WAYPOST_IMPORT_SECRET_DAYS" envDefault:"35" help:"After how many days without an import the secret is destroyed by which a month's imported visitors are recognised; 0 means never"`
}

// Audit are the settings of the audit log.
type Audit struct {
	RetentionDays  int    `env:"WAYPOST_AUDIT_RETENTION_DAYS" flag:"audit-retention-days" for:"server" envDefault:"0" help:"After how many days the contents of audit entries are emptied; the entries and their hashes stay; 0 means never"`
	CheckpointFile string `env:"WAYPOST_AUDIT_CHECKPOINT_FILE" flag:"audit-checkpoint-file" for:"server" help:"File that each signed checkpoint of the audit log is appended to; keep it where the database's owner can't write"`
}

// Docs are the settings of the documentation. What is empty is the API's own.
type Docs struct {
	Prefix          string   `env:"WAYPOST_DOCS_PREFIX" flag:"docs-prefix" for:"server" envDefault:"/docs" help:"URL path of the documentation"`
	Title           string   `env:"WAYPOST_DOCS_TITLE" flag:"docs-title" for:"server" help:"Title in the API description; by default the API's own"`
	Version         string   `env:"WAYPOST_DOCS_VERSION" flag:"docs-version" for:"server" help:"Version in the API description; by default the API's own"`
	Description     string   `env:"WAYPOST_DOCS_DESCRIPTION" flag:"docs-description" for:"server" help:"Introduction in the API description, in Markdown; by default the API's own"`
	UI              string   `env:"WAYPOST_DOCS_UI" flag:"docs-ui" for:"server" envDefault:"primary" help:"Interactive documentation shown by default: primary (Scalar) or alternate (Swagger UI)"`
	Theme           string   `env:"WAYPOST_DOCS_THEME" flag:"docs-theme" for:"server" envDefault:"kepler" help:"Theme of the primary UI"`
	DevMode         bool     `env:"WAYPOST_DOCS_DEV_MODE" flag:"docs-dev-mode" for:"server" help:"Generate the documentation anew for each request"`
	ReadOnly        bool     `env:"WAYPOST_DOCS_READ_ONLY" flag:"docs-read-only" for:"server" help:"Allow no requests to be sent from the interactive documentation"`
	ExcludeRoutes   []string `env:"WAYPOST_DOCS_EXCLUDE_ROUTES" flag:"docs-exclude-routes" for:"server" help:"Globs, separated by commas, of paths that the documentation leaves out: * within a segment, ** across"`
	ExcludePrefixes []string `env:"WAYPOST_DOCS_EXCLUDE_PREFIXES" flag:"docs-exclude-prefixes" for:"server" help:"Prefixes, separated by commas, of paths that the documentation leaves out"`
}

// Dev is what dev seeds; a value that is set wins over one that dev makes up.
type Dev struct {
	AdminEmail    string `env:"WAYPOST_ADMIN_EMAIL" help:"dev: the seeded ADMIN's e-mail address"`
	AdminPassword string `env:"WAYPOST_ADMIN_PASSWORD" help:"dev: the seeded ADMIN's password"`
	SiteKey       string `env:"ANALYTICS_SITE_KEY" help:"dev: the demo site's public key"`
	APIKey        string `env:"ANALYTICS_API_KEY" help:"dev: the demo site's secret reading key"`
}

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
	if problem := secretKeyProblem(c.SecretKey); problem != "" {
		missing = append(missing, problem)
	}
	if c.SecretKeyPrevious != "" && len(c.SecretKeyPrevious) < minSecretKey {
		missing = append(missing, "WAYPOST_SECRET_KEY_PREVIOUS is shorter than any key that was ever accepted")
	}
	return append(missing, c.Uploads.serveErrors()...)
}

// OwnerURL is the connection string for migrations.
func (c Config) OwnerURL() string {
	return cmp.Or(c.DatabaseOwnerURL, c.DatabaseDirectURL, c.DatabaseURL)
}
