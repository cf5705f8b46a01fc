-- name: MeasureWebhookBacklog :many
-- How many events of each provider have no outcome, counted up to a limit, and when the
-- oldest of them came; the epoch stands for none. The range in place of = keeps the order
-- of the provider's own index.
select p.name::text as provider,
       (select count(*) from (select from webhook_events e where e.status = 'pending' and e.provider = p.name limit @most::integer) w)::bigint as waiting,
       coalesce((select e.created_at from webhook_events e
                 where e.status = 'pending' and e.provider >= p.name and e.provider <= p.name
                 order by e.provider desc, e.created_at, e.id limit 1), 'epoch')::timestamptz as oldest
from unnest(@providers::text[]) as p (name);

-- name: MeasureWebhookFailures :many
-- Of each provider that had a failing event since an instant: how many of its newest
-- most_rows events since then were handled, and how many of those are failing.
select p.name::text as provider, count(*) as handled, (count(*) filter (where n.failing))::bigint as failing
from unnest(@providers::text[]) as p (name)
cross join lateral (
    select (e.status = 'failed' or e.status = 'pending' and e.handler_error <> '') as failing, e.status = 'processed' and e.attempts > 0 as succeeded
    from webhook_events e
    where e.provider >= p.name and e.provider <= p.name and e.created_at >= @since::timestamptz
    order by e.provider, e.created_at desc, e.id desc
    limit @most_rows::integer
) n
where (n.failing or n.succeeded)
  and (exists (select from webhook_events x where x.status = 'failed' and x.provider = p.name and x.created_at >= @since)
       or exists (select from webhook_events x where x.status = 'pending' and x.handler_error <> '' and x.provider = p.name and x.created_at >= @since))
group by p.name;

-- name: RaiseWebhookTrouble :execrows
-- One claim per trouble, whoever comes first.
insert into webhook_troubles (provider, kind, raised_at) values (@provider, @kind, @raised_at)
on conflict (provider, kind) do nothing;

-- name: EndWebhookTroubles :many
-- Of the given providers, the troubles of a kind that they don't have any more.
delete from webhook_troubles
where kind = @kind and provider = any (@known::text[]) and provider <> all (@troubled::text[])
returning provider, raised_at;
