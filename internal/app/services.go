package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/queue"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/country"
)

// Services are the domains that need nothing but the database: what commands
// work with, and what a server is built on.
type Services struct {
	DB       *db.DB
	Accounts *account.Service
	Posts    *content.Service
	Sites    *site.Service
	Importer *stats.Importer
	Stats    *stats.Service
	Eraser   *stats.Eraser
	// Countries is nil without a database.
	Countries *country.Database
	Rollups   *stats.Rollups
	Queue     *queue.Queue

	closers closers
}

// OpenServices opens a command's database, whose name announce is told; it is
// migrated when it is the private one, and must have been when not.
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
	s, err := newServices(db.Undivided(pool), c, logger)
	if err != nil {
		return nil, errors.Join(err, cleanup.run())
	}
	s.closers = append(cleanup, s.closers...)
	return s, nil
}

// Close lets go of the database.
func (s *Services) Close() error { return s.closers.run() }

func newServices(areas db.Areas, c config.Config, logger *slog.Logger) (*Services, error) {
	s := &Services{DB: areas.Requests}
	if err := s.build(areas, c, logger); err != nil {
		return nil, errors.Join(err, s.closers.run())
	}
	return s, nil
}

func (s *Services) build(areas db.Areas, c config.Config, logger *slog.Logger) error {
	pool := areas.Requests
	var err error
	if c.GeoIPDatabase != "" {
		if s.Countries, err = country.Open(c.GeoIPDatabase); err != nil {
			return fmt.Errorf("WAYPOST_GEOIP_DATABASE: %w", err)
		}
		s.closers.add("country database", s.Countries.Close)
	}
	if s.Accounts, err = account.New(account.Options{DB: pool}); err != nil {
		return err
	}
	if s.Posts, err = content.New(content.Options{DB: pool}); err != nil {
		return err
	}
	if s.Sites, err = site.New(site.Options{DB: pool, LookupDB: areas.Collection, Logger: logger}); err != nil {
		return err
	}
	if s.Importer, err = stats.NewImporter(stats.ImporterOptions{DB: areas.Background, Secrets: s.Sites, Country: s.Countries.Lookup}); err != nil {
		return err
	}
	if s.Stats, err = stats.NewService(stats.ServiceOptions{DB: pool, EventsDB: areas.Questions, Timeout: min(c.StatsTimeout, c.RequestTimeout*5/6)}); err != nil {
		return err
	}
	if s.Queue, err = queue.New(logger); err != nil {
		return err
	}
	if s.Rollups, err = stats.NewRollups(stats.RollupsOptions{DB: areas.Background, Sites: s.Sites, Jobs: s.Queue}); err != nil {
		return err
	}
	if s.Eraser, err = stats.NewEraser(stats.EraserOptions{DB: areas.Background, Queue: s.Queue}); err != nil {
		return err
	}
	return nil
}

// closers are cleanups in the order of what they clean up; run drains them in
// reverse.
type closers []closer

type closer struct {
	name string
	fn   func() error
}

func (c *closers) add(name string, fn func() error) { *c = append(*c, closer{name, fn}) }

func (c *closers) run() error {
	var errs []error
	for len(*c) > 0 {
		last := (*c)[len(*c)-1]
		*c = (*c)[:len(*c)-1]
		if err := last.fn(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
