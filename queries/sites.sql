-- Sites and their keys.

-- name: InsertSite :one
insert into sites (id, name, domain, timezone, site_key, retention_months, created_at, updated_at)
values (@id, @name, @domain, @timezone, @site_key, @retention_months, @created_at, @created_at)
returning *;

-- name: ListSites :many
-- ListSites returns the sites older than one, newest first. Ids are UUIDv7, so
-- their order is that of creation.
select * from sites
where id < @before and deleted_at is null
order by id desc
limit @max_rows;

-- name: CountSites :one
select count(*) from sites where deleted_at is null;

-- name: FindSite :one
select * from sites where id = @id and deleted_at is null;

-- name: LockSite :one
select * from sites where id = @id and deleted_at is null
for update;

-- name: UpdateSite :one
update sites set name = @name, domain = @domain, timezone = @timezone, retention_months = @retention_months,
    has_zone_history = has_zone_history or @zone_changed, updated_at = @now
where id = @id
returning *;

-- name: ListSiteZones :many
select effective_from, timezone from site_zones where site_id = @site_id order by effective_from;

-- name: InsertSiteZone :exec
-- InsertSiteZone keeps a row that is there: a site's first zone.
insert into site_zones (site_id, effective_from, timezone) values (@site_id, @effective_from, @timezone)
on conflict (site_id, effective_from) do nothing;

-- name: UpsertSiteZone :exec
insert into site_zones (site_id, effective_from, timezone) values (@site_id, @effective_from, @timezone)
on conflict (site_id, effective_from) do update set timezone = excluded.timezone;

-- name: InsertSiteAPIKey :one
-- InsertSiteAPIKey returns no row when there is no such site.
insert into site_api_keys (site_id, id, name, scope, prefix, key_sha256, created_at)
select s.id, @id, @name, @scope, @prefix, @key_sha256, @created_at
from sites s
where s.id = @site_id and s.deleted_at is null
for key share
returning *;

-- name: ListSiteAPIKeys :many
select * from site_api_keys where site_id = @site_id order by id desc;

-- name: ListSiteAPIKeysBefore :many
select * from site_api_keys
where site_id = @site_id and id < @before
order by id desc
limit @max_rows;

-- name: CountSiteAPIKeys :one
select count(*) from site_api_keys where site_id = @site_id;

-- name: FindSiteAPIKeyByHash :one
-- FindSiteAPIKeyByHash returns the key that may be used now, and its site.
select sqlc.embed(s), sqlc.embed(k)
from site_api_keys k
join sites s on s.id = k.site_id and s.deleted_at is null
where k.site_id = @site_id and k.key_sha256 = @key_sha256
  and k.revoked_at is null and (k.expires_at is null or k.expires_at > @now);

-- name: RetireSiteAPIKey :one
-- RetireSiteAPIKey claims a key for rotation: it expires, unless it already
-- does or was revoked.
update site_api_keys set expires_at = @expires_at
where site_id = @site_id and id = @id and revoked_at is null and expires_at is null
returning *;

-- name: RevokeSiteAPIKey :one
update site_api_keys set revoked_at = coalesce(revoked_at, @now)
where site_id = @site_id and id = @id
returning *;

-- name: SiteAPIKeyExists :one
select exists (select from site_api_keys where site_id = @site_id and id = @id);

-- name: TouchSiteAPIKey :exec
-- TouchSiteAPIKey notes a use. It waits for nobody: whoever holds the row notes
-- one too.
update site_api_keys set last_used_at = @now
where (site_id, id) = (
    select k.site_id, k.id from site_api_keys k
    where k.site_id = @site_id and k.id = @id and (k.last_used_at is null or k.last_used_at < @stale)
    for update skip locked
);

-- name: UpdateSiteKey :one
update sites set site_key = @site_key, updated_at = @now where id = @id and deleted_at is null
returning *;

-- name: FindSiteBySiteKey :one
select * from sites where site_key = @site_key and deleted_at is null;

-- name: SiteKeyExists :one
select exists (select from sites where site_key = @site_key and id <> @id);

-- name: LockSiteKeyAdoption :exec
select pg_advisory_xact_lock(hashtext('sites.adopt_key'));

-- name: SiteAPIKeyHashExists :one
select exists (select from site_api_keys where key_sha256 = @key_sha256);

-- name: FindAdoptedSiteAPIKey :one
-- FindAdoptedSiteAPIKey is FindSiteAPIKeyByHash for a secret that names no site.
select sqlc.embed(s), sqlc.embed(k)
from site_api_keys k
join sites s on s.id = k.site_id and s.deleted_at is null
where k.key_sha256 = @key_sha256
  and k.revoked_at is null and (k.expires_at is null or k.expires_at > @now);
