package visitor

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
)

// EachSite runs work for each site by itself, for when one question to all sites failed
// because a server of a cluster is away (db.IsPartlyAway). It passes over the sites for
// which work fails in that way too, and returns the first of these errors at the end. Any
// other error ends it.
func EachSite(ctx context.Context, d *db.DB, queries *dbsqlc.Queries, work func(siteID uuid.UUID) error) error {
	ids, err := queries.ListSitesToVisit(ctx, d.Direct())
	if err != nil {
		return db.Translate(err)
	}
	var away error
	for _, id := range ids {
		err := db.Translate(work(id))
		if err != nil && (!d.IsPartlyAway(err) || ctx.Err() != nil) {
			return err
		}
		away = cmp.Or(away, err)
	}
	return away
}
