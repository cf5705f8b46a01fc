-- What the page on security reads.

-- name: SetSignInCounts :exec
-- One instance's sums of an hour, which never fall.
insert into sign_in_counts as c (hour, instance, outcome, count)
select n.hour, @instance, n.outcome, n.count
from (select unnest(@hours::timestamptz[]) as hour, unnest(@outcomes::text[]) as outcome, unnest(@counts::bigint[]) as count) n
on conflict (hour, instance, outcome) do update set count = greatest(c.count, excluded.count);

-- name: SumSignInCounts :many
select hour, outcome, sum(count)::bigint as count from sign_in_counts
where hour >= @since and hour < @until
group by hour, outcome order by hour, outcome;

-- name: DeleteSignInCounts :execrows
-- Also those of a process whose clock was ahead.
delete from sign_in_counts where hour < @before or hour > @after;

-- name: ListCSPReportKeys :many
select directive, blocked, page from csp_reports;

-- name: AddCSPReports :exec
insert into csp_reports as r (directive, blocked, page, count, first_seen, last_seen)
select n.directive, n.blocked, n.page, n.count, @now, @now
from (select unnest(@directives::text[]) as directive, unnest(@blocked::text[]) as blocked, unnest(@pages::text[]) as page, unnest(@counts::bigint[]) as count) n
order by 1, 2, 3
on conflict (directive, blocked, page) do update set count = r.count + excluded.count, last_seen = greatest(r.last_seen, excluded.last_seen);

-- name: ListCSPReports :many
select * from csp_reports order by last_seen desc, count desc, directive, blocked, page limit @most;

-- name: DeleteCSPReports :execrows
delete from csp_reports where last_seen < @before;

-- name: ClearCSPReports :execrows
delete from csp_reports;

-- name: ListLimited :many
-- Who is at a limit now. most is 0 for a limit that blocks after so many in a row.
select t.name, t.subject, t.count, coalesce(t.blocked_until, t.forget_at)::timestamptz as until, count(*) over () as total
from throttles t
join (select unnest(@names::text[]) as name, unnest(@most::int[]) as most) l on l.name = t.name
where case when l.most = 0 then t.blocked_until > @now else t.forget_at > @now and t.count >= l.most end
order by until desc, t.name, t.subject limit @max_rows;

-- name: CountCredentialAges :many
-- What lets somebody in now, by the number of the bounds, which rise, that it is
-- younger than; of each kind the first 100,000.
with session as (
    select s.created_at from auth_sessions s
    where s.revoked_at is null and s.expires_at > @now::timestamptz and not exists (select from page_sessions p where p.session_id = s.id) limit 100000
), page_session as (
    select s.created_at from page_sessions p join auth_sessions s on s.id = p.session_id
    where s.revoked_at is null and s.expires_at > @now::timestamptz limit 100000
), api_token as (
    select t.created_at from api_tokens t where t.revoked_at is null and (t.expires_at is null or t.expires_at > @now::timestamptz) limit 100000
), site_key as (
    select k.created_at from site_api_keys k join sites s on s.id = k.site_id
    where s.deleted_at is null and k.revoked_at is null and (k.expires_at is null or k.expires_at > @now::timestamptz) limit 100000
), credential as (
    select 'session' as kind, created_at from session
    union all select 'page_session', created_at from page_session
    union all select 'api_token', created_at from api_token
    union all select 'site_key', created_at from site_key
)
select c.kind::text as kind, width_bucket(c.created_at, @bounds::timestamptz[])::int as age, count(*) as count
from credential c group by 1, 2 order by 1, 2;

-- name: CountSecondFactors :many
-- People's active accounts, the first 200,000, and how many of them have a second factor.
select u.role, count(*) as accounts, count(f.user_id) as protected
from (select id, role from users where active and not exists (select from service_accounts a where a.id = users.id) limit 200000) u
left join totp_factors f on f.user_id = u.id and f.confirmed_at is not null
group by u.role order by u.role;

-- name: ListUnprotectedAdmins :many
select u.id, u.email from users u
where u.role = 'ADMIN' and u.active
  and not exists (select from service_accounts a where a.id = u.id)
  and not exists (select from totp_factors f where f.user_id = u.id and f.confirmed_at is not null)
order by u.id limit @most;

-- name: FindSecurityFacts :one
-- What the checklist is made of; the epoch stands for never. Numbers of tokens and keys are of those that work now.
select
    (select count(*) from api_tokens t where t.revoked_at is null and t.expires_at is null) as endless_tokens,
    (select count(*) from api_tokens t where t.revoked_at is null and (t.expires_at is null or t.expires_at > @now::timestamptz) and coalesce(t.last_used_at, t.created_at) < @unused_since::timestamptz) as unused_tokens,
    (select count(*) from site_api_keys k join sites s on s.id = k.site_id
     where s.deleted_at is null and k.revoked_at is null and (k.expires_at is null or k.expires_at > @now::timestamptz) and k.created_at < @old_since::timestamptz) as old_site_keys,
    (select dev_since from installation) as dev_since,
    coalesce((select max(g.created_at) from signing_keys g where g.retires_at is null), 'epoch')::timestamptz as signing_key_at,
    (select count(*) from signing_keys where wrapping_key_id <> @signing_key_id::text) as stale_signing_keys,
    (select count(*) from totp_factors where secret_key_id <> @totp_key_id::text) as stale_factors,
    (select count(*) from mails where status = 'queued' and secret_key_id <> @mail_key_id::text) as stale_mails,
    (select count(*) from audit_keys where wrapping_key_id <> @audit_key_id::text) as stale_audit_keys,
    coalesce((select max(c.at) from audit_checkpoints c), (select a.at from audit_log a where a.seq = 1), now())::timestamptz as checkpoint_at,
    coalesce((select max(c.size) from audit_checkpoints c), 0)::bigint as checkpoint_size,
    (select seq from audit_head) as audit_seq;

-- name: CountRefusedWebhooks :many
select (case when reason = 'unknown_provider' then '' else provider end)::text as provider, reason, count(*) filter (where created_at >= @since::timestamptz) as of_late, count(*) as kept, max(created_at)::timestamptz as latest
from webhook_rejected group by 1, 2 order by of_late desc, latest desc limit @most;

-- name: CountRefusedWebhooksByHour :many
select date_trunc('hour', created_at, 'UTC')::timestamptz as hour, count(*) as count from webhook_rejected
where created_at >= @since::timestamptz group by 1 order by 1;

-- name: ListDeliveringProviders :many
-- Those of the providers of which a delivery was taken.
select p.name::text from unnest(@providers::text[]) as p (name)
where exists (select from webhook_events e where e.provider = p.name and e.created_at >= @since::timestamptz);

-- name: ListRefusedSignIns :many
-- Whose sign-ins the newest entries of the audit log say were refused.
with first_factor as (
    select l.at, l.ip, l.op, l.table_name, l.row_id, l.changes from audit_log l where l.action = 'login' order by l.seq desc limit 1000
), second_factor as (
    select l.at, l.ip, l.op, l.table_name, l.row_id, l.changes from audit_log l where l.action = 'verify-two-factor' order by l.seq desc limit 1000
), newest as (
    select * from first_factor union all select * from second_factor
), note as materialized (
    select n.at, n.ip, n.row_id::bigint as user_id, n.changes::jsonb -> 'note' as what from newest n
    where n.op = 'note' and n.table_name = 'users' and n.row_id ~ '^[1-9][0-9]{0,17}$' and n.at >= @since::timestamptz
)
select n.user_id::bigint as user_id, coalesce(u.email, '')::text as email, coalesce(n.ip, '')::text as ip,
       coalesce(n.what ->> 'reason', '')::text as reason, count(*) as count, max(n.at)::timestamptz as latest
from note n left join users u on u.id = n.user_id
where n.what is null or n.what ->> 'event' = 'sign_in_refused'
group by 1, 2, 3, 4 order by latest desc limit @most;

-- name: FindViewerRole :one
-- Whether the console's role is more than it should be.
select (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls
        or exists (select from pg_catalog.pg_auth_members m where m.member = r.oid))::bool as powerful
from pg_catalog.pg_roles r where r.rolname = @name::text;
