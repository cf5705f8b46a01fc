-- name: InsertWebhookForwardedEvents :many
-- InsertWebhookEvents for events that targets get, whose rows come with those of the new
-- events. Such an event has no lease and is due for no sweep.
with new as (
    insert into webhook_events (id, provider, event_type, external_id, status, created_at, raw, raw_sha256, headers, sealed_headers, lease_until)
    select d.id, d.provider, d.event_type, d.external_id, 'pending', d.created_at, d.raw, d.raw_sha256, d.headers::jsonb, d.sealed_headers, 'infinity'
    from (select unnest(@ids::uuid[]) as id,
                 unnest(@providers::text[]) as provider,
                 unnest(@event_types::text[]) as event_type,
                 unnest(@external_ids::text[]) as external_id,
                 unnest(@created_ats::timestamptz[]) as created_at,
                 unnest(@raws::bytea[]) as raw,
                 unnest(@raw_sha256s::bytea[]) as raw_sha256,
                 unnest(@headers::text[]) as headers,
                 unnest(@sealed_headers::bytea[]) as sealed_headers) d
    on conflict (external_id, provider) where external_id <> '' do nothing
    returning id, provider, created_at
), sent as (
    insert into webhook_forwards (event_id, target, provider, due_at, trace, created_at)
    select n.id, t.target, n.provider, now(), t.trace, n.created_at
    from new n join (select unnest(@event_ids::uuid[]) as event_id, unnest(@targets::text[]) as target, unnest(@traces::text[]) as trace) t on t.event_id = n.id
)
select id from new;

-- name: ClaimWebhookForwards :many
-- What is due of each given target, up to its number of places: nothing of one that is
-- paused, and one attempt, now and then, of one whose breaker is open. Bodies of more than
-- small_body bytes stay where they are. alone says that the event has no other target. What
-- was due before a target's time of sinces is left out, and what it was due at is answered.
with wanted as (
    select unnest(@providers::text[]) as provider, unnest(@targets::text[]) as target,
           unnest(@places::bigint[]) as places, unnest(@lease_seconds::float8[]) as seconds, unnest(@sinces::timestamptz[]) as since
), probing as (
    select w.provider, w.target, 1::bigint as places, w.seconds, w.since, t.failures
    from wanted w join webhook_targets t on t.provider = w.provider and t.name = w.target
    where t.paused_at is null and t.opened_at is not null and t.probe_at <= now()
    for update of t skip locked
), lanes as (
    select w.provider, w.target, w.places, w.seconds, w.since, t.failures, false as probe
    from wanted w join webhook_targets t on t.provider = w.provider and t.name = w.target
    where t.paused_at is null and t.opened_at is null
    union all
    select p.provider, p.target, p.places, p.seconds, p.since, p.failures, true from probing p
), picked as (
    select f.event_id, f.target, f.provider, f.attempts, f.tries, f.interrupted, f.attempt_at, f.attempt_ms, f.lease_id, f.error, f.trace, f.due_at, l.probe, l.seconds, l.failures
    from lanes l cross join lateral (
        select * from webhook_forwards q
        where q.provider = l.provider and q.target = l.target and q.status = 'pending' and q.due_at <= now() and q.due_at >= l.since
        order by q.due_at
        limit l.places
        for update skip locked) f
    limit 128 -- as many as are asked for at most: the planner would read whole tables for what it takes for many
), probed as (
    update webhook_targets t set probe_at = now() + make_interval(secs => p.seconds)
    from picked p where p.probe and t.provider = p.provider and t.name = p.target
), archived as (
    insert into webhook_attempts (event_id, target, number, at, outcome, error, duration_ms)
    select p.event_id, p.target, p.attempts, p.attempt_at, case when p.lease_id is null then 'failed' else 'interrupted' end,
           case when p.lease_id is null then p.error else '' end, p.attempt_ms
    from picked p where p.attempt_at is not null
)
update webhook_forwards f
set lease_id = @lease_id::uuid, due_at = now() + make_interval(secs => p.seconds),
    attempts = p.attempts + 1, tries = p.tries + 1, attempt_at = now(), attempt_ms = null,
    interrupted = p.interrupted + (p.lease_id is not null)::integer
from picked p join webhook_events e on e.id = p.event_id
where f.event_id = p.event_id and f.target = p.target
returning f.event_id, f.target, f.provider, f.attempts, f.tries, f.interrupted, f.trace, p.due_at::timestamptz as was_due_at, p.probe, p.failures,
          e.event_type, e.external_id, e.retry_count, e.forced_replays, e.created_at, e.sealed_headers,
          (case when octet_length(e.raw) <= @small_body::integer then e.raw end)::bytea as raw, coalesce(octet_length(e.raw), 0)::bigint as size,
          not exists (select from webhook_forwards o where o.event_id = f.event_id and o.target <> f.target) as alone;

-- name: RecordWebhookForwards :many
-- Outcomes of attempts, and of the events that have no other target. What is unspent is no
-- attempt of those that a target has; what is returned was not begun. The events come
-- first, in the order of their ids, as with everything that locks both. Answers those
-- whose lease still held.
with given as (
    select unnest(@event_ids::uuid[]) as event_id, unnest(@targets::text[]) as target, unnest(@lease_ids::uuid[]) as lease_id,
           unnest(@statuses::text[]) as status, unnest(@errors::text[]) as error, unnest(@ats::timestamptz[]) as at,
           unnest(@took_ms::float8[]) as took_ms, unnest(@wait_seconds::float8[]) as wait_seconds,
           unnest(@unspent::boolean[]) as unspent, unnest(@returned::boolean[]) as returned,
           unnest(@headers_gone::boolean[]) as headers_gone, unnest(@alone::boolean[]) as alone
), locked as (
    select e.id from webhook_events e where e.id = any (@event_ids::uuid[]) order by e.id for no key update
), done as (
    update webhook_forwards f
    set status = g.status, error = case when g.returned then f.error else g.error end,
        due_at = case when g.status = 'pending' then now() + make_interval(secs => g.wait_seconds) end,
        lease_id = null, interrupted = 0, tries = f.tries - g.unspent::integer, attempts = f.attempts - g.returned::integer,
        attempt_at = case when not g.returned then f.attempt_at end, attempt_ms = case when not g.returned then g.took_ms end,
        headers_gone = f.headers_gone or g.headers_gone, settled_at = case when g.status <> 'pending' then g.at end
    from given g join locked l on l.id = g.event_id
    where f.event_id = g.event_id and f.target = g.target and f.lease_id = g.lease_id
    returning f.event_id, f.target, g.status, g.error, g.at, g.alone, g.returned
), settled as (
    update webhook_events e
    set status = d.status, handler_error = d.error, processed_at = case when d.status = 'processed' then d.at end, attempts = e.attempts + 1,
        lease_until = case when d.status = 'pending' then e.lease_until end,
        sealed_headers = case when d.status = 'pending' then e.sealed_headers end
    from done d where e.id = d.event_id and d.alone and not d.returned and e.status = 'pending' and e.lease_id is null
)
select d.event_id, d.target from done d;

-- name: LockWebhookEvents :exec
select id from webhook_events where id = any (@ids::uuid[]) order by id for no key update;

-- name: SettleWebhookEvents :many
-- Makes events, which the caller has locked, what their forwards are by now.
update webhook_events e
set status = s.status, handler_error = s.error, processed_at = case when s.status = 'processed' then @at::timestamptz end, attempts = e.attempts + 1,
    lease_until = case when s.status = 'pending' then e.lease_until end,
    sealed_headers = case when s.status = 'pending' then e.sealed_headers end
from (select f.event_id,
             case when bool_or(f.status = 'pending') then 'pending' when bool_or(f.status = 'failed') then 'failed' else 'processed' end as status,
             left(coalesce(string_agg(f.target || ': ' || f.error, E'\n' order by f.target) filter (where f.error <> '' and f.status <> 'processed'), ''), 4096) as error
      from webhook_forwards f where f.event_id = any (@ids::uuid[]) group by f.event_id) s
where e.id = s.event_id and e.status = 'pending' and e.lease_id is null
returning e.id, e.provider, e.status;

-- name: NoteWebhookTargets :many
-- What attempts say of their targets: whether one succeeded, how many failed after that, and
-- whether one of those was the probe of an open breaker, which then waits twice as long for
-- the next. Answers those whose breaker opened or closed. Only what before has locked is
-- set: another's change may be in it that t does not have yet when the constraint is checked.
with given as (
    select unnest(@providers::text[]) as provider, unnest(@targets::text[]) as target,
           unnest(@succeeded::boolean[]) as succeeded, unnest(@failed::integer[]) as failed, unnest(@probed::boolean[]) as probed
), before as (
    select t.provider, t.name, t.opened_at, g.succeeded, g.failed, g.probed,
           case when g.succeeded then 0 else t.failures end + g.failed as failures,
           case when g.succeeded then null else t.opened_at end as still_open, t.probe_at, t.probes
    from webhook_targets t join given g on g.provider = t.provider and g.target = t.name
    where g.failed > 0 or t.failures > 0 or t.opened_at is not null
    order by t.provider, t.name
    for update of t
)
update webhook_targets t
set failures = b.failures,
    opened_at = case when b.still_open is not null then b.still_open when b.failures >= @most_failures::integer then now() end,
    probe_at = case when b.still_open is not null and b.probed then now() + least(interval '5 seconds' * power(2, least(b.probes + 1, 10)), interval '5 minutes')
                    when b.still_open is not null then b.probe_at
                    when b.failures >= @most_failures then now() + interval '5 seconds' end,
    probes = case when b.still_open is not null then b.probes + b.probed::integer else 0 end
from before b
where t.provider = b.provider and t.name = b.name
returning t.provider, t.name, (b.opened_at is not null)::boolean as was_open, (t.opened_at is not null)::boolean as is_open, t.failures;

-- name: ReadWebhookBody :one
select raw from webhook_events where id = @id;

-- name: LockWebhookForwards :many
-- The forwards of events that the caller has claimed. in_flight says that an attempt is on,
-- new that none has been made since the arrival or the latest replay and that one is due.
select f.event_id, f.target, f.status, (f.lease_id is not null and f.due_at > now())::boolean as in_flight,
       (f.status = 'pending' and f.lease_id is null and f.tries = 0 and f.due_at <= now())::boolean as new
from webhook_forwards f where f.event_id = any (@event_ids::uuid[])
order by f.event_id, f.target
for update;

-- name: ResetWebhookForwards :exec
-- Makes forwards due now, with all their attempts before them.
with given as (
    select unnest(@event_ids::uuid[]) as event_id, unnest(@targets::text[]) as target
), archived as (
    insert into webhook_attempts (event_id, target, number, at, outcome, error, duration_ms)
    select f.event_id, f.target, f.attempts, f.attempt_at,
           case when f.lease_id is not null then 'interrupted' when f.status = 'pending' then 'failed' else f.status end,
           case when f.lease_id is null and f.status <> 'processed' then f.error else '' end, f.attempt_ms
    from webhook_forwards f join given g on g.event_id = f.event_id and g.target = f.target
    where f.attempt_at is not null
)
update webhook_forwards f
set status = 'pending', due_at = now(), lease_id = null, tries = 0, interrupted = 0, attempt_at = null, attempt_ms = null, settled_at = null
from given g where f.event_id = g.event_id and f.target = g.target;

-- name: InsertWebhookForwards :exec
insert into webhook_forwards (event_id, target, provider, due_at, created_at)
select e.id, g.target, e.provider, now(), e.created_at
from (select unnest(@event_ids::uuid[]) as event_id, unnest(@targets::text[]) as target) g join webhook_events e on e.id = g.event_id
on conflict (event_id, target) do nothing;

-- name: DeleteWebhookForwards :exec
-- Forgets targets of events; the ledger of their attempts stays.
with given as (
    select unnest(@event_ids::uuid[]) as event_id, unnest(@targets::text[]) as target
), archived as (
    insert into webhook_attempts (event_id, target, number, at, outcome, error, duration_ms)
    select f.event_id, f.target, f.attempts, f.attempt_at,
           case when f.lease_id is not null then 'interrupted' when f.status = 'pending' then 'failed' else f.status end,
           case when f.lease_id is null and f.status <> 'processed' then f.error else '' end, f.attempt_ms
    from webhook_forwards f join given g on g.event_id = f.event_id and g.target = f.target
    where f.attempt_at is not null
    on conflict do nothing
)
delete from webhook_forwards f using given g where f.event_id = g.event_id and f.target = g.target;

-- name: HandOverWebhookEvents :exec
-- Leaves events to their forwards, as if nobody had claimed them.
update webhook_events e
set status = 'pending', lease_id = null, lease_until = 'infinity', job_id = null, interrupted = 0, processed_at = null,
    attempts = e.attempts - 1, tries = 0, attempt_at = null, attempt_ms = null, forced_replays = e.forced_replays + @forced::integer
where e.id = any (@ids::uuid[]) and e.lease_id = @lease_id::uuid;

-- name: AnnounceWebhookTargets :exec
-- Sorted, so that two instances take their locks in one order.
insert into webhook_targets (provider, name, announced_at)
select g.provider, g.name, now()
from (select unnest(@providers::text[]) as provider, unnest(@names::text[]) as name) g
order by g.provider, g.name
on conflict (provider, name) do update set announced_at = excluded.announced_at;

-- name: ListWebhookTargets :many
-- Every target that was announced within so many seconds, or that something waits for, with
-- what waits, counted up to most. The epoch stands for no instant.
with recursive waiting (provider, target) as (
    (select f.provider, f.target from webhook_forwards f where f.status = 'pending' order by f.provider, f.target limit 1)
    union all
    select n.provider, n.target
    from waiting w cross join lateral (
        select f.provider, f.target from webhook_forwards f
        where f.status = 'pending' and (f.provider, f.target) > (w.provider, w.target)
        order by f.provider, f.target limit 1) n
), named as (
    select w.provider, w.target from waiting w
    union
    select t.provider, t.name from webhook_targets t
    where t.announced_at > now() - make_interval(secs => @seconds::float8) or t.paused_at is not null
)
select n.provider::text as provider, n.target::text as target, coalesce(t.announced_at, 'epoch')::timestamptz as announced_at, t.paused_at, t.opened_at, t.probe_at, coalesce(t.failures, 0)::integer as failures,
       coalesce(b.waiting, 0)::bigint as waiting, coalesce(b.due, 0)::bigint as due, coalesce(b.in_flight, 0)::bigint as in_flight, coalesce(b.oldest, 'epoch')::timestamptz as oldest,
       coalesce((t.announced_at > now() - make_interval(secs => @live_seconds::float8)), false)::boolean as live
from named n
left join webhook_targets t on t.provider = n.provider and t.name = n.target
left join lateral (
    select count(*) as waiting, count(*) filter (where m.lease_id is null and m.due_at <= now()) as due,
           count(*) filter (where m.lease_id is not null and m.due_at > now()) as in_flight, min(m.created_at) as oldest
    from (select f.lease_id, f.due_at, f.created_at from webhook_forwards f
          where f.provider = n.provider and f.target = n.target and f.status = 'pending' order by f.due_at limit @most::bigint) m) b on true
order by n.provider, n.target;

-- name: FailAbsentWebhookForwards :many
-- Ends forwards to a target that nobody has, and answers their events, which are locked.
with picked as (
    select f.event_id from webhook_forwards f
    where f.provider = @provider and f.target = @target and f.status = 'pending' and (f.lease_id is null or f.due_at < now())
      and f.created_at < now() - make_interval(secs => @seconds::float8)
    order by f.due_at
    limit @max_rows
), locked as (
    select e.id from webhook_events e where e.id in (select p.event_id from picked p) order by e.id for no key update
), archived as (
    insert into webhook_attempts (event_id, target, number, at, outcome, error, duration_ms)
    select f.event_id, f.target, f.attempts, f.attempt_at, case when f.lease_id is null then 'failed' else 'interrupted' end,
           case when f.lease_id is null then f.error else '' end, f.attempt_ms
    from webhook_forwards f join locked l on l.id = f.event_id
    where f.target = @target and f.status = 'pending' and f.attempt_at is not null
    on conflict do nothing
)
update webhook_forwards f
set status = 'failed', error = @error, due_at = null, lease_id = null, attempt_at = null, attempt_ms = null, interrupted = 0, settled_at = now()
from locked l
where f.event_id = l.id and f.target = @target and f.status = 'pending' and (f.lease_id is null or f.due_at < now())
returning f.event_id;

-- name: PauseWebhookTarget :execrows
update webhook_targets set paused_at = coalesce(paused_at, @at::timestamptz) where provider = @provider and name = @name;

-- name: ResumeWebhookTarget :execrows
-- The breaker closes too: who resumes a target has mended it.
update webhook_targets set paused_at = null, failures = 0, opened_at = null, probe_at = null, probes = 0 where provider = @provider and name = @name;

-- name: DeleteOldWebhookTargets :exec
-- Forgets targets that nobody has had for so long, and that nobody paused.
delete from webhook_targets t
where t.announced_at < now() - make_interval(secs => @seconds::float8) and t.paused_at is null
  and not exists (select from webhook_forwards f where f.provider = t.provider and f.target = t.name and f.status = 'pending');
