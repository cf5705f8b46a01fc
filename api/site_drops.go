package api

import (
	"context"
	"net/http"
	"time"

	"github.com/waypost/waypost/internal/stats/drop"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats"
)

// DropCounts tells what was reported and not counted.
type DropCounts interface {
	ListDrops(ctx context.Context, siteID uuid.UUID, after *stats.DropPosition, limit int) ([]stats.DropCount, error)
	CountDrops(ctx context.Context, siteID uuid.UUID) (int64, error)
}

type siteDrop struct {
	Day    string `json:"day" format:"date" doc:"The site's day on which the hits arrived." example:"2026-01-02"`
	Reason string `json:"reason" enum:"bot,unknown_host,do_not_track,validation_failed,too_old,in_future,rate_limited,too_late" doc:"Why the hits were not counted." example:"bot"`
	Count  int64  `json:"count" minimum:"1" doc:"The number of hits and reported events." example:"12"`
}

type listSiteDropsOutput struct {
	Body list[siteDrop]
}

type dropCursor struct {
	Day    string      `json:"d"`
	Reason drop.Reason `json:"r"`
}

func registerSiteDrops(a huma.API, sites SiteAdmin, s DropCounts) {
	huma.Register(a, exportedByID(access(huma.Operation{
		OperationID: "list-site-drops",
		Method:      http.MethodGet,
		Path:        "/api/admin/sites/{id}/drops",
		Summary:     "List hits that were not counted",
		Description: "Hits that were not counted, by the site's day and reason, newest day first. `bot`: the client is automated. `unknown_host`: the page's host is not the site's. " +
			"`do_not_track`: the visitor sent DNT or GPC. `validation_failed`: a field breaks a rule. `too_old`, `in_future`: a server reported an event whose time is out of " +
			"bounds. `rate_limited`: too many hits, answered 429; these counts are written every few seconds, so a crash may lose some. `too_late`: an imported line of a day " +
			"whose single visits were deleted at the end of their retention.",
	}, roles(identity.Admin), site.ErrNoSite), "siteId"), func(ctx context.Context, in *listSiteKeysInput) (*listSiteDropsOutput, error) {
		after, err := dropPosition(in.Cursor)
		if err != nil {
			return nil, err
		}
		of, err := in.find(ctx, sites)
		if err != nil {
			return nil, err
		}
		drops, err := s.ListDrops(ctx, of.ID, after, in.Limit+1)
		if err != nil {
			return nil, err
		}
		total, err := in.count(func() (int64, error) { return s.CountDrops(ctx, of.ID) })
		if err != nil {
			return nil, err
		}
		return &listSiteDropsOutput{Body: newList(drops, in.Limit, total, toSiteDrop, func(d stats.DropCount) any {
			return dropCursor{Day: d.Day.Format(time.DateOnly), Reason: d.Reason}
		})}, nil
	})
}

func dropPosition(cursor string) (*stats.DropPosition, error) {
	if cursor == "" {
		return nil, nil
	}
	var c dropCursor
	if err := decodeCursor(cursor, &c); err != nil {
		return nil, err
	}
	day, err := time.Parse(time.DateOnly, c.Day)
	if err != nil {
		return nil, fault.Validation(map[string]string{"query.cursor": "This is not a cursor of this list."})
	}
	return &stats.DropPosition{Day: day, Reason: c.Reason}, nil
}

func toSiteDrop(d stats.DropCount) siteDrop {
	return siteDrop{Day: d.Day.Format(time.DateOnly), Reason: string(d.Reason), Count: d.Count}
}
