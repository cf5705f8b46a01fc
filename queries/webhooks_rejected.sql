-- name: InsertRejectedWebhooks :exec
insert into webhook_rejected (id, provider, reason, address, headers, size, created_at)
select d.id, d.provider, d.reason, nullif(d.address, '')::inet, d.headers::jsonb, d.size, d.created_at
from (select unnest(@ids::uuid[]) as id,
             unnest(@providers::text[]) as provider,
             unnest(@reasons::text[]) as reason,
             unnest(@addresses::text[]) as address,
             unnest(@headers::text[]) as headers,
             unnest(@sizes::bigint[]) as size,
             unnest(@created_ats::timestamptz[]) as created_at) d;

-- name: TrimRejectedWebhooksOfProvider :execrows
-- Keeps the newest rows of one provider.
delete from webhook_rejected w
where w.provider = @provider and w.reason <> 'unknown_provider'
  and w.id <= (select r.id from webhook_rejected r where r.provider = @provider and r.reason <> 'unknown_provider'
             order by r.id desc offset @keep::integer limit 1);

-- name: TrimRejectedWebhooksUnknown :execrows
-- Keeps the newest rows of all unknown providers together.
delete from webhook_rejected w
where w.reason = 'unknown_provider'
  and w.id <= (select r.id from webhook_rejected r where r.reason = 'unknown_provider'
             order by r.id desc offset @keep::integer limit 1);

-- name: TrimRejectedWebhooksByAge :execrows
delete from webhook_rejected where created_at < @before::timestamptz;

-- name: CountWebhooksByStatus :many
-- What is pending or failed has an index of its own; the total of a provider is
-- read from its index alone. The epoch stands for no delivery.
select p.name::text as provider,
       (select count(*) from webhook_events e where e.provider = p.name) as total,
       (select count(*) from webhook_events e where e.provider = p.name and e.status = 'pending') as pending,
       (select count(*) from webhook_events e where e.provider = p.name and e.status = 'failed') as failed,
       coalesce((select e.created_at from webhook_events e where e.provider = p.name order by e.created_at desc, e.id desc limit 1),
                'epoch')::timestamptz as last_delivery
from unnest(@providers::text[]) as p (name);

-- name: WebhookFailureStreaks :many
-- How many of a provider's newest handled events in a row are failing: failed, or
-- waiting for another attempt after one that failed. Providers without a failing
-- event have no row. last_success is looked for behind the first failing event
-- only; the epoch stands for none.
with failing as materialized (
    select provider, created_at from webhook_events
    where status = 'failed' or status = 'pending' and handler_error <> ''
), first as (
    select provider, min(created_at) as since from failing group by provider
)
select f.provider, coalesce(ok.at, 'epoch')::timestamptz as last_success,
       (select count(*) from failing x where x.provider = f.provider and (ok.at is null or x.created_at > ok.at)) as streak
from first f
left join lateral (
    select e.created_at as at from webhook_events e
    where e.provider = f.provider and e.status = 'processed' and e.attempts > 0 and e.created_at > f.since
    order by e.created_at desc, e.id desc limit 1
) ok on true;

-- name: EndWebhookAlerts :exec
-- A streak has ended when fewer events fail than an alert needs, or when an event
-- that came after the alert succeeded.
delete from webhook_alerts a
where not exists (
    select from (select unnest(@providers::text[]) as provider, unnest(@last_successes::timestamptz[]) as last_success) s
    where s.provider = a.provider and s.last_success <= a.alerted_at);

-- name: ClaimWebhookAlert :execrows
-- One claim per streak, whoever comes first.
insert into webhook_alerts (provider, streak, alerted_at) values (@provider, @streak, @alerted_at)
on conflict (provider) do nothing;
