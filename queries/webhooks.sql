-- name: InsertWebhookEvents :many
-- Answers the ids that are new; the others' keys were there before, or twice in
-- the batch. The caller sorts the rows by key, so that two batches with the same
-- keys never wait for each other.
insert into webhook_events (id, provider, event_type, external_id, status, processed_at, created_at,
                            raw, raw_sha256, headers, lease_id, lease_until)
select d.id, d.provider, d.event_type, d.external_id,
       case when d.dispatch then 'pending' else 'processed' end,
       case when d.dispatch then null else d.created_at end,
       d.created_at, d.raw, d.raw_sha256, d.headers::jsonb,
       case when d.dispatch then @lease_id::uuid end,
       case when d.dispatch then now() + make_interval(secs => @lease_seconds::float8) end
from (select unnest(@ids::uuid[]) as id,
             unnest(@providers::text[]) as provider,
             unnest(@event_types::text[]) as event_type,
             unnest(@external_ids::text[]) as external_id,
             unnest(@dispatch::boolean[]) as dispatch,
             unnest(@created_ats::timestamptz[]) as created_at,
             unnest(@raws::bytea[]) as raw,
             unnest(@raw_sha256s::bytea[]) as raw_sha256,
             unnest(@headers::text[]) as headers) d
on conflict (external_id, provider) where external_id <> '' do nothing
returning id;

-- name: FindWebhookEventsByKey :many
select id, provider, external_id from webhook_events
where external_id <> '' and (external_id, provider) in (select unnest(@external_ids::text[]), unnest(@providers::text[]));

-- name: CompleteWebhookEvent :execrows
-- The outcome inside the handler's own transaction: no row, no effect.
update webhook_events
set status = 'processed', handler_error = '', processed_at = @processed_at::timestamptz, lease_id = null, lease_until = null
where id = @id and lease_id = @lease_id::uuid;

-- name: RecordWebhookOutcomes :many
-- Outcomes of handlers that used no transaction, and failures. Answers the ids
-- whose lease still held.
update webhook_events e
set status = o.status, handler_error = o.handler_error,
    processed_at = case when o.status = 'processed' then o.at end,
    lease_id = null, lease_until = null
from (select unnest(@ids::uuid[]) as id,
             unnest(@lease_ids::uuid[]) as lease_id,
             unnest(@statuses::text[]) as status,
             unnest(@handler_errors::text[]) as handler_error,
             unnest(@ats::timestamptz[]) as at) o
where e.id = o.id and e.lease_id = o.lease_id
returning e.id;

-- name: ClaimStaleWebhookEvents :many
-- Pending events whose lease ran out, claimed for one sweep.
with stale as (
    select id from webhook_events
    where status = 'pending' and lease_until < now()
    order by lease_until
    limit @max_rows
    for update skip locked
)
update webhook_events e
set lease_id = @lease_id::uuid, lease_until = now() + make_interval(secs => @lease_seconds::float8)
from stale where e.id = stale.id
returning e.id, e.provider, e.event_type, e.external_id, e.retry_count, e.created_at, e.raw, e.headers;

-- name: ClaimWebhookReplay :one
-- The counter stops at the end of its range rather than failing the replay.
update webhook_events
set status = 'pending', retry_count = least(retry_count, 2147483646) + 1,
    lease_id = @lease_id::uuid, lease_until = now() + make_interval(secs => @lease_seconds::float8)
where id = @id
  and (status = 'failed' or status = 'pending' and lease_until < now() or status = 'processed' and @force::boolean)
returning id, provider, event_type, external_id, retry_count, created_at, raw, headers;
