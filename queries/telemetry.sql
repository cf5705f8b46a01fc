-- name: InsertTelemetryMinute :exec
insert into telemetry_minutes (id, instance, minute, requests, slow, failed, process)
values (@id, @instance, @minute, @requests, @slow, @failed, @process)
on conflict (id) do nothing;

-- name: ListTelemetryMinutes :many
select minute, requests from telemetry_minutes where minute >= @since and minute < @until order by minute;

-- name: ListSlowRequests :many
-- The slowest of each instance's slowest, which are those of the minutes whose first is
-- the slowest: each minute's are in this order.
select t.minute, t.instance, s.request::jsonb as request
from (select m.* from telemetry_minutes m
      where m.minute >= @since and m.minute < @until
      order by (m.slow->0->>'took_us')::bigint desc nulls last limit @most) t,
     jsonb_array_elements(t.slow) s (request)
order by (s.request->>'took_us')::bigint desc
limit @most;

-- name: ListFailedRequests :many
select t.minute, t.instance, f.request::jsonb as request
from (select m.* from telemetry_minutes m
      where m.failed is not null and m.minute >= @since and m.minute < @until
      order by m.minute desc limit @most) t,
     jsonb_array_elements(t.failed) f (request)
order by f.request->>'at' desc
limit @most;

-- name: ListTelemetryProcesses :many
-- The newest minute of each instance.
select distinct on (instance) instance, minute, process from telemetry_minutes
where minute >= @since and minute < @until
order by instance, minute desc;

-- name: ListTelemetryCounts :many
-- What all instances counted, minute by minute.
select t.minute, coalesce(t.process->'counts', '{}')::jsonb as counts
from telemetry_minutes t
where t.minute >= @since and t.minute < @until;

-- name: DeleteTelemetryMinutes :execrows
-- Also of a process whose clock was ahead.
delete from telemetry_minutes where minute < @before or minute > @after;

-- name: MeasureBacklog :one
-- What waits to be done, each counted up to 10,000.
select
    (select count(*) from (select from webhook_events where status = 'pending' limit 10000) w)::bigint as webhooks,
    coalesce((select extract(epoch from clock_timestamp() - min(e.created_at)) from (
        select created_at from webhook_events where status = 'pending' limit 10000) e), 0)::float8 as webhooks_seconds,
    (select count(*) from (select from mails where status = 'queued' limit 10000) m)::bigint as mails,
    coalesce((select extract(epoch from clock_timestamp() - min(q.queued_at)) from (
        select queued_at from mails where status = 'queued' limit 10000) q), 0)::float8 as mails_seconds,
    (select count(*) from (select from audit_pending limit 10000) a)::bigint as audit;
