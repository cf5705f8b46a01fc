// Package demo is what dev seeds, through the services: an ADMIN, a few posts and blogs,
// and a site with 90 days of made-up but life-like traffic.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/account"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/imports"
)

const (
	days    = 90
	domain  = "demo.waypost.example"
	keyName = "dev"
)

// ServicesUsed are where the seeds go.
type ServicesUsed struct {
	Accounts *account.Service
	Content  *content.Service
	Sites    *site.Service
	Importer *imports.Importer
}

// Admin makes the ADMIN account unless it exists, and sets its password when
// reset asks for it.
func Admin(ctx context.Context, s ServicesUsed, email, password string, reset bool) error {
	ctx = identity.NewContext(ctx, identity.System("demo"))
	_, err := s.Accounts.FindByEmail(ctx, email)
	switch {
	case errors.Is(err, account.ErrNotFound):
		_, err = s.Accounts.Create(ctx, account.NewUser{
			FirstName: "Demo", LastName: "Admin", Email: email, Password: password, Role: identity.Admin,
			AllowCommonPassword: true, // the developer's own machine
		})
		return err
	case err != nil || !reset:
		return err
	}
	return s.Accounts.SetPassword(ctx, email, password)
}

// Site finds the demo site, or makes it with its traffic, and returns it with
// the secret of a new reading key; the secret is empty when the site was there,
// for it can't be shown again. progress is told how many hits are in of all.
//
// The traffic follows from the site's id and the time of its making, and an
// import repeats nothing, so after a crash in the middle it is completed; the
// key, made last, says that nothing is missing.
func Site(ctx context.Context, s ServicesUsed, progress func(done, all int)) (site.Site, string, error) {
	ctx = identity.NewContext(ctx, identity.System("demo"))
	found, err := findOrCreate(ctx, s.Sites)
	if err != nil {
		return site.Site{}, "", err
	}
	keys, err := s.Sites.ListKeys(ctx, found.ID)
	if err != nil {
		return site.Site{}, "", err
	}
	for _, k := range keys {
		if k.Name == keyName {
			return found, "", nil
		}
	}
	if err := seedTraffic(ctx, s.Importer, found, progress); err != nil {
		return site.Site{}, "", err
	}
	_, secret, err := s.Sites.CreateKey(ctx, found.ID, keyName, site.ScopeRead)
	return found, secret, err
}

func findOrCreate(ctx context.Context, sites *site.Service) (site.Site, error) {
	const pageSize = 100
	var before uuid.UUID
	for {
		list, err := sites.List(ctx, before, pageSize)
		if err != nil {
			return site.Site{}, err
		}
		for _, s := range list {
			if s.Domain == domain {
				return s, nil
			}
		}
		if len(list) < pageSize {
			return sites.Create(ctx, "Demo", domain, "UTC")
		}
		before = list[len(list)-1].ID
	}
}

// line is an event as the NDJSON import takes it.
type line struct {
	TS        time.Time         `json:"ts"`
	URL       string            `json:"url"`
	Referrer  string            `json:"referrer,omitempty"`
	Name      string            `json:"name,omitempty"`
	Props     map[string]string `json:"props,omitempty"`
	IP        string            `json:"ip"`
	UserAgent string            `json:"user_agent"`
}

func seedTraffic(ctx context.Context, importer *imports.Importer, to site.Site, progress func(done, all int)) error {
	var seed [32]byte
	copy(seed[:], to.ID[:])
	hits := traffic(rand.New(rand.NewChaCha8(seed)), to.Domain, to.CreatedAt, days)

	r, w := io.Pipe()
	go func() {
		enc := json.NewEncoder(w)
		for _, h := range hits {
			err := enc.Encode(line{h.at, h.url, h.referrer, h.name, h.props, h.address.String(), h.userAgent})
			if err != nil {
				return // the importer stopped reading and says why
			}
		}
		_ = w.Close() // never fails
	}()
	defer r.Close()
	report, err := importer.Import(ctx, to, r, imports.NDJSON, func(p imports.Progress) { progress(p.Lines, len(hits)) })
	if err != nil {
		return fmt.Errorf("seed traffic: %w", err)
	}
	if got := report.Imported + report.Skipped[imports.SkipDuplicate]; got != len(hits) {
		return fmt.Errorf("seed traffic: %d of %d hits were taken: %v", got, len(hits), report.Skipped)
	}
	return nil
}
