package api

import (
	"time"

	"github.com/waypost/waypost/internal/site"
)

// Site is a site whose traffic is counted, as its administrators see it.
type Site struct {
	ID              string `json:"id" model:"primary,uuid" doc:"The site's id, a UUID of version 7." example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
	Name            string `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"The site's name for people." example:"Blog"`
	Domain          string `json:"domain" model:"required,host,min=1,max=253" doc:"Host name whose visits count, including subdomains." example:"blog.example.com"`
	Timezone        string `json:"timezone" model:"min=1,max=100,default=UTC" doc:"IANA time zone of the site's days. A new one applies from the end of the current day." example:"Europe/Lisbon"`
	RetentionMonths *int   `json:"retention_months" model:"min=0,max=1200" doc:"How many months single visits are kept, besides the current one; counts stay. 0 keeps them for ever; null means WAYPOST_STATS_RETENTION_MONTHS. Deleted visits can't be restored." example:"24"`
	// SiteKey is public.
	SiteKey      string    `json:"site_key" model:"readonly" doc:"The public key in the site's pages, with which they report visits." example:"wps_mfrggzdfmztwq2lk_01968a3e7c2f7d319c551f6f7f0f2a10"`
	TimezoneFrom time.Time `json:"timezone_from,omitzero" model:"readonly" doc:"When a new time zone takes effect; absent once it has taken effect." example:"2026-01-03T00:00:00Z"`
	CreatedAt    time.Time `json:"created_at" model:"auto" doc:"When the site was created." example:"2026-01-02T15:04:05Z"`
	UpdatedAt    time.Time `json:"updated_at" model:"auto" doc:"When the site last changed." example:"2026-01-02T15:04:05Z"`
}

func toSite(s site.Site) Site {
	out := Site{
		ID: s.ID.String(), Name: s.Name, Domain: s.Domain, Timezone: s.WantedZone().String(), SiteKey: s.Key,
		RetentionMonths: s.RetentionMonths, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	if s.WantedZone().String() != s.Zone.String() {
		out.TimezoneFrom = s.Zones[len(s.Zones)-1].From
	}
	return out
}

// NewSiteKey is the body of a request for a secret key.
type NewSiteKey struct {
	Name  string `json:"name" model:"required,line,nonblank,min=1,max=100" doc:"What the key is for." example:"dashboard"`
	Scope string `json:"scope" model:"oneof=read ingest,default=read" doc:"read: the site's statistics. ingest: reporting visits from a server." example:"read"`
}

// SiteAPIKey is what is known of a secret key. It is exported because Huma leaves
// an unexported embedded struct out of the schema.
type SiteAPIKey struct {
	ID         string     `json:"id" format:"uuid" doc:"The key's id." example:"01968a3e-8d40-7a52-8f66-2a7b8c9d0e1f"`
	Name       string     `json:"name" doc:"What the key is for." example:"dashboard"`
	Scope      string     `json:"scope" enum:"read,ingest" doc:"What the key may do." example:"read"`
	Prefix     string     `json:"prefix" doc:"The secret's first characters, to tell keys apart." example:"wpr_mfrggzdf"`
	CreatedAt  time.Time  `json:"created_at" doc:"When the key was created." example:"2026-01-02T15:04:05Z"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" doc:"When the key ends. Rotating the key sets this." example:"2026-01-03T15:04:05Z"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty" doc:"When the key was revoked." example:"2026-01-02T16:00:00Z"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"When the key was last used, exact to a minute." example:"2026-01-02T15:30:00Z"`
}

// newSiteAPIKey carries the secret, which is shown this once.
type newSiteAPIKey struct {
	SiteAPIKey
	Key string `json:"key" doc:"The secret, shown only this once. Send it in X-Analytics-API-Key." example:"wpr_mfrggzdfmztwq2lkmfrggzdfmztwq2lkmfrggzdfmztwq2lkmfra_01968a3e7c2f7d319c551f6f7f0f2a10"`
}

func toSiteAPIKey(k site.Key) SiteAPIKey {
	return SiteAPIKey{
		ID: k.ID.String(), Name: k.Name, Scope: string(k.Scope), Prefix: k.Prefix, CreatedAt: k.CreatedAt.UTC(),
		ExpiresAt: utc(k.ExpiresAt), RevokedAt: utc(k.RevokedAt), LastUsedAt: utc(k.LastUsedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
