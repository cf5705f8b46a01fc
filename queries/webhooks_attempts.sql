-- name: CompleteWebhookEvent :execrows
-- The outcome inside the handler's own transaction: no row, no effect.
update webhook_events
set status = 'processed', handler_error = '', processed_at = @processed_at::timestamptz,
    attempt_ms = @took_ms::float8, interrupted = 0, lease_id = null, lease_until = null, job_id = null, sealed_headers = null
where id = @id and lease_id = @lease_id::uuid;

-- name: RecordWebhookOutcomes :many
-- Outcomes of handlers that used no transaction, failures, and what is left to a
-- job (job_id is not 0), which a sweep leaves alone for the wait and five minutes
-- more. What is deferred was not attempted. Answers the ids whose lease still held.
update webhook_events e
set status = o.status, handler_error = o.handler_error,
    processed_at = case when o.status = 'processed' then o.at end,
    attempts = e.attempts - o.deferred::integer, tries = e.tries - o.deferred::integer,
    attempt_at = case when not o.deferred then e.attempt_at end,
    attempt_ms = case when not o.deferred then o.took_ms end,
    interrupted = 0, lease_id = null,
    lease_until = case when o.status = 'pending' then now() + make_interval(secs => o.wait_seconds + 300) end,
    job_id = nullif(o.job_id, 0),
    sealed_headers = case when o.status = 'pending' then e.sealed_headers end
from (select unnest(@ids::uuid[]) as id,
             unnest(@lease_ids::uuid[]) as lease_id,
             unnest(@statuses::text[]) as status,
             unnest(@handler_errors::text[]) as handler_error,
             unnest(@ats::timestamptz[]) as at,
             unnest(@took_ms::float8[]) as took_ms,
             unnest(@deferred::boolean[]) as deferred,
             unnest(@wait_seconds::float8[]) as wait_seconds,
             unnest(@job_ids::bigint[]) as job_id) o
where e.id = o.id and e.lease_id = o.lease_id
returning e.id;

-- name: ClaimStaleWebhookEvents :many
-- Pending events whose attempt never ended, or that wait for one and that no living
-- job owns, claimed for one sweep: those whose handler, the exact one first, is
-- among the given bindings and works by jobs or not. An attempt whose outcome never
-- came is interrupted.
with stale as (
    select w.* from webhook_events w
    where w.status = 'pending' and w.lease_until < now()
      and w.interrupted between @least_interrupted and @most_interrupted
      and (w.lease_id is not null or w.job_id is null or not webhook_job_lives(w.job_id))
      and (select b.by_job
           from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type, unnest(@by_jobs::boolean[]) as by_job) b
           where b.provider = w.provider and b.event_type in (w.event_type, '')
           order by b.event_type desc limit 1) = @by_job::boolean
    order by w.lease_until
    limit @max_rows
    for no key update skip locked
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
    select id, attempts, attempt_at, case when lease_id is null then 'failed' else 'interrupted' end,
           case when lease_id is null then handler_error else '' end, attempt_ms
    from stale where attempt_at is not null
)
update webhook_events e
set lease_id = @lease_id::uuid, lease_until = now() + make_interval(secs => @lease_seconds::float8), job_id = null,
    attempts = stale.attempts + 1, tries = stale.tries + 1, attempt_at = now(), attempt_ms = null,
    interrupted = stale.interrupted + (stale.lease_id is not null)::integer
from stale where e.id = stale.id
returning e.id, e.provider, e.event_type, e.external_id, e.retry_count, e.tries, e.created_at, e.raw, e.headers,
          (stale.status = 'processed' and stale.attempts = 0)::boolean as unhandled;

-- name: FailInterruptedWebhookEvents :many
-- Events whose attempts ended without an outcome too many times in a row: their
-- handler, which is one of the given, takes the process with it. With job_id 0 these
-- are all such events, else the one that this job owns.
with poison as (
    select w.* from webhook_events w
    where w.status = 'pending' and w.lease_until < now() and w.lease_id is not null
      and w.interrupted + 1 >= @most_interrupted::integer
      and (@job_id::bigint = 0 or w.job_id = @job_id)
      and exists (select from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type) b
                  where b.provider = w.provider and b.event_type in (w.event_type, ''))
    for no key update skip locked
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome)
    select id, attempts, attempt_at, 'interrupted' from poison where attempt_at is not null
)
update webhook_events e
set status = 'failed', handler_error = @handler_error, processed_at = null, attempt_at = null, attempt_ms = null, interrupted = 0,
    lease_id = null, lease_until = null, job_id = null, sealed_headers = null
from poison where e.id = poison.id
returning e.id, e.provider;

-- name: ClaimWebhookJob :one
-- The event that a job owns, unless another run of the job has it at this moment, or
-- none of the given bindings is its handler.
with owned as (
    select w.* from webhook_events w
    where w.id = @id and w.job_id = @job_id::bigint and w.status = 'pending'
      and (w.lease_id is null or w.lease_until < now())
      and exists (select from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type) b
                  where b.provider = w.provider and b.event_type in (w.event_type, ''))
    for no key update
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
    select id, attempts, attempt_at, case when lease_id is null then 'failed' else 'interrupted' end,
           case when lease_id is null then handler_error else '' end, attempt_ms
    from owned where attempt_at is not null
)
update webhook_events e
set lease_id = @lease_id::uuid, lease_until = now() + make_interval(secs => @lease_seconds::float8),
    attempts = owned.attempts + 1, tries = owned.tries + 1, attempt_at = now(), attempt_ms = null,
    interrupted = owned.interrupted + (owned.lease_id is not null)::integer
from owned where e.id = owned.id
returning e.id, e.provider, e.event_type, e.external_id, e.retry_count, e.tries, e.created_at, e.raw, e.headers,
          (owned.status = 'processed' and owned.attempts = 0)::boolean as unhandled;

-- name: ReleaseWebhookJob :execrows
-- Takes a job off its event, which none of the given bindings is the handler of: the
-- event is due now, for the sweep of an instance that has its handler.
update webhook_events w
set job_id = null, lease_until = least(w.lease_until, now())
where w.id = @id and w.job_id = @job_id::bigint and w.status = 'pending'
  and (w.lease_id is null or w.lease_until < now())
  and not exists (select from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type) b
                  where b.provider = w.provider and b.event_type in (w.event_type, ''));

-- name: IsWebhookJobOwner :one
select exists (select from webhook_events where id = @id and job_id = @job_id::bigint and status = 'pending');

-- name: ClaimWebhookReplay :one
-- What waits for its next attempt is replayed too; its job finds nothing then. The
-- counter stops at the end of its range rather than failing the replay. unhandled
-- tells an event that was processed because it had no handler.
with target as (
    select w.* from webhook_events w
    where w.id = @id and w.raw is not null
      and (w.status = 'failed'
           or w.status = 'pending' and (w.lease_id is null or w.lease_until < now())
           or w.status = 'processed' and @force::boolean)
    for no key update
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
    select id, attempts, attempt_at,
           case when status <> 'pending' then status when lease_id is null then 'failed' else 'interrupted' end,
           case when status = 'failed' or lease_id is null then handler_error else '' end, attempt_ms
    from target where attempt_at is not null
)
update webhook_events e
set status = 'pending', retry_count = least(target.retry_count, 2147483646) + 1,
    lease_id = @lease_id::uuid, lease_until = now() + make_interval(secs => @lease_seconds::float8), job_id = null,
    attempts = target.attempts + 1, tries = 1, interrupted = 0, attempt_at = now(), attempt_ms = null
from target where e.id = target.id
returning e.id, e.provider, e.event_type, e.external_id, e.retry_count, e.tries, e.created_at, e.raw, e.headers,
          (target.status = 'processed' and target.attempts = 0)::boolean as unhandled;
