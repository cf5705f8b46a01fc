package site

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
)

// Errors that name what is missing, all of kind NotFound; and the two of
// unknown credentials.
var (
	ErrNoSite  = fault.Missing("site")
	ErrNoKey   = fault.Missing("key of this site")
	ErrSiteKey = fault.New(fault.Unauthenticated, "invalid_site_key", "The site key is missing or unknown.")
	ErrAPIKey  = fault.New(fault.Unauthenticated, "invalid_api_key", "The API key is missing, unknown, expired or revoked.")
)

// Options configure a Service.
type Options struct {
	DB     *db.DB       // mandatory
	Logger *slog.Logger // mandatory
	// LookupDB finds whose a presented key is, for every hit and every batch; those of
	// questions are found over DB. Default DB.
	LookupDB *db.DB
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Random gives keys and secrets; default crypto/rand.
	Random io.Reader
	// CacheFor is how long BySiteKey may answer from memory; default 1 s.
	CacheFor time.Duration
}

func (o Options) validate() error {
	if o.DB == nil || o.Logger == nil {
		return errors.New("site: Options need DB and Logger")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.LookupDB == nil {
		o.LookupDB = o.DB
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	o.CacheFor = cmp.Or(o.CacheFor, time.Second)
	return o
}

// Service makes sites and keys and finds them again.
type Service struct {
	o       Options
	queries dbsqlc.Queries
	zones   zones
	known   recent
}

// New makes a Service.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Service{o: o.withDefaults()}, nil
}

// Create is CreateWith for a site without a retention of its own.
func (s *Service) Create(ctx context.Context, name, domain, timezone string) (Site, error) {
	return s.CreateWith(ctx, name, domain, timezone, nil)
}

// CreateWith makes a site with a public key. An empty timezone is UTC; retentionMonths is
// Site's. A field that breaks a rule is a fault of kind Invalid.
func (s *Service) CreateWith(ctx context.Context, name, domain, timezone string, retentionMonths *int) (Site, error) {
	n, err := parseNew(name, domain, timezone, retentionMonths)
	if err != nil {
		return Site{}, err
	}
	id, err := uuid.NewV7FromReader(s.o.Random)
	if err != nil {
		return Site{}, err
	}
	key, err := newToken(s.o.Random, publicPrefix, publicRandom, id)
	if err != nil {
		return Site{}, err
	}
	var row dbsqlc.Site
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		row, err = s.queries.InsertSite(ctx, tx, dbsqlc.InsertSiteParams{
			ID: id, Name: n.name, Domain: n.domain, Timezone: n.zone.String(), SiteKey: key, RetentionMonths: n.retention, CreatedAt: s.o.Now(),
		})
		return err
	})
	if err != nil {
		return Site{}, err
	}
	return s.site(ctx, s.o.DB, row)
}

// List returns at most limit sites that are older than before, newest first. The
// zero UUID begins with the newest.
func (s *Service) List(ctx context.Context, before uuid.UUID, limit int) ([]Site, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	rows, err := s.queries.ListSites(ctx, s.o.DB.Direct(), before, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	sites := make([]Site, len(rows))
	for i, row := range rows {
		if sites[i], err = s.site(ctx, s.o.DB, row); err != nil {
			return nil, err
		}
	}
	return sites, nil
}

// Find returns a site, or ErrNoSite.
func (s *Service) Find(ctx context.Context, id uuid.UUID) (Site, error) {
	return s.find(ctx, s.o.DB, id)
}

func (s *Service) find(ctx context.Context, d *db.DB, id uuid.UUID) (Site, error) {
	row, err := s.queries.FindSite(ctx, d.Direct(), id)
	if err != nil {
		return Site{}, db.NotFound(err, ErrNoSite)
	}
	return s.site(ctx, d, row)
}

// BySiteKey returns the site of a public key, or ErrSiteKey. The answer may be
// as old as Options.CacheFor.
func (s *Service) BySiteKey(ctx context.Context, key string) (Site, error) {
	id, ok := siteOf(key, publicPrefix)
	if !ok {
		return s.byAdoptedKey(ctx, key)
	}
	found, ok := s.known.get(id, s.o.Now().Add(-s.o.CacheFor))
	if !ok {
		asked := s.o.Now()
		var err error
		if found, err = s.find(ctx, s.o.LookupDB, id); errors.Is(err, ErrNoSite) {
			return Site{}, ErrSiteKey
		} else if err != nil {
			return Site{}, err
		}
		s.known.put(id, found, asked)
	}
	if found.Key != key {
		return Site{}, ErrSiteKey
	}
	return found, nil
}

func months(n *int32) *int {
	if n == nil {
		return nil
	}
	m := int(*n)
	return &m
}

func (s *Service) site(ctx context.Context, d *db.DB, row dbsqlc.Site) (Site, error) {
	zone, err := s.zones.load(row.Timezone)
	if err != nil {
		return Site{}, err
	}
	of := Site{
		ID: row.ID, Name: row.Name, Domain: row.Domain, Zone: zone, Key: row.SiteKey,
		RetentionMonths: months(row.RetentionMonths), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.HasZoneHistory {
		if of.Zones, err = s.loadZones(ctx, d.Direct(), row.ID); err != nil {
			return Site{}, err
		}
		of.Zone = of.ZoneAt(s.o.Now())
	}
	return of, nil
}
