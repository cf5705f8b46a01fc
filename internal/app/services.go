package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/aigateway"
	"github.com/waypost/waypost/internal/audit"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/dbview"
	"github.com/waypost/waypost/internal/httpedge"
	"github.com/waypost/waypost/internal/idempotency"
	"github.com/waypost/waypost/internal/jobs"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/security"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/country"
	"github.com/waypost/waypost/internal/stats/imports"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/upload"
	"github.com/waypost/waypost/internal/webhook"
)

// Services are the domains. Each is built once, here.
type Services struct {
	DB       *db.DB
	Audit    *audit.Service
	Queue    *queue.Queue
	Jobs     *jobs.Admin
	Accounts *account.Service
	Content  *content.Service
	Sites    *site.Service
	Importer *imports.Importer
	Stats    *stats.Service
	Eraser   *stats.Eraser
	Rollups  *stats.Rollups
	// Retention ends raw data.
	Retention *stats.Retention
	// Countries is nil without a database.
	Countries *country.Database

	// Only a server has these. For a command they are nil, and Accounts can neither
	// sign anybody in nor send mails.
	Tokens   *token.Service
	Receiver *webhook.Receiver
	Webhooks *webhook.Admin
	Handling *webhook.Worker
	Alerts   *webhook.Alerts
	Mails    *mail.Outbox
	Ingester *stats.Ingester
	Uploads  *upload.Service
	Database *dbview.Service
	AI       *aigateway.Service
	Security *security.Service
	// Idempotency keeps answers to requests that may be repeated.
	Idempotency *idempotency.Store

	forwarding httpedge.Forwarding
	closers    closers
}

// OpenServices opens the database of a command, and calls announce with its name. It
// migrates the private database of dev; any other database must be migrated already.
func OpenServices(ctx context.Context, c config.Config, announce func(database string)) (*Services, error) {
	logger := QuietLogger()
	var cleanup closers
	database, err := OpenDatabase(ctx, c, logger)
	if err != nil {
		return nil, err
	}
	cleanup.add("private PostgreSQL", database.Close)
	announce(database.Name())
	pool, err := database.connectOnce(ctx, c, logger)
	if err != nil {
		return nil, errors.Join(err, cleanup.run())
	}
	cleanup.add("connection pool", func() error { pool.Close(); return nil })
	s := &Services{closers: cleanup}
	areas := db.Undivided(pool)
	err = errors.Join(s.openDomains(areas, c, logger), s.openAccounts(account.Options{DB: areas.Requests}))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close lets go of all that was opened, newest first.
func (s *Services) Close() error { return s.closers.run() }

// openDomains builds the services that both a command and a server need.
func (s *Services) openDomains(areas db.Areas, c config.Config, logger *slog.Logger) error {
	s.DB = areas.Requests
	if err := s.openAudit(areas, c, logger); err != nil {
		return err
	}
	var err error
	if c.GeoIPDatabase != "" {
		if s.Countries, err = country.Open(c.GeoIPDatabase); err != nil {
			return fmt.Errorf("WAYPOST_GEOIP_DATABASE: %w", err)
		}
		s.closers.add("country database", s.Countries.Close)
	}
	if s.Queue, err = queue.New(logger); err != nil {
		return err
	}
	if s.Jobs, err = jobs.NewAdmin(jobs.AdminOptions{DB: areas.Requests, Queue: s.Queue}); err != nil {
		return err
	}
	if s.Content, err = content.New(content.Options{DB: areas.Requests}); err != nil {
		return err
	}
	if s.Sites, err = site.New(site.Options{DB: areas.Requests, LookupDB: areas.Lookups, Logger: logger}); err != nil {
		return err
	}
	if err = s.openImports(areas, c); err != nil {
		return err
	}
	if s.Stats, err = stats.NewService(stats.ServiceOptions{DB: areas.Requests, EventsDB: areas.Questions, Timeout: min(c.StatsTimeout, c.RequestTimeout*5/6)}); err != nil {
		return err
	}
	if s.Rollups, err = stats.NewRollups(stats.RollupsOptions{DB: areas.Background, Sites: s.Sites, Jobs: s.Queue}); err != nil {
		return err
	}
	s.Eraser, err = stats.NewEraser(stats.EraserOptions{DB: areas.Background, Queue: s.Queue})
	return err
}

func (s *Services) openAccounts(o account.Options) error {
	var err error
	s.Accounts, err = account.New(o)
	return err
}

// openServer builds the services that only a server has, and Accounts, which needs
// some of them.
func (s *Services) openServer(ctx context.Context, o Options, registry *webhook.Registry, metrics prometheus.Registerer) error {
	s.closers.add("audit sealing", within(o.Config.ShutdownTimeout, s.Audit.StartSealing(o.Areas.Committed).Stop))
	var err error
	if s.Tokens, err = newTokens(ctx, s, o.Config); err != nil {
		return err
	}
	if s.Mails, err = newMails(ctx, s, o, metrics); err != nil {
		return err
	}
	if err := s.openUploads(ctx, o); err != nil {
		return err
	}
	if s.Database, err = dbview.New(dbview.Options{DB: o.Areas.Requests, ViewerURL: o.Config.DatabaseViewerURL}); err != nil {
		return err
	}
	if err := s.openSecurity(o, registry); err != nil {
		return err
	}
	accounts, err := serverAccounts(s, o)
	if err != nil {
		return err
	}
	if err := s.openAccounts(accounts); err != nil {
		return err
	}
	if err := s.Accounts.ResealSecrets(ctx); err != nil {
		o.Logger.ErrorContext(ctx, "the secret keys can't decrypt some two-factor secrets; their accounts need a recovery code", "error", err)
	}
	if err := s.openIdempotency(o); err != nil {
		return err
	}
	if err := s.openWebhooks(o, registry, metrics); err != nil {
		return err
	}
	if err := s.openCollection(ctx, o, metrics); err != nil {
		return err
	}
	return s.openAI(o, metrics)
}

func (s *Services) openIdempotency(o Options) error {
	sealer, err := seal.New(idempotency.SealPurpose, []byte(o.Config.SecretKey), []byte(o.Config.SecretKeyPrevious))
	if err != nil {
		return err
	}
	s.Idempotency, err = idempotency.New(idempotency.Options{
		DB: o.Areas.Requests, BackgroundDB: o.Areas.Background, Sealer: sealer, Random: rand.Reader, Now: time.Now, Logger: o.Logger,
	})
	return err
}

func (s *Services) openWebhooks(o Options, registry *webhook.Registry, metrics prometheus.Registerer) error {
	w := o.Config.Webhooks
	sealer, err := seal.New(webhook.SealPurpose, []byte(o.Config.SecretKey), []byte(o.Config.SecretKeyPrevious))
	if err != nil {
		return err
	}
	service, err := webhook.New(webhook.Options{
		DB: o.Areas.Deliveries, AdminDB: o.Areas.Requests, Registry: registry, LookupSecret: o.LookupSecret, Logger: o.Logger,
		Jobs: s.Queue, Retention: time.Duration(w.RetentionDays) * 24 * time.Hour, Ledger: time.Duration(w.LedgerDays) * 24 * time.Hour,
		Metrics: metrics, Tracer: o.observed.tracer(), BodyMemory: int64(w.BodyMemory) << 20, Sealer: sealer,
	})
	if err != nil {
		return err
	}
	s.Receiver, s.Webhooks, s.Handling = service.Receiver, service.Admin, service.Worker
	s.closers.add("webhook receiver", within(o.Config.ShutdownTimeout, s.Receiver.Close))
	s.Alerts, err = webhook.NewAlerts(webhook.AlertOptions{
		DB: o.Areas.Background, Registry: registry, Logger: o.Logger, Jobs: s.Queue,
		Streak: max(w.AlertStreak, 1), MaxWait: w.AlertWait, Refused: w.AlertRefused, FailureRate: w.AlertRate, URL: w.AlertURL, Secret: w.AlertSecret, Mail: s.Mails,
	})
	return err
}
