-- What surrounds the counting: reported events, drops, and erasure.

-- name: ClaimReportedEvents :many
-- ClaimReportedEvents returns the digests that were new. In key order, so that
-- two batches never wait for each other in a circle. Import 0 is none.
insert into reported_events (site_id, event_digest, added_by, claimed_on)
select @site_id, d.digest, nullif(@import_run::bigint, 0), @claimed_on::date
from (select unnest(@digests::bytea[]) as digest) d
order by d.digest
on conflict (site_id, event_digest) do nothing
returning event_digest;

-- name: AddSiteDrops :exec
-- AddSiteDrops takes each (site, day, reason) at most once; in key order, as above.
insert into site_drops (site_id, day, reason, count)
select d.site_id, d.day, d.reason, d.count
from (
    select unnest(@site_ids::uuid[]) as site_id, unnest(@days::date[]) as day,
           unnest(@reasons::text[]) as reason, unnest(@counts::bigint[]) as count
) d
order by d.site_id, d.day, d.reason
on conflict (site_id, day, reason) do update set count = site_drops.count + excluded.count;

-- name: ListSiteDrops :many
-- ListSiteDrops returns what is behind a position, newest day first.
select day, reason, count from site_drops
where site_id = @site_id
  and (day < @before_day::date or day = @before_day::date and reason collate "C" > @after_reason::text)
order by day desc, reason collate "C"
limit @max_rows;

-- name: CountSiteDrops :one
select count(*) from site_drops where site_id = @site_id;

-- name: TrimSiteDrops :execrows
delete from site_drops d using (
    select x.day, x.reason from site_drops x where x.site_id = @site_id and x.day < @before order by x.day, x.reason limit @max_rows
) gone
where d.site_id = @site_id and d.day = gone.day and d.reason = gone.reason;

-- name: MarkSiteDeleted :one
update sites set deleted_at = @now, updated_at = @now
where id = @id and deleted_at is null
returning id;

-- name: FindSiteDeletion :one
select deleted_at from sites where id = @id;

-- name: ListDeletedSites :many
-- ListDeletedSites returns those that should have been erased by then.
select id from sites where deleted_at < @before order by deleted_at limit @max_rows;

-- name: DeleteSiteKeys :exec
delete from site_api_keys where site_id = @site_id;

-- name: DeleteSiteZones :exec
delete from site_zones where site_id = @site_id;

-- name: DeleteSite :execrows
delete from sites where id = @id and deleted_at is not null;
