// Package app composes the service and owns its life: New builds everything from
// the bottom up, Run serves, Close takes it apart in reverse, also after a failed
// start.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/webhook"
)

// Options are what New needs. All fields but Bindings and ShowMailLinks are mandatory.
type Options struct {
	Config config.Config
	// Areas are the pools of the database, which is migrated; they stay the caller's to
	// close.
	Areas  db.Areas
	Logger *slog.Logger
	// LookupSecret finds a webhook secret by its variable's name, at each delivery.
	LookupSecret func(name string) string
	// ShowMailLinks lets the log show the secret links of mails, so that a developer
	// can follow them.
	ShowMailLinks bool
	// Bindings are the webhook handlers.
	Bindings []webhook.Binding
}

// App is a composed service.
type App struct {
	config   config.Config
	logger   *slog.Logger
	handler  http.Handler
	services *Services
	jobs     *jobs.Runner
	metrics  *telemetry.Metrics
	closers  closers
}

// New composes the service and starts its background work. Nothing listens yet.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{config: o.Config, logger: o.Logger}
	if err := a.build(ctx, o); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// parts are the services that only a server has, beside those of Services.
type parts struct {
	tokens   *token.Service
	receiver *webhook.Receiver
	alerts   *webhook.Alerts
	ingester *stats.Ingester
}

func (a *App) build(ctx context.Context, o Options) error {
	p, err := a.buildParts(ctx, o)
	if err != nil {
		return err
	}
	a.jobs, err = jobs.New(jobs.Options{
		Pool: o.Areas.Background.Pool(), Logger: quieter(o.Logger), Tasks: a.tasks(p), Metrics: a.metrics.Registerer(),
	})
	if err != nil {
		return err
	}
	if err := a.jobs.Start(ctx); err != nil {
		return err
	}
	a.closers.add("jobs", a.within(a.jobs.Stop))
	views, err := pages.New(pages.Options{Accounts: a.services.Accounts})
	if err != nil {
		return err
	}
	a.handler, err = newHandler(o, a.metrics.Handler(), a.operations(o, p), views)
	return err
}

func (a *App) buildParts(ctx context.Context, o Options) (parts, error) {
	services, err := newServices(o.Areas, o.Config, o.Logger)
	if err != nil {
		return parts{}, err
	}
	a.services = services
	a.closers.add("services", services.Close)
	var p parts
	if p.tokens, err = newTokens(ctx, services, o.Config); err != nil {
		return p, err
	}
	if services.Accounts, err = newAccounts(services, p.tokens, o.Config, o.Logger, o.ShowMailLinks); err != nil {
		return p, err
	}
	if err := services.Accounts.ResealSecrets(ctx); err != nil {
		o.Logger.ErrorContext(ctx, "two-factor secrets that the secret keys don't open; their accounts need a recovery code", "error", err)
	}
	a.metrics = telemetry.New()
	if err := a.metrics.Registerer().Register(newConnections(o.Areas)); err != nil {
		return p, err
	}
	if p.receiver, p.alerts, err = a.buildWebhooks(o); err != nil {
		return p, err
	}
	p.ingester, err = stats.NewIngester(stats.IngesterOptions{DB: o.Areas.Collection, Sites: services.Sites, Country: services.Countries.Lookup})
	if err != nil {
		return p, err
	}
	a.closers.add("collection", p.ingester.Close)
	return p, nil
}

// tasks are what the jobs do.
func (a *App) tasks(p parts) jobs.Tasks {
	s := a.services
	return jobs.Tasks{
		SweepWebhooks:    p.receiver.Sweep,
		SweepForwards:    p.receiver.SweepForwards,
		AnnounceBindings: p.receiver.Announce,
		AttemptWebhook:   p.receiver.Attempt,
		ReplayWebhooks:   p.receiver.ContinueBulk,
		ForgetPayloads:   p.receiver.ForgetPayloads,
		TrimRejected:     p.receiver.TrimRejected,
		CheckAlerts:      p.alerts.Check,
		SendAlert:        p.alerts.Send,
		MailLink:         s.Accounts.MailLink,
		SweepAccounts:    s.Accounts.Sweep,
		RotateKeys:       p.tokens.Rotate,
		DestroySalts:     p.ingester.DestroySalts,
		QueueSeals:       s.Rollups.QueueDue,
		SealDay:          s.Rollups.Seal,
		FoldVisitors:     s.Rollups.FoldBusy,
		EraseSite:        s.Eraser.Erase,
		SweepErasures:    s.Eraser.Sweep,
	}
}

// operations says which service is behind each operation.
func (a *App) operations(o Options, p parts) api.Options {
	s := a.services
	return api.Options{
		BaseURL:         strings.TrimRight(o.Config.URL, "/"),
		Authenticator:   s.Accounts,
		SiteKeys:        s.Sites,
		Auth:            s.Accounts,
		OAuth:           s.Accounts,
		Identities:      s.Accounts,
		TwoFactor:       s.Accounts,
		Registrar:       s.Accounts,
		Sessions:        s.Accounts,
		Tokens:          s.Accounts,
		KeySet:          p.tokens,
		Users:           s.Accounts,
		Posts:           s.Posts,
		Deliveries:      p.receiver,
		Webhooks:        p.receiver,
		WebhookEvents:   p.receiver,
		Replays:         p.receiver,
		WebhookLog:      p.receiver,
		Collector:       p.ingester,
		Batches:         p.ingester,
		Sites:           s.Sites,
		SiteAdmin:       s.Sites,
		SiteKeyAdmin:    s.Sites,
		SiteEraser:      s.Eraser,
		Drops:           s.Stats,
		Stats:           s.Stats,
		HonorDoNotTrack: o.Config.HonorDoNotTrack,
		Limits: api.Limits{
			PerKey: o.Config.KeyRate, PerSite: o.Config.SiteRate, PerAddress: o.Config.AddressRate,
		},
		Ready: []api.Check{
			{Name: "database", Test: o.Areas.Readiness.Ping},
			{Name: "migrations", Test: o.Areas.Readiness.CheckMigrated},
			{Name: "jobs", Test: a.jobs.Check},
			{Name: "geoip", State: s.Countries.Describe()},
		},
		JobFailures: a.jobFailures,
	}
}

func (a *App) jobFailures() map[string]api.JobFailure {
	list := make(map[string]api.JobFailure)
	for name, f := range a.jobs.Failures() {
		list[name] = api.JobFailure{Count: f.Count, Since: f.Since.UTC(), Last: f.Last.UTC()}
	}
	return list
}

// Handler answers the service's requests, for a server of the caller's own.
func (a *App) Handler() http.Handler { return a.handler }

// Run answers requests on l until ctx ends, then finishes those in flight.
func (a *App) Run(ctx context.Context, l net.Listener) error {
	a.logger.InfoContext(ctx, "listening", "address", localURL(l), "url", a.config.URL)
	// Writing the description takes some 100 MiB that nothing needs afterwards, and
	// that an idle process would keep for minutes.
	go debug.FreeOSMemory()
	return serveHTTP(ctx, l, a.handler, a.config.RequestTimeout, a.config.ShutdownTimeout, a.logger)
}

// Close stops background work, newest first. What was acknowledged is durable
// before and after.
func (a *App) Close() error { return a.closers.run() }

// within makes a cleanup of a stop that takes a deadline.
func (a *App) within(stop func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), a.config.ShutdownTimeout)
		defer cancel()
		return stop(ctx)
	}
}

// quieter passes on only warnings and errors: River speaks of every start.
func quieter(l *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{l.Handler(), slog.LevelWarn})
}

type levelHandler struct {
	slog.Handler
	least slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.least && h.Handler.Enabled(ctx, l)
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.least}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.least}
}

// ServeOptions are what serve adds to its configuration.
type ServeOptions struct {
	// Migrate applies missing migrations first.
	Migrate bool
	// Log receives the log.
	Log io.Writer
	// LookupSecret finds a webhook secret by its variable's name.
	LookupSecret func(name string) string
}

// Serve runs the service in production until ctx ends.
func Serve(ctx context.Context, c config.Config, o ServeOptions) error {
	logger := NewLogger(c, o.Log)
	var cleanup closers
	l, err := listen(ctx, c.Addr)
	if err != nil {
		return err
	}
	cleanup.add("listener", func() error { return ignoreClosed(l.Close()) })
	database := &Database{URL: c.DatabaseURL, OwnerURL: c.OwnerURL()}
	logger.InfoContext(ctx, "starting", "database", database.Name())
	areas, err := database.connect(ctx, c, logger, o.Migrate)
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("connection pools", func() error { areas.Close(); return nil })
	a, err := New(ctx, Options{Config: c, Areas: areas, Logger: logger, LookupSecret: o.LookupSecret})
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("service", a.Close)
	return errors.Join(a.Run(ctx, l), cleanup.run())
}
