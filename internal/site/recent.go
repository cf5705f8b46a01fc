package site

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxRecent bounds the sites kept in memory.
const maxRecent = 10_000

// recent keeps sites for a moment, because every visit looks its site up.
type recent struct {
	mu    sync.RWMutex
	sites map[uuid.UUID]recentSite
}

type recentSite struct {
	site Site
	read time.Time
}

func (r *recent) get(id uuid.UUID, notBefore time.Time) (Site, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.sites[id]
	return s.site, ok && s.read.After(notBefore)
}

func (r *recent) put(id uuid.UUID, s Site, read time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sites == nil || len(r.sites) >= maxRecent {
		r.sites = make(map[uuid.UUID]recentSite)
	}
	r.sites[id] = recentSite{site: s, read: read}
}

func (r *recent) drop(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sites, id)
}

// zones keeps what time.LoadLocation reads and parses from a file each time.
// Only names that were valid once are asked for, so their number is bounded.
type zones struct {
	loaded sync.Map // string to *time.Location
}

func (z *zones) load(name string) (*time.Location, error) {
	if zone, ok := z.loaded.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("site: zone %q: %w", name, err)
	}
	z.loaded.Store(name, zone)
	return zone, nil
}
