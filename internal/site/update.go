package site

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/text"
)

// Change is what shall be different about a site; nil leaves a field as it is.
type Change struct {
	Name, Domain, Timezone *string
	// RetentionMonths is for Site's; its inner nil takes the site's own away.
	RetentionMonths **int
}

// Update changes a site. A new zone takes effect at the end of the site's current
// day, so that no day has two. It returns ErrNoSite, or a fault of kind Invalid.
func (s *Service) Update(ctx context.Context, id uuid.UUID, c Change) (Site, error) {
	var row dbsqlc.Site
	err := s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		old, err := s.queries.LockSite(ctx, tx, id)
		if err != nil {
			return db.NotFound(err, ErrNoSite)
		}
		p, zone, err := c.apply(old)
		if err != nil {
			return err
		}
		if p.ZoneChanged {
			if err := s.moveTo(ctx, tx, old, zone); err != nil {
				return err
			}
		}
		p.Now = s.o.Now()
		row, err = s.queries.UpdateSite(ctx, tx, p)
		return err
	})
	if err != nil {
		return Site{}, err
	}
	s.known.drop(id)
	return s.site(ctx, s.o.DB, row)
}

// apply checks the fields that change. What is not changed is not judged: rules
// may have been others when it was written.
func (c Change) apply(old dbsqlc.Site) (dbsqlc.UpdateSiteParams, *time.Location, error) {
	p := dbsqlc.UpdateSiteParams{ID: old.ID, Name: old.Name, Domain: old.Domain, Timezone: old.Timezone, RetentionMonths: old.RetentionMonths}
	details := map[string]string{}
	if c.Name != nil {
		if p.Name = text.Trim(*c.Name); !validName(p.Name) {
			details["name"] = nameRule
		}
	}
	if c.Domain != nil {
		var ok bool
		if p.Domain, ok = parseDomain(*c.Domain); !ok {
			details["domain"] = domainRule
		}
	}
	var zone *time.Location
	if c.Timezone != nil {
		var ok bool
		if zone, ok = parseZone(*c.Timezone); !ok {
			details["timezone"] = zoneRule
		} else if p.Timezone = zone.String(); p.Timezone != old.Timezone {
			p.ZoneChanged = true
		}
	}
	if c.RetentionMonths != nil {
		var ok bool
		if p.RetentionMonths, ok = parseRetention(*c.RetentionMonths); !ok {
			details["retention_months"] = retentionRule
		}
	}
	if len(details) > 0 {
		return p, nil, fault.Validation(details)
	}
	return p, zone, nil
}

// Count returns how many sites List can reach.
func (s *Service) Count(ctx context.Context) (int64, error) {
	n, err := s.queries.CountSites(ctx, s.o.DB.Direct())
	return n, db.Translate(err)
}

// ListKeysBefore returns at most limit keys of a site that are older than before,
// newest first; the zero UUID begins with the newest.
func (s *Service) ListKeysBefore(ctx context.Context, siteID, before uuid.UUID, limit int) ([]Key, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	rows, err := s.queries.ListSiteAPIKeysBefore(ctx, s.o.DB.Direct(), siteID, before, int32(limit))
	if err != nil {
		return nil, db.Translate(err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = keyOf(row)
	}
	return keys, nil
}

// CountKeys returns how many keys a site has, retired ones included.
func (s *Service) CountKeys(ctx context.Context, siteID uuid.UUID) (int64, error) {
	n, err := s.queries.CountSiteAPIKeys(ctx, s.o.DB.Direct(), siteID)
	return n, db.Translate(err)
}
