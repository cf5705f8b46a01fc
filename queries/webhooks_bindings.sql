-- name: AnnounceWebhookBindings :exec
-- Sorted, so that two instances take their locks in one order.
insert into webhook_bindings (provider, event_type, announced_at)
select b.provider, b.event_type, now()
from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type) b
order by b.provider, b.event_type
on conflict (provider, event_type) do update set announced_at = excluded.announced_at;

-- name: DeleteExpiredWebhookBindings :exec
delete from webhook_bindings b using (
    select provider, event_type from webhook_bindings
    where announced_at < now() - make_interval(secs => @seconds::float8)
    for update skip locked
) expired
where b.provider = expired.provider and b.event_type = expired.event_type;

-- name: IsWebhookBindingAnnounced :one
select exists (
    select from webhook_bindings
    where provider = @provider and event_type in (@event_type, '') and announced_at > now() - make_interval(secs => @seconds::float8)
);

-- name: CountUnboundWebhookEvents :many
-- Pending events for which none of the given bindings is a handler, the most first.
select w.provider, w.event_type, count(*) as events, min(w.created_at)::timestamptz as oldest
from webhook_events w
where w.status = 'pending' and w.lease_until < 'infinity' -- what targets get is theirs
  and not exists (select from (select unnest(@providers::text[]) as provider, unnest(@event_types::text[]) as event_type) b
                  where b.provider = w.provider and b.event_type in (w.event_type, ''))
group by w.provider, w.event_type
order by count(*) desc, w.provider, w.event_type
limit @max_rows;

-- name: FailUnboundWebhookEvents :many
-- Ends pending events that nobody is handling and whose binding no instance has
-- announced for so long. What arrived since then may be of an instance that has not
-- announced itself yet.
with unbound as (
    select w.* from webhook_events w
    where w.status = 'pending' and w.lease_until < 'infinity' and (w.lease_id is null or w.lease_until < now())
      and w.created_at < now() - make_interval(secs => @seconds::float8)
      and not exists (select from webhook_bindings b
                      where b.provider = w.provider and b.event_type in (w.event_type, '')
                        and b.announced_at > now() - make_interval(secs => @seconds::float8))
    limit @max_rows
    for no key update of w skip locked
), archived as (
    insert into webhook_attempts (event_id, number, at, outcome, error, duration_ms)
    select id, attempts, attempt_at, case when lease_id is null then 'failed' else 'interrupted' end,
           case when lease_id is null then handler_error else '' end, attempt_ms
    from unbound where attempt_at is not null
), failed as (
    update webhook_events e
    set status = 'failed', handler_error = @handler_error, processed_at = null, attempt_at = null, attempt_ms = null,
        interrupted = 0, lease_id = null, lease_until = null, job_id = null, sealed_headers = null
    from unbound where e.id = unbound.id
    returning e.provider, e.event_type
)
select provider, event_type, count(*) as events from failed group by provider, event_type order by provider, event_type;
