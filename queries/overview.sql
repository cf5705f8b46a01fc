-- What the first operator page asks of each part. All of it is bounded, whatever the size
-- of the tables.

-- name: MeasureWebhooks :one
-- What waits, and what failed and still has its body, each counted up to a limit. How old
-- what waits is needs its rows, and is asked of the thousand that are due first. The epoch
-- stands for nothing.
select
    (select count(*) from (select from webhook_events where status = 'pending' limit @most::int) p)::bigint as waiting,
    coalesce((select min(w.created_at) from (
        select created_at from webhook_events where status = 'pending' order by lease_until limit 1000) w), 'epoch')::timestamptz as waiting_since,
    (select count(*) from (
        select from webhook_events
        where status = 'failed' and created_at >= (select emptied_until from webhook_retention) limit @most) f)::bigint as failed;

-- name: ListWebhookTroubles :many
-- Of each provider, what was refused since the last delivery that was taken, counted up
-- to a limit, and the failure streak that an alert was sent about. Ids are in order of time.
-- The epoch stands for no delivery.
select p.name::text as provider, coalesce(a.streak, 0)::bigint as streak,
       coalesce(d.created_at, 'epoch')::timestamptz as taken_at,
       coalesce(r.refused, 0)::bigint as refused, coalesce(r.refused_at, 'epoch')::timestamptz as refused_at, coalesce(r.reason, '')::text as reason
from unnest(@providers::text[]) as p (name)
left join webhook_alerts a on a.provider = p.name
left join lateral (
    select e.created_at from webhook_events e where e.provider = p.name order by e.created_at desc, e.id desc limit 1
) d on true
left join lateral (
    select count(*) as refused, max(n.created_at) as refused_at, (array_agg(n.reason order by n.id desc))[1] as reason
    from (select w.id, w.created_at, w.reason from webhook_rejected w
          where w.provider = p.name and w.reason <> 'unknown_provider' order by w.id desc limit @most_refused::int) n
    where d.created_at is null or n.created_at > d.created_at
) r on true;

-- name: MeasureMails :one
-- What waits, how much of it several attempts could not send, and what failed since an
-- instant, each among a limited number of rows. The epoch stands for nothing.
select count(*)::bigint as waiting, count(*) filter (where q.attempts >= 3)::bigint as stuck,
       coalesce(min(q.queued_at), 'epoch')::timestamptz as waiting_since,
       (select count(*) from (select queued_at from mails where status = 'failed' order by id desc limit @most::int) f
        where f.queued_at >= @since::timestamptz)::bigint as failed
from (select attempts, queued_at from mails where status = 'queued' order by id limit @most) q;

-- name: MeasureAuditPending :one
-- What has no place in the chain yet, among a limited number of entries. The epoch stands
-- for nothing.
select count(*)::bigint as waiting, coalesce(min(p.at), 'epoch')::timestamptz as waiting_since
from (select at from audit_pending order by id limit @most::int) p;

-- name: ListExpiringAPITokens :many
-- Of active service accounts, those that were not rotated, the soonest first.
select t.id, t.name, t.user_id, s.name as account_name, t.expires_at::timestamptz as expires_at
from api_tokens t join service_accounts s on s.id = t.user_id
where s.active and t.revoked_at is null and t.replaced_at is null
  and t.expires_at > @after::timestamptz and t.expires_at <= @soon::timestamptz
order by t.expires_at, t.id limit @most::int;

-- name: MeasureUncountedDays :one
-- Days of sites that ended long ago and are not counted yet. The epoch stands for none.
select count(*)::bigint as days, coalesce(min(d.ends_at), 'epoch')::timestamptz as ended_at
from (select ends_at from site_days where state <> 'sealed' and ends_at < @ended_before::timestamptz order by ends_at limit @most::int) d;
