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

-- name: CountWebhooksOfProviders :many
-- How many events of each provider are pending, how many failed, and how many are not
-- older than its time of sinces; settled of those are older than settled_at. What is open
-- is read from indexes of its own, the rest from the provider's index alone. The epoch
-- stands for no delivery.
with open as (
    select s.provider, count(*) filter (where not s.has_failed) as pending, count(*) filter (where s.has_failed) as failed
    from (select e.provider, false as has_failed from webhook_events e where e.status = 'pending'
          union all
          select e.provider, true as has_failed from webhook_events e where e.status = 'failed') s
    group by s.provider
)
select p.name::text as provider, coalesce(o.pending, 0)::bigint as pending, coalesce(o.failed, 0)::bigint as failed, n.newer, n.settled,
       coalesce((select e.created_at from webhook_events e where e.provider = p.name order by e.created_at desc, e.id desc limit 1),
                'epoch')::timestamptz as last_delivery
from (select unnest(@providers::text[]) as name, unnest(@sinces::timestamptz[]) as since) p
left join open o on o.provider = p.name
cross join lateral (
    select count(*) as newer, count(*) filter (where e.created_at < @settled_at::timestamptz) as settled
    from webhook_events e where e.provider = p.name and e.created_at >= p.since
) n;

-- name: WebhookFailureStreaks :many
-- How many of a provider's newest handled events in a row are failing: failed, or
-- waiting for another attempt after one that failed. Providers without a failing
-- event have no row. last_success is looked for behind the first failing event
-- only, and among the newest most_rows events of the provider, handled or not; the epoch
-- stands for none. Where there is none, no older failing event counts either: otherwise all
-- that came since a handler was taken away would be read each time. Only the provider's
-- index has the order by provider and time, where = would let that of all events serve.
with recursive failed_of as (
    (select e.provider from webhook_events e where e.status = 'failed' order by e.provider limit 1)
    union all
    select (select e.provider from webhook_events e where e.status = 'failed' and e.provider > f.provider order by e.provider limit 1)
    from failed_of f where f.provider is not null
), waiting_of as (
    (select e.provider from webhook_events e where e.status = 'pending' and e.handler_error <> '' order by e.provider limit 1)
    union all
    select (select e.provider from webhook_events e where e.status = 'pending' and e.handler_error <> '' and e.provider > w.provider order by e.provider limit 1)
    from waiting_of w where w.provider is not null
), first as (
    select s.provider, min(s.since) as since
    from (select f.provider, (select x.created_at from webhook_events x
                              where x.status = 'failed' and x.provider >= f.provider and x.provider <= f.provider
                              order by x.provider desc, x.created_at, x.id limit 1) as since
          from failed_of f where f.provider is not null
          union all
          select w.provider, (select x.created_at from webhook_events x
                              where x.status = 'pending' and x.handler_error <> '' and x.provider >= w.provider and x.provider <= w.provider
                              order by x.provider desc, x.created_at, x.id limit 1)
          from waiting_of w where w.provider is not null) s
    group by s.provider
)
select f.provider, coalesce(ok.at, 'epoch')::timestamptz as last_success,
       ((select count(*) from webhook_events x
         where x.status = 'failed' and x.provider = f.provider and x.created_at > coalesce(ok.at, edge.at, '-infinity'))
        + (select count(*) from (
            select x.created_at from webhook_events x where x.status = 'pending' and x.handler_error <> '' and x.provider >= f.provider and x.provider <= f.provider
            order by x.provider, x.created_at desc, x.id desc limit @most_rows) n
           where n.created_at > coalesce(ok.at, edge.at, '-infinity')))::bigint as streak
from first f
left join lateral (
    select n.created_at as at
    from (select e.provider, e.created_at, e.status, e.attempts from webhook_events e
          where e.provider >= f.provider and e.provider <= f.provider and e.created_at > f.since
          order by e.provider, e.created_at desc, e.id desc limit @most_rows::integer) n
    where n.status = 'processed' and n.attempts > 0
    order by n.provider, n.created_at desc limit 1
) ok on true
left join lateral (
    select e.created_at as at from webhook_events e
    where ok.at is null and e.provider >= f.provider and e.provider <= f.provider
    order by e.provider, e.created_at desc, e.id desc offset @most_rows::integer limit 1
) edge on true;

-- name: EndWebhookAlerts :many
-- A streak has ended when fewer events fail than an alert needs, or when an event
-- that came after the alert succeeded.
delete from webhook_alerts a
where not exists (
    select from (select unnest(@providers::text[]) as provider, unnest(@last_successes::timestamptz[]) as last_success) s
    where s.provider = a.provider and s.last_success <= a.alerted_at)
returning a.provider;

-- name: ClaimWebhookAlert :execrows
-- One claim per streak, whoever comes first.
insert into webhook_alerts (provider, streak, alerted_at) values (@provider, @streak, @alerted_at)
on conflict (provider) do nothing;
