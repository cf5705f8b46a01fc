package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/demo"
	"github.com/waypost/waypost/internal/webhook"
)

// Names of what dev makes up, in dev.env and in the environment.
const (
	envURL           = "WAYPOST_URL"
	envAdminEmail    = "WAYPOST_ADMIN_EMAIL"
	envAdminPassword = "WAYPOST_ADMIN_PASSWORD"
	envSiteKey       = "ANALYTICS_SITE_KEY"
	envAPIKey        = "ANALYTICS_API_KEY"
	envPSQL          = "PSQL_URL"
	envViewer        = "WAYPOST_DATABASE_VIEWER_URL"
)

// secretKeyFile keeps dev's WAYPOST_SECRET_KEY below the data directory.
const secretKeyFile = "secret.key"

// DevOptions are what dev adds to its configuration. All but Extensions are
// mandatory.
type DevOptions struct {
	// Out receives the table of what to try, Log the log and progress.
	Out, Log io.Writer
	// LookupEnv finds an environment variable, "" when it is not set.
	LookupEnv  func(name string) string
	Extensions Extensions
}

// RunDev runs everything on this machine with demo data until ctx ends.
func RunDev(ctx context.Context, c config.Config, o DevOptions) error {
	if c.LogFormat == "" {
		c.LogFormat = "text"
	}
	var cleanup closers
	err := runDev(ctx, c, o, &cleanup)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // a start that was interrupted on purpose
	}
	return errors.Join(err, cleanup.run())
}

func runDev(ctx context.Context, c config.Config, o DevOptions, cleanup *closers) error {
	logger := NewLogger(c, o.Log)
	l, err := listen(ctx, c.Addr)
	if err != nil {
		return err
	}
	cleanup.add("listener", func() error { return ignoreClosed(l.Close()) })
	observed, err := observe(ctx, c, logger, cleanup)
	if err != nil {
		return err
	}
	if c.URL == "" {
		c.URL = localURL(l)
	}
	if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
		return fmt.Errorf("data directory: %w; give another with --data-dir", err)
	}
	database, err := holdDatabase(ctx, c, logger)
	if err != nil {
		return err
	}
	cleanup.add("private PostgreSQL", database.Close)
	keepKey, err := devSecretKey(&c)
	if err != nil {
		return err
	}
	env, err := readDevEnv(c.DataDir)
	if err != nil {
		return err
	}
	database.exchange(env)
	if err := database.takeForDev(ctx, c); err != nil {
		return err
	}
	if err := keepKey(); err != nil {
		return err
	}
	areas, err := database.connect(ctx, c, logger, observed.statements(), false)
	if err != nil {
		return err
	}
	cleanup.add("connection pools", func() error { areas.Close(); return nil })
	c.DatabaseViewerURL = database.ViewerURL
	if err := inDataDir(&c); err != nil {
		return err
	}
	a, err := New(ctx, Options{
		Config: c, Areas: areas, Logger: logger, ShowMailLinks: true, EchoModel: true, Extensions: o.Extensions, observed: observed,
		LookupSecret: func(name string) string { return cmp.Or(o.LookupEnv(name), env.get(name)) },
		seed: func(ctx context.Context, s *Services, registry *webhook.Registry) error {
			importer, err := newImporter(areas, c, demo.Country)
			if err != nil {
				return err
			}
			used := demo.ServicesUsed{Accounts: s.Accounts, Content: s.Content, Sites: s.Sites, Importer: importer}
			return seed(ctx, c, used, registry.Providers(), env, o)
		},
	})
	if err != nil {
		return err
	}
	cleanup.add("service", a.Close)
	if err := env.write(c.DataDir); err != nil {
		return err
	}
	printTable(o.Out, c, env, database.Name())
	return a.Run(ctx, l)
}

// exchange puts the owner's connection string of the private database into env. It
// gives another, if that has none for the console, the one of an earlier dev, or a new
// one, whose role is made with the migrations where the owner may do that.
func (d *Database) exchange(env *devEnv) {
	env.drop(envPSQL)
	if d.Private() {
		env.set(envPSQL, d.OwnerURL)
	}
	if d.Private() || d.ViewerURL != "" {
		env.drop(envViewer)
		return
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" && u.Path == "" {
		return // keywords and values; the page says how to turn the console on
	}
	u.User = url.UserPassword(db.ViewerRole, rand.Text())
	if kept, err := url.Parse(env.get(envViewer)); err == nil && kept.Host == u.Host && kept.Path == u.Path && kept.RawQuery == u.RawQuery {
		u = kept
	}
	d.ViewerURL = u.String()
	env.set(envViewer, d.ViewerURL)
}

// inDataDir sets what dev finds or keeps in the data directory, where nothing else is set.
func inDataDir(c *config.Config) error {
	if c.GeoIPDatabase == "" {
		c.GeoIPDatabase = devCountries(c.DataDir)
	}
	if c.Uploads.Dir != "" {
		return nil
	}
	var err error
	c.Uploads.Dir, err = filepath.Abs(filepath.Join(c.DataDir, "uploads"))
	return err
}

// seed completes the demo data and env. A value from the environment wins over
// the one of an earlier run, and that over a made-up one.
func seed(ctx context.Context, c config.Config, used demo.ServicesUsed, providers []webhook.Registration, env *devEnv, o DevOptions) error {
	known := env.get(envAdminPassword)
	env.set(envURL, c.URL)
	env.choose(envAdminEmail, c.Dev.AdminEmail, func() string { return "admin@waypost.example" })
	env.choose(envAdminPassword, c.Dev.AdminPassword, rand.Text)
	if err := demo.Admin(ctx, used, env.get(envAdminEmail), env.get(envAdminPassword), known != env.get(envAdminPassword)); err != nil {
		return fmt.Errorf("seed the administrator: %w", err)
	}
	if err := demo.Content(ctx, used, env.get(envAdminEmail)); err != nil {
		return fmt.Errorf("seed posts and blogs: %w", err)
	}
	if err := seedSite(ctx, c, used, env, o.Log); err != nil {
		return err
	}
	for _, p := range providers {
		makeUp := p.About.DemoSecret
		if makeUp == nil {
			makeUp = demoSecret
		}
		env.choose(p.SecretEnv, o.LookupEnv(p.SecretEnv), makeUp)
		if token := p.Challenge.TokenEnv; token != "" {
			env.choose(token, o.LookupEnv(token), rand.Text)
		}
	}
	return nil
}

// demoSecret is a key that every scheme of package signature takes.
func demoSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

func seedSite(ctx context.Context, c config.Config, used demo.ServicesUsed, env *devEnv, log io.Writer) error {
	s, secret, err := demo.Site(ctx, used, seedingProgress(log))
	if err != nil {
		return fmt.Errorf("seed the demo site: %w", err)
	}
	if s, err = demo.Keys(ctx, used, s, c.Dev.SiteKey, c.Dev.APIKey); err != nil {
		return fmt.Errorf("demo site's keys: %w", err)
	}
	env.set(envSiteKey, s.Key)
	switch {
	case c.Dev.APIKey != "":
		env.set(envAPIKey, c.Dev.APIKey)
	case secret != "":
		env.set(envAPIKey, secret)
	case !demo.Reads(ctx, used, env.get(envAPIKey)): // dev.env is gone, the database is not
		if secret, err = demo.NewKey(ctx, used, s); err != nil {
			return fmt.Errorf("demo site's key: %w", err)
		}
		env.set(envAPIKey, secret)
	}
	return nil
}

// choose sets a value: the given one, else the one of an earlier run, else a
// made-up one.
func (e *devEnv) choose(name, given string, makeUp func() string) {
	switch {
	case given != "":
		e.set(name, given)
	case e.get(name) == "":
		e.set(name, makeUp())
	}
}

// devCountries is the country database that `task geoip` puts into the data
// directory, if it did.
func devCountries(dir string) string {
	path := filepath.Join(dir, "country.mmdb")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// devSecretKey completes c with the key of an earlier run, or with a new one. The
// function that it returns writes a new one down, for when it is known that the
// database takes it.
func devSecretKey(c *config.Config) (func() error, error) {
	kept := func() error { return nil }
	if c.SecretKey != "" {
		return kept, nil
	}
	path := filepath.Join(c.DataDir, secretKeyFile)
	b, err := os.ReadFile(path)
	if err == nil {
		c.SecretKey = string(b)
		return kept, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("secret key: %w", err)
	}
	c.SecretKey = rand.Text() + rand.Text()
	return func() error {
		if err := replaceFile(path, []byte(c.SecretKey)); err != nil {
			return fmt.Errorf("secret key: %w", err)
		}
		return nil
	}, nil
}

// seedingProgress shows how far the traffic is: as a bar on a terminal, as a line for
// each tenth elsewhere.
func seedingProgress(log io.Writer) func(done, all int) {
	if screen, ok := log.(*os.File); ok && term.IsTerminal(int(screen.Fd())) {
		var bar *progressbar.ProgressBar
		return func(done, all int) {
			if bar == nil {
				bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(log), progressbar.OptionSetDescription("seeding 90 days of demo traffic"),
					progressbar.OptionFullWidth(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
			}
			_ = bar.Set(done) // drawing is no part of the work
		}
	}
	said := -1
	return func(done, all int) {
		if tenth := done * 10 / max(all, 1); tenth > said {
			said = tenth
			fmt.Fprintf(log, "Seeding 90 days of demo traffic: %d of %d events\n", done, all)
		}
	}
}

// printTable shows what there is and three lines to try, one per area.
func printTable(out io.Writer, c config.Config, env *devEnv, database string) {
	file := filepath.Join(c.DataDir, devEnvFile)
	fmt.Fprintf(out, `
Waypost is ready.

  Service        %[1]s
  Operator pages %[1]s/admin
  Documentation  %[1]s%[8]s
  Description    %[1]s%[8]s/openapi.json
  Administrator  %[2]s  password %[3]s
  Database       %[4]s
  All values     %[5]s

Try one line of each area:

  # documentation: every operation, from the description that the service derives of itself
  curl -s %[1]s%[8]s/llms.txt

  # webhooks: a signed delivery; paste it again and it is skipped as a duplicate
  t=$(date +%%s); body='{"id":"evt_%[9]s","type":"payment.succeeded"}'; curl -s %[1]s/webhooks/payment -d "$body" -H "Payment-Signature: t=$t,v1=$(printf '%%s' "$t.$body" | openssl dgst -sha256 -hmac %[6]s | sed 's/^.* //')"

  # statistics: the demo site's last 30 days
  curl -s '%[1]s/api/stats/summary?compare=true' -H 'X-Analytics-API-Key: %[7]s'

Ctrl-C stops it; the data stays.
`, env.get(envURL), env.get(envAdminEmail), env.get(envAdminPassword), database, file, quote(env.get(webhook.Payment().SecretEnv)), env.get(envAPIKey), c.Docs.Prefix, rand.Text()[:8])
}
