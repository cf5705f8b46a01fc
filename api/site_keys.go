package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/apidoc/export"
	"github.com/waypost/waypost/internal/apidoc/model"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// SiteKeyAdmin keeps the sites' secret keys. CreateKey returns site.ErrNoSite,
// RotateKey and RevokeKey site.ErrNoKey, RotateKey also site.ErrRetired.
type SiteKeyAdmin interface {
	CreateKey(ctx context.Context, siteID uuid.UUID, name string, scope site.Scope) (site.Key, string, error)
	ListKeysBefore(ctx context.Context, siteID, before uuid.UUID, limit int) ([]site.Key, error)
	CountKeys(ctx context.Context, siteID uuid.UUID) (int64, error)
	RotateKey(ctx context.Context, siteID, keyID uuid.UUID, grace time.Duration) (site.Key, string, error)
	RevokeKey(ctx context.Context, siteID, keyID uuid.UUID) (site.Key, error)
}

type createSiteKeyInput struct {
	SiteInput
	Body model.Request[NewSiteKey]
}

// SiteKeyInput names a key of a site.
type SiteKeyInput struct {
	SiteInput
	KeyID uuidText `path:"kid" doc:"The key's id." example:"01968a3e-8d40-7a52-8f66-2a7b8c9d0e1f"`
}

func (in *SiteKeyInput) ids() (siteID, keyID uuid.UUID, err error) {
	if siteID, err = parseID(in.ID, site.ErrNoKey); err == nil {
		keyID, err = parseID(in.KeyID, site.ErrNoKey)
	}
	return siteID, keyID, err
}

type rotateSiteKeyInput struct {
	SiteKeyInput
	Grace int `query:"grace" minimum:"0" maximum:"2592000" default:"86400" doc:"Seconds that the old key keeps working. 0 ends it at once." example:"3600"`
}

// newSiteKeyOutput carries a secret.
type newSiteKeyOutput struct {
	CacheControl string `header:"Cache-Control" doc:"The answer contains a secret, so it must not be stored." example:"no-store"`
	Location     string `header:"Location" doc:"The path of the key; DELETE revokes it." example:"/api/admin/sites/01968a3e-7c2f-7d31-9c55-1f6f7f0f2a10/keys/01968a3e-8d40-7a52-8f66-2a7b8c9d0e1f"`
	Body         single[newSiteAPIKey]
}

func newKeyOutput(k site.Key, secret, message string) *newSiteKeyOutput {
	return &newSiteKeyOutput{
		CacheControl: "no-store",
		Location:     "/api/admin/sites/" + k.SiteID.String() + "/keys/" + k.ID.String(),
		Body:         single[newSiteAPIKey]{Data: newSiteAPIKey{SiteAPIKey: toSiteAPIKey(k), Key: secret}, Message: message},
	}
}

type listSiteKeysInput struct {
	SiteInput
	Page
}

type listSiteKeysOutput struct {
	Body list[SiteAPIKey]
}

func registerSiteKeys(a huma.API, sites SiteAdmin, s SiteKeyAdmin) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "list-site-keys",
		Method:      http.MethodGet,
		Path:        "/api/admin/sites/{id}/keys",
		Summary:     "List a site's secret keys",
		Description: "The site's secret keys, without their secrets, newest first. Retired keys are included.",
	}, roles(identity.Admin).forPeople(credentials), site.ErrNoSite), "siteId"), func(ctx context.Context, in *listSiteKeysInput) (*listSiteKeysOutput, error) {
		var c idCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		of, err := in.find(ctx, sites)
		if err != nil {
			return nil, err
		}
		keys, err := s.ListKeysBefore(ctx, of.ID, c.ID, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountKeys(ctx, of.ID) })
		if err != nil {
			return nil, err
		}
		return &listSiteKeysOutput{Body: newList(keys, in.Limit, total, toSiteAPIKey, func(k site.Key) any { return idCursor{k.ID} })}, nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "create-site-key",
		Method:        http.MethodPost,
		Path:          "/api/admin/sites/{id}/keys",
		Summary:       "Create a secret key for a site",
		Description:   "Create a key for reading statistics or reporting visits. The secret is only in this answer; the service stores its hash.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin).forPeople(credentials), site.ErrNoSite), export.Variant{
		Parameters: map[string]string{"id": "{{siteId}}"}, Body: map[string]any{"name": "reporter", "scope": "ingest"},
		Capture: map[string]string{"siteKeyId": "/data/id", ingestKeyVariable: "/data/key"},
	}), func(ctx context.Context, in *createSiteKeyInput) (*newSiteKeyOutput, error) {
		id, err := in.siteID()
		if err != nil {
			return nil, err
		}
		wanted := in.Body.Value()
		key, secret, err := s.CreateKey(ctx, id, wanted.Name, site.Scope(wanted.Scope))
		if err != nil {
			return nil, within("body", err)
		}
		return newKeyOutput(key, secret, "Key created. Keep it: it is shown only this once."), nil
	})

	registerSiteKeyEnds(a, s)
}

func registerSiteKeyEnds(a huma.API, s SiteKeyAdmin) {
	exportedKey := export.Variant{Parameters: map[string]string{"id": "{{siteId}}", "kid": "{{siteKeyId}}"}}

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "rotate-site-key",
		Method:        http.MethodPost,
		Path:          "/api/admin/sites/{id}/keys/{kid}/rotate",
		Summary:       "Replace a secret key of a site",
		Description:   "Create a key with the same name and scope. The old key keeps working for a grace period, by default a day.",
		DefaultStatus: http.StatusCreated,
	}, roles(identity.Admin).forPeople(credentials), site.ErrNoKey, site.ErrRetired), exportedKey), func(ctx context.Context, in *rotateSiteKeyInput) (*newSiteKeyOutput, error) {
		siteID, keyID, err := in.ids()
		if err != nil {
			return nil, err
		}
		key, secret, err := s.RotateKey(ctx, siteID, keyID, time.Duration(in.Grace)*time.Second)
		if err != nil {
			return nil, within("query", err)
		}
		return newKeyOutput(key, secret, "Key replaced. Keep the new one: it is shown only this once."), nil
	})

	huma.Register(a, exported(access(huma.Operation{
		OperationID:   "revoke-site-key",
		Method:        http.MethodDelete,
		Path:          "/api/admin/sites/{id}/keys/{kid}",
		Summary:       "Revoke a secret key of a site",
		Description:   "Revoke a key at once. Revoking it again changes nothing.",
		DefaultStatus: http.StatusNoContent,
	}, roles(identity.Admin).forPeople(credentials), site.ErrNoKey), exportedKey), func(ctx context.Context, in *SiteKeyInput) (*struct{}, error) {
		siteID, keyID, err := in.ids()
		if err != nil {
			return nil, err
		}
		_, err = s.RevokeKey(ctx, siteID, keyID)
		return nil, err
	})
}

// find returns the site of the path, or site.ErrNoSite.
func (in *SiteInput) find(ctx context.Context, s SiteAdmin) (site.Site, error) {
	id, err := in.siteID()
	if err != nil {
		return site.Site{}, err
	}
	return s.Find(ctx, id)
}

// count asks for the number of all rows, if the client did.
func (p Page) count(ask func() (int64, error)) (*int64, error) {
	if !p.Total {
		return nil, nil
	}
	n, err := ask()
	return &n, err
}
