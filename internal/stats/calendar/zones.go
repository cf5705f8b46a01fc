package calendar

import (
	"time"

	"github.com/waypost/waypost/internal/site"
)

// Zones are the zones whose days a site had, oldest first: the first since ever, each
// other one from a midnight of the one before on. There is at least one.
type Zones []Zone

// Zone says that from From on days are those of Location.
type Zone struct {
	From     time.Time
	Location *time.Location
}

// Always is one zone that never changed.
func Always(zone *time.Location) Zones { return Zones{{Location: zone}} }

// At returns the zone that days have at t.
func (z Zones) At(t time.Time) *time.Location {
	at := z[0].Location
	for _, change := range z {
		if change.From.After(t) {
			break
		}
		at = change.Location
	}
	return at
}

// ZonesOf returns those of a site.
func ZonesOf(s site.Site) Zones {
	if len(s.Zones) == 0 {
		return Always(s.Zone)
	}
	zones := make(Zones, len(s.Zones))
	for i, change := range s.Zones {
		zones[i] = Zone{From: change.From, Location: change.Zone}
	}
	return zones
}
