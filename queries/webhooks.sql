-- name: InsertWebhookEvents :many
-- Answers the ids that are new; the others' keys were there before, or twice in
-- the batch. The caller sorts the rows by key, so that two batches with the same
-- keys never wait for each other.
insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at,
                            raw, raw_sha256, headers, sealed_headers, lease_id, lease_until, attempts, tries, attempt_at)
select d.id, d.provider, d.event_type, d.external_id,
       case when d.dispatch then 'pending' else 'processed' end,
       case when d.dispatch then null else d.created_at end,
       d.created_at, d.raw, d.raw_sha256, d.headers::jsonb, d.sealed_headers,
       case when d.dispatch then @lease_id::uuid end,
       case when d.dispatch then now() + make_interval(secs => @lease_seconds::float8) end,
       d.dispatch::integer, d.dispatch::integer, case when d.dispatch then now() end
from (select unnest(@ids::uuid[]) as id,
             unnest(@providers::text[]) as provider,
             unnest(@event_types::text[]) as event_type,
             unnest(@external_ids::text[]) as external_id,
             unnest(@dispatch::boolean[]) as dispatch,
             unnest(@created_ats::timestamptz[]) as created_at,
             unnest(@raws::bytea[]) as raw,
             unnest(@raw_sha256s::bytea[]) as raw_sha256,
             unnest(@headers::text[]) as headers,
             unnest(@sealed_headers::bytea[]) as sealed_headers) d
on conflict (external_id, provider) where external_id <> '' do nothing
returning id;

-- name: FindWebhookEventsByKey :many
select id, provider, external_id, raw_sha256 from webhook_events
where external_id <> '' and (external_id, provider) in (select unnest(@external_ids::text[]), unnest(@providers::text[]));
