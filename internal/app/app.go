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
	"github.com/waypost/waypost/internal/webhook"
)

// Options are what New needs. All fields but Bindings and ShowMailLinks are mandatory.
type Options struct {
	Config config.Config
	// DB is migrated; it stays the caller's to close.
	DB     *db.DB
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

func (a *App) build(ctx context.Context, o Options) error {
	services, err := newServices(o.DB, o.Config, o.Logger)
	if err != nil {
		return err
	}
	a.services = services
	a.closers.add("services", services.Close)
	tokens, err := newTokens(ctx, services, o.Config)
	if err != nil {
		return err
	}
	if services.Accounts, err = newAccounts(services, tokens, o.Config, o.Logger, o.ShowMailLinks); err != nil {
		return err
	}
	if err := services.Accounts.ResealSecrets(ctx); err != nil {
		o.Logger.ErrorContext(ctx, "two-factor secrets that the secret keys don't open; their accounts need a recovery code", "error", err)
	}
	a.metrics = telemetry.New()
	receiver, alerts, err := a.buildWebhooks(o)
	if err != nil {
		return err
	}
	ingester, err := stats.NewIngester(stats.IngesterOptions{DB: o.DB, Sites: services.Sites, Country: services.Countries.Lookup})
	if err != nil {
		return err
	}
	a.closers.add("collection", ingester.Close)
	a.jobs, err = jobs.New(jobs.Options{Pool: o.DB.Pool(), Logger: quieter(o.Logger), Tasks: jobs.Tasks{
		SweepWebhooks:  receiver.Sweep,
		AttemptWebhook: receiver.Attempt,
		ReplayWebhooks: receiver.ContinueBulk,
		ForgetPayloads: receiver.ForgetPayloads,
		TrimRejected:   receiver.TrimRejected,
		CheckAlerts:    alerts.Check,
		SendAlert:      alerts.Send,
		MailLink:       services.Accounts.MailLink,
		SweepAccounts:  services.Accounts.Sweep,
		RotateKeys:     tokens.Rotate,
		DestroySalts:   ingester.DestroySalts,
		QueueSeals:     services.Rollups.QueueDue,
		SealDay:        services.Rollups.Seal,
		FoldVisitors:   services.Rollups.FoldBusy,
		EraseSite:      services.Eraser.Erase,
		SweepErasures:  services.Eraser.Sweep,
	}})
	if err != nil {
		return err
	}
	if err := a.jobs.Start(ctx); err != nil {
		return err
	}
	a.closers.add("jobs", a.within(a.jobs.Stop))
	views, err := pages.New(pages.Options{Accounts: services.Accounts})
	if err != nil {
		return err
	}
	a.handler, err = newHandler(o, a.metrics.Handler(), api.Options{
		BaseURL:         strings.TrimRight(o.Config.URL, "/"),
		Authenticator:   services.Accounts,
		SiteKeys:        services.Sites,
		Auth:            services.Accounts,
		OAuth:           services.Accounts,
		Identities:      services.Accounts,
		TwoFactor:       services.Accounts,
		Registrar:       services.Accounts,
		Sessions:        services.Accounts,
		Tokens:          services.Accounts,
		KeySet:          tokens,
		Users:           services.Accounts,
		Posts:           services.Posts,
		Deliveries:      receiver,
		Webhooks:        receiver,
		WebhookEvents:   receiver,
		Replays:         receiver,
		WebhookLog:      receiver,
		Collector:       ingester,
		Batches:         ingester,
		Sites:           services.Sites,
		SiteAdmin:       services.Sites,
		SiteKeyAdmin:    services.Sites,
		SiteEraser:      services.Eraser,
		Drops:           services.Stats,
		Stats:           services.Stats,
		HonorDoNotTrack: o.Config.HonorDoNotTrack,
		Limits: api.Limits{
			PerKey: o.Config.KeyRate, PerSite: o.Config.SiteRate, PerAddress: o.Config.AddressRate,
		},
		Ready: []api.Check{
			{Name: "database", Test: o.DB.Ping},
			{Name: "migrations", Test: o.DB.CheckMigrated},
			{Name: "jobs", Test: a.jobs.Check},
			{Name: "geoip", State: services.Countries.Describe()},
		},
	}, views)
	return err
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
	pool, err := database.connect(ctx, c, logger, o.Migrate)
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("connection pool", func() error { pool.Close(); return nil })
	a, err := New(ctx, Options{Config: c, DB: pool, Logger: logger, LookupSecret: o.LookupSecret})
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("service", a.Close)
	return errors.Join(a.Run(ctx, l), cleanup.run())
}
