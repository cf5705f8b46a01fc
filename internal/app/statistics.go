package app

import (
	"context"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/stats"
	"github.com/waypost/waypost/internal/stats/imports"
	"github.com/waypost/waypost/internal/stats/visitor"
)

// statisticsKeys seals salts and import secrets; nil for a command that has no secret key.
func statisticsKeys(c config.Config) (*seal.Keyring, error) {
	c, err := withSecretKey(c)
	if err != nil || c.SecretKey == "" {
		return nil, err
	}
	return seal.New(visitor.SealPurpose, []byte(c.SecretKey), []byte(c.SecretKeyPrevious))
}

// newImporter makes an importer that takes countries from lookup.
func newImporter(areas db.Areas, c config.Config, lookup func(netip.Addr) string) (*imports.Importer, error) {
	keys, err := statisticsKeys(c)
	if err != nil {
		return nil, err
	}
	return imports.New(imports.Options{DB: areas.Background, Keys: keys, Country: lookup})
}

func (s *Services) openImports(areas db.Areas, c config.Config) error {
	var err error
	if s.Importer, err = newImporter(areas, c, s.Countries.Lookup); err != nil {
		return err
	}
	s.Retention, err = stats.NewRetention(stats.RetentionOptions{DB: areas.Background, Months: c.Statistics.RetentionMonths})
	return err
}

// openCollection seals, before anything is counted, what a program of before left plain.
func (s *Services) openCollection(ctx context.Context, o Options, metrics prometheus.Registerer) error {
	keys, err := statisticsKeys(o.Config)
	if err != nil {
		return err
	}
	s.Ingester, err = stats.NewIngester(stats.IngesterOptions{
		DB: o.Areas.Collection, Sites: s.Sites, Keys: keys, Logger: o.Logger, Country: s.Countries.Lookup, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	s.closers.add("collection", s.Ingester.Close)
	for {
		n, err := s.Ingester.SealSecrets(ctx)
		if o.Areas.Collection.IsPartlyAway(err) {
			// A task does the rest. Other sites and everything else needn't wait for it.
			o.Logger.WarnContext(ctx, "not every salt and import secret could be looked at", "error", err)
			return nil
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// destroyImportSecrets is the task that does so after the days of the settings.
func (s *Services) destroyImportSecrets(c config.Config) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		return s.Ingester.DestroyImportSecrets(ctx, c.Statistics.ImportSecretDays)
	}
}
