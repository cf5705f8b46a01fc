package site

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// ZoneChange says that from From on, a midnight of the zone before, a site's days
// are those of Zone.
type ZoneChange struct {
	From time.Time
	Zone *time.Location
}

// ZoneAt returns the zone that the site's days have at t.
func (s Site) ZoneAt(t time.Time) *time.Location {
	zone := s.Zone
	if len(s.Zones) > 0 {
		zone = s.Zones[0].Zone
	}
	for _, c := range s.Zones {
		if !c.From.After(t) {
			zone = c.Zone
		}
	}
	return zone
}

// WantedZone returns the zone that was asked for last; it may not have begun yet.
func (s Site) WantedZone() *time.Location {
	if n := len(s.Zones); n > 0 {
		return s.Zones[n-1].Zone
	}
	return s.Zone
}

// DayStart returns the first instant at which clocks in zone show the date of day
// (midnight UTC of it) or a later one. Midnight may occur twice (the first
// counts), or never (the change of clocks that skips it counts); time.Date
// promises nothing for either.
func DayStart(day time.Time, zone *time.Location) time.Time {
	const around = 36 * time.Hour // farther than any offset or change of clocks reaches
	reached := func(t time.Time) bool { return !dateOf(t.In(zone)).Before(day) }
	var first time.Time
	for _, probe := range []time.Time{day.Add(-around), day.Add(around)} {
		_, offset := probe.In(zone).Zone()
		t := day.Add(-time.Duration(offset) * time.Second)
		if reached(t) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	// Past a change of clocks that skipped midnight, the change itself is the start.
	if change, _ := first.In(zone).ZoneBounds(); !change.IsZero() && change.Before(first) && reached(change) && !reached(change.Add(-1)) {
		first = change
	}
	return first.UTC()
}

// nextMidnight returns when the day of now ends in zone.
func nextMidnight(now time.Time, zone *time.Location) time.Time {
	day := dateOf(now.In(zone))
	for {
		day = day.AddDate(0, 0, 1)
		// A zone may skip a whole date, whose start is then that of the next.
		if start := DayStart(day, zone); start.After(now) {
			return start
		}
	}
}

func dateOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// loadZones reads a site's changes of zone, oldest first.
func (s *Service) loadZones(ctx context.Context, from dbsqlc.DBTX, id uuid.UUID) ([]ZoneChange, error) {
	rows, err := s.queries.ListSiteZones(ctx, from, id)
	if err != nil {
		return nil, db.Translate(err)
	}
	changes := make([]ZoneChange, len(rows))
	for i, r := range rows {
		zone, err := s.zones.load(r.Timezone)
		if err != nil {
			return nil, err
		}
		changes[i] = ZoneChange{From: r.EffectiveFrom.UTC(), Zone: zone}
	}
	return changes, nil
}

// moveTo notes that the site's days are zone's from the next midnight on. The
// caller holds the site's row. Of several changes before one midnight the last
// counts.
func (s *Service) moveTo(ctx context.Context, tx pgx.Tx, row dbsqlc.Site, zone *time.Location) error {
	changes, err := s.loadZones(ctx, tx, row.ID)
	if err != nil {
		return err
	}
	before, err := s.zones.load(row.Timezone)
	if err != nil {
		return err
	}
	now := s.o.Now()
	current := Site{Zone: before, Zones: changes}.ZoneAt(now)
	if len(changes) == 0 {
		if err := s.queries.InsertSiteZone(ctx, tx, row.ID, time.Time{}, current.String()); err != nil {
			return err
		}
	}
	return s.queries.UpsertSiteZone(ctx, tx, row.ID, nextMidnight(now, current), zone.String())
}
