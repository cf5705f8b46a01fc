// Package app composes the service and owns its life cycle: New builds everything
// from the bottom up, Run serves, and Close takes it apart in reverse, also after a
// failed start.
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
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/api"
	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/pages"
	"github.com/waypost/waypost/internal/telemetry"
	"github.com/waypost/waypost/internal/webhook"
)

// Options configure New. All fields but Extensions, ShowMailLinks and EchoModel are mandatory.
type Options struct {
	Config config.Config
	// Areas are the connection pools of a migrated database. The caller closes them.
	Areas  db.Areas
	Logger *slog.Logger
	// LookupSecret finds a webhook secret by its variable's name, at each delivery.
	LookupSecret func(name string) string
	// ShowMailLinks lets the log show the secret links of mails, so that a developer
	// can follow them.
	ShowMailLinks bool
	// EchoModel adds the language model that needs no service.
	EchoModel  bool
	Extensions Extensions
	// observed measures the server; nil for one of its own, without traces and without
	// an address for metrics.
	observed *observation
	// seed completes the database before anything works on it; nil for nothing.
	seed func(context.Context, *Services, *webhook.Registry) error
}

// App is a composed service.
type App struct {
	options  Options
	handler  http.Handler
	services *Services
	jobs     *jobs.Runner
	storage  *storageState
	history  *telemetry.History
	stopping atomic.Bool
	closers  closers
}

// New composes the service and starts its background work. Nothing listens yet.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{options: o}
	if err := a.build(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// build goes from the bottom up: the domains, the background work, the handler of
// requests.
func (a *App) build(ctx context.Context) error {
	o := a.options
	if o.observed == nil {
		var err error
		if o.observed, err = observe(ctx, config.Config{}, o.Logger, &a.closers); err != nil {
			return err
		}
		a.options.observed = o.observed
	}
	metrics := o.observed.metrics
	if err := metrics.Registerer().Register(newConnections(o.Areas)); err != nil {
		return err
	}
	if err := checkAudited(ctx, o.Areas.Requests, o.Logger); err != nil {
		return err
	}
	registry, err := newRegistry(o.Config, o.LookupSecret, o.Extensions)
	if err != nil {
		return err
	}
	a.services = new(Services)
	a.closers.add("services", a.services.Close)
	if err := a.services.openDomains(o.Areas, o.Config, o.Logger); err != nil {
		return err
	}
	if err := a.services.openServer(ctx, o, registry, metrics.Registerer()); err != nil {
		return err
	}
	a.storage = newStorageState(ctx, a.services.Uploads, o.Logger)
	if o.seed != nil {
		if err := o.seed(ctx, a.services, registry); err != nil {
			return err
		}
	}
	warnOfSecrets(ctx, registry, o.LookupSecret, o.Logger)
	if err := a.startHistory(); err != nil {
		return err
	}
	if err := a.startJobs(ctx, metrics.Registerer()); err != nil {
		return err
	}
	if err := metrics.Registerer().Register(newBacklog(a.services, o.Areas.Requests)); err != nil {
		return err
	}
	views, err := pages.New(pages.Account(a.services.Accounts), pages.Reports(a.services.Security, strings.HasPrefix(baseURL(o.Config), "https:")), a.desk())
	if err != nil {
		return err
	}
	list, err := resources(o.Config, a.services, registry.Providers(), a.condition(), o.Extensions)
	if err != nil {
		return err
	}
	operations := api.Options{
		BaseURL: baseURL(o.Config), Authenticator: a.services.Accounts, SiteKeys: a.services.Sites, KeyRate: o.Config.KeyRate, Resources: list,
		Idempotency: a.services.Idempotency,
	}
	a.handler, err = newHandler(o, metrics.Handler(), operations, views, &a.services.forwarding)
	return err
}

// startHistory begins to keep what the page on observability shows.
func (a *App) startHistory() error {
	o := a.options
	tallies := a.services.tallies()
	var err error
	a.history, err = telemetry.NewHistory(telemetry.HistoryOptions{
		Areas: o.Areas, Requests: o.observed.requests, Logger: o.Logger,
		Tallies: func() map[string]uint64 { return o.observed.metrics.Tallies(tallies) },
	})
	if err != nil {
		return err
	}
	a.history.Start()
	a.closers.add("measurements", within(historyEnd, a.history.Stop))
	return nil
}

// historyEnd bounds the storing of the last minute.
const historyEnd = 3 * time.Second

func (a *App) startJobs(ctx context.Context, metrics prometheus.Registerer) error {
	o, x := a.options, a.options.Extensions
	background := jobs.Options{
		DB: o.Areas.Background, AliveDB: o.Areas.Alive, Polls: o.Config.DatabasePooled && o.Config.DatabaseDirectURL == "", Queue: a.services.Queue, Logger: quieter(o.Logger), Metrics: metrics, Tracer: o.observed.tracer(),
		Periodic: append(periodic(a.services, a.options.Config), a.sweepHistory()), Workers: workers(a.services),
	}
	if x.Periodic != nil {
		background.Periodic = append(background.Periodic, x.Periodic(a.services)...)
	}
	if x.Workers != nil {
		background.Workers = append(background.Workers, x.Workers(a.services)...)
	}
	var err error
	if a.jobs, err = jobs.New(background); err != nil {
		return err
	}
	if err := a.jobs.Start(ctx); err != nil {
		return err
	}
	a.closers.add("jobs", within(o.Config.ShutdownTimeout, a.jobs.Stop))
	a.services.Handling.Start()
	return nil
}

// Handler answers the service's requests, for a caller that has its own server.
func (a *App) Handler() http.Handler { return a.handler }

// Run answers requests on l until ctx ends, then finishes those in flight.
func (a *App) Run(ctx context.Context, l net.Listener) error {
	a.options.Logger.InfoContext(ctx, "listening", "address", localURL(l), "url", a.options.Config.URL)
	// Writing the description takes some 100 MiB that nothing needs afterwards, and
	// that an idle process would keep for minutes.
	go debug.FreeOSMemory()
	go paceGarbage(ctx)
	if a.options.observed.listener != nil {
		scrapes, stop := context.WithCancel(context.WithoutCancel(ctx)) // what happens at the end is worth seeing
		ended := make(chan error, 1)
		go func() { ended <- a.options.observed.serveMetrics(scrapes, a.options.Config, a.options.Logger) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				a.options.Logger.WarnContext(ctx, "the listener of metrics", "error", err)
			}
		}()
	}
	c := a.options.Config
	end := ending{Begun: &a.stopping, Grace: c.ShutdownTimeout}
	if c.ShutdownDelay != nil {
		end.Delay = *c.ShutdownDelay
	}
	return serveHTTP(ctx, l, a.handler, c.RequestTimeout, end, a.options.Logger)
}

// Close stops background work, newest first. Acknowledged data is durable, whether
// Close runs or not.
func (a *App) Close() error { return a.closers.run() }

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
	Extensions   Extensions
}

// serveShutdownDelay is WAYPOST_SHUTDOWN_DELAY of serve where nobody set another: time for
// the proxies before it to see that it is no longer ready.
const serveShutdownDelay = 5 * time.Second

// Serve runs the service in production until ctx ends.
func Serve(ctx context.Context, c config.Config, o ServeOptions) error {
	logger := NewLogger(c, o.Log)
	var cleanup closers
	l, err := listen(ctx, c.Addr)
	if err != nil {
		return err
	}
	cleanup.add("listener", func() error { return ignoreClosed(l.Close()) })
	observed, err := observe(ctx, c, logger, &cleanup)
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	if c.ShutdownDelay == nil {
		c.ShutdownDelay = new(serveShutdownDelay)
	}
	database := outsideDatabase(c)
	b := ThisBuild()
	logger.InfoContext(ctx, "starting", "version", b.Version, "commit", b.Commit, "go", b.Go, "database", database.Name())
	areas, err := database.connect(ctx, c, logger, observed.statements(), o.Migrate)
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("connection pools", func() error { areas.Close(); return nil })
	if err := warnOfOwner(ctx, areas, logger); err != nil {
		return errors.Join(err, cleanup.run())
	}
	c.DatabaseViewerURL = database.ViewerURL
	a, err := New(ctx, Options{Config: c, Areas: areas, Logger: logger, LookupSecret: o.LookupSecret, Extensions: o.Extensions, observed: observed})
	if err != nil {
		return errors.Join(err, cleanup.run())
	}
	cleanup.add("service", a.Close)
	return errors.Join(a.Run(ctx, l), cleanup.run())
}
