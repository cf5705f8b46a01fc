package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// SiteAdmin keeps the sites. Find and Update return site.ErrNoSite, CreateWith and
// Update a fault of kind Invalid.
type SiteAdmin interface {
	CreateWith(ctx context.Context, name, domain, timezone string, retentionMonths *int) (site.Site, error)
	Find(ctx context.Context, id uuid.UUID) (site.Site, error)
	List(ctx context.Context, before uuid.UUID, limit int) ([]site.Site, error)
	Count(ctx context.Context) (int64, error)
	Update(ctx context.Context, id uuid.UUID, c site.Change) (site.Site, error)
}

// SiteEraser makes a site disappear and erases its data later. It returns
// site.ErrNoSite.
type SiteEraser interface {
	DeleteSite(ctx context.Context, id uuid.UUID) error
}

// SiteInput names a site. It is exported because Huma passes over embedded structs
// that are not.
type SiteInput struct {
	ID uuidText `path:"id" doc:"The site's id." example:"01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
}

// siteID reads the id; what is no UUID is no site's.
func (in *SiteInput) siteID() (uuid.UUID, error) { return parseID(in.ID, site.ErrNoSite) }

func parseID(text uuidText, missing error) (uuid.UUID, error) {
	id, err := uuid.Parse(string(text))
	if err != nil || len(text) != len(uuid.UUID{}.String()) {
		return uuid.UUID{}, missing
	}
	return id, nil
}

type siteOutput struct {
	Body single[Site]
}

type createdSiteOutput struct {
	Location string `header:"Location" doc:"The path of the site." example:"/api/admin/sites/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10"`
	Body     single[Site]
}

type listSitesOutput struct {
	Body list[Site]
}

type createSiteInput struct {
	Body model.Create[Site]
}

type updateSiteInput struct {
	SiteInput
	Body model.Update[Site]
}

type idCursor struct {
	ID uuid.UUID `json:"i"`
}

// SiteService keeps the sites and their keys.
type SiteService interface {
	SiteAdmin
	SiteKeyAdmin
}

// Sites are the operations on sites.
func Sites(s SiteService, e SiteEraser, d DropCounts) Resource {
	return Resource{
		Tag: "Sites", Area: "Statistics", Description: "The sites whose traffic is counted, their keys, and the hits that were not counted.",
		Register: func(a huma.API) {
			registerSites(a, s, e)
			registerSiteKeys(a, s, s)
			registerSiteDrops(a, s, d)
		},
	}
}

func registerSites(a huma.API, s SiteAdmin, e SiteEraser) {
	registerSiteReads(a, s)
	registerSiteWrites(a, s)

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID:   "delete-site",
		Method:        http.MethodDelete,
		Path:          "/api/admin/sites/{id}",
		Summary:       "Delete a site",
		Description:   "Delete a site and its keys at once; a job then erases its statistics. This can't be undone.",
		DefaultStatus: http.StatusNoContent,
	}, roles(identity.Admin), site.ErrNoSite), "siteId"), func(ctx context.Context, in *SiteInput) (*struct{}, error) {
		id, err := in.siteID()
		if err != nil {
			return nil, err
		}
		return nil, e.DeleteSite(ctx, id)
	})
}

func registerSiteReads(a huma.API, s SiteAdmin) {
	huma.Register(a, access(huma.Operation{
		OperationID: "list-sites",
		Method:      http.MethodGet,
		Path:        "/api/admin/sites",
		Summary:     "List sites",
		Description: "All sites, newest first.",
	}, roles(identity.Admin)), func(ctx context.Context, in *struct{ Page }) (*listSitesOutput, error) {
		var c idCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		sites, err := s.List(ctx, c.ID, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.Count(ctx) })
		if err != nil {
			return nil, err
		}
		return &listSitesOutput{Body: newList(sites, in.Limit, total, toSite, func(s site.Site) any { return idCursor{s.ID} })}, nil
	})

	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "get-site",
		Method:      http.MethodGet,
		Path:        "/api/admin/sites/{id}",
		Summary:     "Show a site",
		Description: "One site, with its public key.",
	}, roles(identity.Admin), site.ErrNoSite), "siteId"), func(ctx context.Context, in *SiteInput) (*siteOutput, error) {
		id, err := in.siteID()
		if err != nil {
			return nil, err
		}
		found, err := s.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		return &siteOutput{Body: single[Site]{Data: toSite(found), Message: "Site found."}}, nil
	})
}

func registerSiteWrites(a huma.API, s SiteAdmin) {
	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "create-site",
		Method:        http.MethodPost,
		Path:          "/api/admin/sites",
		Summary:       "Create a site",
		Description:   "Create a site with a public key for its pages. To read its statistics, create a secret key too.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin)), export.Variant{
		Order: orderSite, Capture: map[string]string{"siteId": "/data/id"},
	}), func(ctx context.Context, in *createSiteInput) (*createdSiteOutput, error) {
		wanted := in.Body.Value()
		made, err := s.CreateWith(ctx, wanted.Name, wanted.Domain, wanted.Timezone, wanted.RetentionMonths)
		if err != nil {
			return nil, within("body", err)
		}
		return &createdSiteOutput{Location: "/api/admin/sites/" + made.ID.String(),
			Body: single[Site]{Data: toSite(made), Message: "Site created."}}, nil
	})

	for _, method := range []string{http.MethodPatch, http.MethodPut} {
		id, summary, description := "update-site", "Update a site", "Update a site. Omitted fields stay."
		if method == http.MethodPut {
			id, summary, description = "put-site", "Update a site, in full or in part", "Same as PATCH: omitted fields stay."
		}
		huma.Register(a, exportedByID(access(huma.Operation{
			OperationID: id,
			Method:      method,
			Path:        "/api/admin/sites/{id}",
			Summary:     summary,
			Description: description + " A new time zone applies from the end of the site's current day.",
		}, roles(identity.Admin), site.ErrNoSite), "siteId"), func(ctx context.Context, in *updateSiteInput) (*siteOutput, error) {
			id, err := in.siteID()
			if err != nil {
				return nil, err
			}
			changed, err := s.Update(ctx, id, siteChange(&in.Body))
			if err != nil {
				return nil, within("body", err)
			}
			return &siteOutput{Body: single[Site]{Data: toSite(changed), Message: "Site changed."}}, nil
		})
	}
}

func siteChange(body *model.Update[Site]) site.Change {
	v, c := body.Value(), site.Change{}
	for name, field := range map[string]struct {
		to   **string
		text *string
	}{"name": {&c.Name, &v.Name}, "domain": {&c.Domain, &v.Domain}, "timezone": {&c.Timezone, &v.Timezone}} {
		if body.Has(name) {
			*field.to = field.text
		}
	}
	if body.Has("retention_months") {
		c.RetentionMonths = &v.RetentionMonths
	}
	return c
}
